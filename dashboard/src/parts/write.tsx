// Every write goes through one dialog that names the thing and the effect, and shows the same call for a terminal.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { curl, send, type Write } from "../lib/api";
import { cli } from "../lib/cli";
import { problemOf } from "../lib/load";
import type { Problem } from "../types";
import { Copy, Dialog, ProblemBox, tell } from "./ui";

export type Ask = {
  title: string;
  effect: ComponentChildren;
  button: string;
  isDanger?: boolean;
  /** Must be typed before the button works. */
  typed?: string;
  /** Made anew when the form changes. */
  write: Write | (() => Write);
  form?: () => ComponentChildren;
  done: (answer: unknown) => void | { text: string; link?: { href: string; text: string } };
};

const asked = signal<Ask | null>(null);
export function ask(what: Ask): void {
  asked.value = what;
}

export const writeOf = (what: Ask): Write => (typeof what.write === "function" ? what.write() : what.write);

export function Asking() {
  const what = asked.value;
  return what ? <AskDialog key={what.title} what={what} /> : null;
}

function AskDialog({ what }: { what: Ask }) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [typed, setTyped] = useState("");
  const close = () => (asked.value = null);
  const isReady = !what.typed || typed.trim() === what.typed;
  async function run(event: Event): Promise<void> {
    event.preventDefault();
    if (!isReady || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const told = what.done(await send(writeOf(what)));
      close();
      if (told) tell(told.text, told.link);
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog title={what.title} onClose={close}>
      <form onSubmit={run}>
        <div class="effect">{what.effect}</div>
        {what.form?.()}
        {what.typed && (
          <label class="field">
            <span>To go on, type <strong>{what.typed}</strong></span>
            <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
        {problem && <ProblemBox problem={problem} />}
        <div class="row dialog-foot">
          <CurlCopy make={() => writeOf(what)} />
          <span class="grow" />
          <button type="button" onClick={close}>Close</button>
          <button type="submit" class={what.isDanger ? "danger" : "primary"} disabled={!isReady || isBusy}>{isBusy ? "Working…" : what.button}</button>
        </div>
      </form>
    </Dialog>
  );
}

export function CurlCopy({ make }: { make: () => Write }) {
  try {
    return <Terminal writes={[make()]} />;
  } catch {
    return null; // the form is not valid yet
  }
}

/** The same writes for a terminal: as curl, and as commands where each of them has one. */
export function Terminal({ writes }: { writes: Write[] }) {
  const commands = writes.map(cli);
  return (
    <>
      <Copy text={writes.map(curl).join("\n")} label="Copy as curl" />
      {commands.length > 0 && commands.every(Boolean) && <Copy text={commands.join("\n")} label="Copy as CLI" />}
    </>
  );
}
