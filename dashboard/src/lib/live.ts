// What happens, as it happens: pages ask for changes here, and learn whether what they show is fresh.
import { effect, signal, untracked } from "@preact/signals";
import { BASE, headers, key, needsKey, tenant } from "./api";
import { follow, type Said } from "./feed";

export type RunEvent = {
  run_id: string; job_id: string; status: string; scheduled_for: string; attempt_number: number;
  executor_id: string | null; reason: string | null; at: string;
};
export type JobEvent = { job_id: string; name: string; version: number; change: string; at: string };
export type Change = { runs: RunEvent[]; jobs: JobEvent[]; isGap: boolean };

export type LiveState = "live" | "paused" | "reconnecting" | "starting";
export const state = signal<LiveState>("starting");
export const freshAt = signal(Date.now());
export const isPaused = signal(false);

type Listener = (change: Change) => void;
const listeners = new Set<Listener>();
let waiting: Change = { runs: [], jobs: [], isGap: false };
let timer = 0;

/** Changes come in groups, at most two a second, and not while the page is paused or hidden. */
export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function flush(): void {
  timer = 0;
  if (isPaused.value || document.hidden) return;
  const change = waiting;
  waiting = { runs: [], jobs: [], isGap: false };
  if (change.runs.length || change.jobs.length || change.isGap) for (const each of listeners) each(change);
}

function later(): void {
  timer ||= window.setTimeout(flush, 500);
}

function take(said: Said): void {
  if (said.kind === "state") {
    state.value = said.state;
    if (!isPaused.value) freshAt.value = said.state === "live" ? Date.now() : said.since;
    return;
  }
  if (!isPaused.value) freshAt.value = Date.now();
  if (said.event === "run") waiting.runs.push(said.data as RunEvent);
  else if (said.event === "job") waiting.jobs.push(said.data as JobEvent);
  else if (said.event === "gap") waiting.isGap = true;
  // Whoever was away for long reads anew instead of holding everything that happened.
  if (waiting.runs.length > 5000) waiting = { runs: [], jobs: [], isGap: true };
  later();
}

function connect(): () => void {
  const where = { url: location.origin + BASE + "/events", headers: headers() };
  if (typeof SharedWorker === "undefined") return follow(where, take);
  const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: JSON.stringify(where.headers) });
  worker.port.onmessage = (message: MessageEvent<Said>) => take(message.data);
  worker.port.postMessage(where);
  const bye = () => worker.port.postMessage("bye");
  addEventListener("pagehide", bye);
  return () => {
    removeEventListener("pagehide", bye);
    bye();
    worker.port.close();
  };
}

export function startLive(): void {
  effect(() => {
    void key.value;
    void tenant.value;
    if (needsKey.value) return;
    return untracked(connect);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) later();
  });
  addEventListener("pageshow", (event) => {
    if ((event as PageTransitionEvent).persisted) location.reload();
  });
}

export function togglePause(): void {
  isPaused.value = !isPaused.value;
  if (!isPaused.value) later();
}
