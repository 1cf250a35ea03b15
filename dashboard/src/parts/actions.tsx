// What can be done to a job and to a run, each in one place.
import { signal } from "@preact/signals";
import { enc, type Write } from "../lib/api";
import { readExactly, writeJson } from "../lib/json";
import { absolute, zoneOf } from "../lib/time";
import type { JobAnswer, Run, RunId } from "../types";
import { ask } from "./write";
import { Dialog } from "./ui";
import { Why } from "./why";

/** `job` is a name, or the id of a job whose name may be another's by now. */
export const whyAsked = signal<{ job: string; name?: string; at?: string } | null>(null);

type Named = { name: string; job_id?: string; status?: string };

/** What a job is called in a path: a deleted one only by its id, since its name may belong to a live one. */
export const wordOf = (job: Named): string => (job.job_id && (!job.status || job.status === "CANCELLED") ? job.job_id : job.name);

export function WhyDialog() {
  const asked = whyAsked.value;
  if (!asked) return null;
  return <Dialog title={`Why? · ${asked.name ?? asked.job}`} wide onClose={() => (whyAsked.value = null)}><Why job={asked.job} at={asked.at} /></Dialog>;
}

export function runNow(job: Named & { payload?: unknown }, after?: () => void): void {
  const payload = signal(writeJson(job.payload ?? {}, 2));
  const first = payload.value;
  const write = (): Write => ({
    method: "POST", path: `/jobs/${enc(wordOf(job))}/run`, body: payload.value.trim() === first.trim() ? {} : { payload: readExactly(payload.value) },
  });
  ask({
    title: `Run ${job.name} now`, button: "Run now", write,
    effect: <p>One run starts as soon as a worker is free. The schedule does not change.</p>,
    form: () => <PayloadField payload={payload} />,
    done: (answer) => {
      after?.();
      return { text: `${job.name} was started.`, link: { href: `/runs/${(answer as RunId).run_id}`, text: "Open the run" } };
    },
  });
}

function PayloadField({ payload }: { payload: { value: string } }) {
  let fault = "";
  try {
    JSON.parse(payload.value);
  } catch (error) {
    fault = String((error as Error).message);
  }
  return (
    <details>
      <summary>With another payload</summary>
      <label class={`field ${fault ? "bad" : ""}`}><span>Payload (JSON)</span><textarea rows={6} value={payload.value} onInput={(event) => (payload.value = event.currentTarget.value)} />{fault && <span class="fault">{fault}</span>}</label>
    </details>
  );
}

const UNTIL: [string, number][] = [["until I resume it", 0], ["for 1 hour", 3_600_000], ["for 2 hours", 7_200_000], ["for 1 day", 86_400_000], ["for 1 week", 604_800_000]];

export function pauseJob(job: Named, after?: () => void): void {
  const length = signal(0);
  const reason = signal("");
  const write = (): Write => ({
    method: "POST", path: `/jobs/${enc(wordOf(job))}/pause`,
    body: { ...(length.value ? { until: new Date(Date.now() + length.value).toISOString() } : {}), ...(reason.value ? { reason: reason.value } : {}) },
  });
  ask({
    title: `Pause ${job.name}`, button: "Pause", write,
    effect: <p>No due time starts a run while it is paused; each one is kept with that reason. Runs that are under way go on.</p>,
    form: () => <PauseForm length={length} reason={reason} />,
    done: () => {
      after?.();
      return { text: `${job.name} is paused.` };
    },
  });
}

function PauseForm({ length, reason }: { length: { value: number }; reason: { value: string } }) {
  return (
    <>
      <label class="field"><span>How long</span><select value={length.value} onChange={(event) => (length.value = Number(event.currentTarget.value))}>{UNTIL.map(([words, size]) => <option key={size} value={size}>{words}</option>)}</select></label>
      {length.value > 0 && <p class="dim">It resumes by itself at {absolute(Date.now() + length.value, zoneOf(), false)}.</p>}
      <label class="field"><span>Why (others will read it)</span><input value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} placeholder="migration of the billing database" /></label>
    </>
  );
}

export function resumeJob(job: Named, after?: () => void): void {
  ask({
    title: `Resume ${job.name}`, button: "Resume", write: { method: "POST", path: `/jobs/${enc(wordOf(job))}/resume`, body: {} },
    effect: <p>The next due time starts a run again. Due times that passed meanwhile are not caught up.</p>,
    done: () => {
      after?.();
      return { text: `${job.name} is active again.` };
    },
  });
}

export function deleteJob(job: JobAnswer, after: () => void): void {
  ask({
    title: `Delete ${job.name}`, button: "Delete", isDanger: true, typed: job.name, write: { method: "DELETE", path: `/jobs/${enc(wordOf(job))}` },
    effect: <p>No later run. Waiting runs are cancelled and running ones told to stop. The history stays.</p>,
    done: () => {
      after();
      return { text: `${job.name} was deleted.` };
    },
  });
}

export function cancelRun(run: Run, after: () => void): void {
  ask({
    title: `Cancel this run of ${run.job_name}`, button: "Cancel the run", isDanger: true, write: { method: "POST", path: `/runs/${run.run_id}/cancel`, body: {} },
    effect: <p>{run.status === "RUNNING" ? "The worker is told to stop it; what it has done so far is not undone." : "It will not start."} The schedule does not change.</p>,
    done: () => {
      after();
      return { text: "The run is being cancelled." };
    },
  });
}

export function retryRun(run: Run, after: () => void): void {
  ask({
    title: `Retry this run of ${run.job_name}`, button: "Retry", write: { method: "POST", path: `/runs/${run.run_id}/retry`, body: {} },
    effect: <p>One more attempt of the same run: same id, same due time, attempt {run.attempt_number + 1}.</p>,
    done: () => {
      after();
      return { text: "One more attempt is on its way." };
    },
  });
}

export function replayRun(run: Run, after?: () => void): void {
  ask({
    title: `Replay this run of ${run.job_name}`, button: "Replay", write: { method: "POST", path: `/dead-letters/${run.run_id}/replay`, body: {} },
    effect: <p>A new run with the same payload and the job as it is now. This one leaves the dead letters.</p>,
    done: (answer) => {
      after?.();
      return { text: "A new run was made.", link: { href: `/runs/${(answer as RunId).run_id}`, text: "Open it" } };
    },
  });
}

export function discardRun(run: Run, after?: () => void): void {
  ask({
    title: `Take this run of ${run.job_name} out of the dead letters`, button: "Discard", isDanger: true, write: { method: "DELETE", path: `/dead-letters/${run.run_id}` },
    effect: <p>The run and its log stay in the history; it is no longer listed as waiting for you.</p>,
    done: () => {
      after?.();
      return { text: "Discarded." };
    },
  });
}
