// One event stream for all tabs of a browser that use the same key.
import { follow, type Said, type Where } from "./feed";

const ports = new Set<MessagePort>();
let stop: (() => void) | null = null;
let last: Said | null = null;

(self as unknown as SharedWorkerGlobalScope).onconnect = (event: MessageEvent) => {
  const port = event.ports[0];
  port.onmessage = (message: MessageEvent<Where | "bye">) => {
    if (message.data === "bye") {
      ports.delete(port);
      if (!ports.size && stop) {
        stop();
        stop = null;
      }
      return;
    }
    ports.add(port);
    if (last) port.postMessage(last);
    stop ??= follow(message.data, (said) => {
      if (said.kind === "state") last = said;
      for (const each of ports) each.postMessage(said);
    });
  };
  port.start();
};
