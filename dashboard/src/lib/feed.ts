// Reads one event stream to its end and starts again. Runs in the shared worker, or in the page where there is none.
export type Said =
  | { kind: "event"; event: string; data: unknown }
  | { kind: "state"; state: "live" | "reconnecting"; since: number };

export type Where = { url: string; headers: Record<string, string> };

const SILENCE_MS = 25_000;

export function follow(where: Where, say: (said: Said) => void): () => void {
  let lastId = "";
  let stopped = false;
  let abort = new AbortController();
  let tries = 0;

  async function once(): Promise<void> {
    abort = new AbortController();
    const headers = lastId ? { ...where.headers, "Last-Event-ID": lastId } : where.headers;
    let silence = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      const answer = await fetch(where.url, { headers, signal: abort.signal });
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      say({ kind: "state", state: "live", since: Date.now() });
      tries = 0;
      for await (const frame of frames(answer.body)) {
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), SILENCE_MS);
        if (frame.id) lastId = frame.id;
        if (frame.data) say({ kind: "event", event: frame.event, data: JSON.parse(frame.data) });
      }
    } finally {
      clearTimeout(silence);
    }
  }

  async function run(): Promise<void> {
    let since = Date.now();
    while (!stopped) {
      try {
        await once();
        since = Date.now();
      } catch {
        // Said below; tried again in a moment.
      }
      if (stopped) return;
      say({ kind: "state", state: "reconnecting", since });
      tries += 1;
      await new Promise((resolve) => setTimeout(resolve, Math.min(15_000, 1000 * 2 ** Math.min(tries, 4)) * (0.5 + Math.random() / 2)));
    }
  }

  void run();
  return () => {
    stopped = true;
    abort.abort();
  };
}

export type Frame = { id: string; event: string; data: string };

/** Server-sent events of a body; a comment comes as a frame without data. */
export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const frame: Frame = { id: "", event: "message", data: "" };
      for (const line of part.split("\n")) {
        const at = line.indexOf(":");
        const name = line.slice(0, at);
        const text = line.slice(at + 1).replace(/^ /, "");
        if (name === "id") frame.id = text;
        else if (name === "event") frame.event = text;
        else if (name === "data") frame.data += text;
      }
      yield frame;
    }
  }
}
