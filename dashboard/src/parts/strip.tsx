// The last runs of a job in one line: a list of links with full labels, newest at the right.
import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { enc, get } from "../lib/api";
import { absolute, ms, span, zoneOf } from "../lib/time";
import { reasonWords, runState } from "../lib/words";
import type { Run } from "../types";
import { Icon } from "./icons";

export function Strip({ runs, big, empty = true }: { runs: Run[]; big?: boolean; empty?: boolean }) {
  // While the pointer or the focus is on it, a new run does not push another under them.
  const held = useRef<Run[] | null>(null);
  const byId = new Map(runs.map((run) => [run.run_id, run]));
  const now = runs.filter((run) => run.status !== "PENDING").reverse();
  const shown = held.current?.map((run) => byId.get(run.run_id) ?? run) ?? now;
  const hold = () => void (held.current ??= now);
  const [, again] = useState(0);
  const letGo = () => {
    held.current = null;
    again((n) => n + 1);
  };
  if (!shown.length) return empty ? <span class="dim sub">no runs yet</span> : null;
  return (
    <ul class={`strip ${big ? "big" : ""}`} onPointerEnter={hold} onPointerLeave={letGo} onFocusIn={hold} onFocusOut={letGo} aria-label={`Last ${shown.length} runs, oldest first`}>
      {shown.map((run) => {
        const label = runLabel(run);
        return <li key={run.run_id}><a href={`/runs/${run.run_id}`} class={`tone-${runState(run.status, run.reason).tone}`} title={label} aria-label={label}><Icon shape={runState(run.status, run.reason).shape} size={big ? 14 : 12} /></a></li>;
      })}
    </ul>
  );
}

export function runLabel(run: Run): string {
  const state = runState(run.status, run.reason);
  const parts = [`Run due ${absolute(ms(run.scheduled_for), zoneOf())}`, state.word.toLowerCase()];
  if (run.reason) parts.push(reasonWords(run.reason));
  if (run.duration_ms !== null) parts.push(`took ${span(run.duration_ms)}`);
  if (run.retry_count) parts.push(`${run.attempt_number} attempts`);
  return parts.join(", ");
}

const kept = new Map<string, { at: number; runs: Run[] }>();
const waiting: string[] = [];
let busy = 0;
/** Counts up when strips have come. */
export const stripTurn = signal(0);

export const stripOf = (job: string): Run[] | null => kept.get(job)?.runs ?? null;

/** Read for jobs in view only, four at a time, and again after a while. */
export function wantStrips(jobs: string[], freshMs = 30_000): void {
  for (const job of jobs) {
    const known = kept.get(job);
    if ((!known || Date.now() - known.at > freshMs) && !waiting.includes(job)) waiting.push(job);
  }
  if (waiting.length > 80) waiting.splice(0, waiting.length - 80);
  pump();
}

function pump(): void {
  while (busy < 4 && waiting.length) {
    const job = waiting.shift() as string;
    busy += 1;
    get<Run[]>(`/jobs/${enc(job)}/runs?limit=20`)
      .then((runs) => kept.set(job, { at: Date.now(), runs }), () => kept.set(job, { at: Date.now(), runs: kept.get(job)?.runs ?? [] }))
      .finally(() => {
        busy -= 1;
        stripTurn.value += 1;
        pump();
      });
  }
}
