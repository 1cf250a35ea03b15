// Made-up jobs for a first look: made over the API, marked, and removed together once their names were seen.
import { useState } from "preact/hooks";
import { enc, get, send } from "../lib/api";
import { useLoad } from "../lib/load";
import { plural } from "../lib/words";
import type { DeadGroups, JobAnswer, JobList, RunList } from "../types";
import { BulkDialog, type BulkWork } from "./bulk";
import { Act, Command } from "./ui";

/** As src/horae/demo.py has it. People label jobs "demo" themselves; these are ours alone. */
const MARK = "made-up-by";
const MAKER = "horae-demo";
const MOST = 100;
const job = (name: string, schedule: string, team: string, more: object = {}) => ({ name: `demo-${name}`, schedule, type: "noop", labels: { demo: "true", [MARK]: MAKER, team }, description: "Made up, to look around. It does nothing.", ...more });
const JOBS = [
  job("heartbeat", "* * * * *", "ops", { target: { sleep: "200ms" } }), job("sync-orders", "*/5 * * * *", "shop", { target: { sleep: "3s" }, priority: "HIGH" }),
  job("send-invoices", "0 9 * * 1-5", "billing", { target: { sleep: "2s" }, timezone: "Europe/Berlin" }), job("daily-report", "30 6 * * *", "data", { target: { sleep: "5s" } }),
  job("flaky-import", "*/10 * * * *", "data", { target: { sleep: "500ms", fail: 1 }, retry: { max_retries: 2, delay: "2s", backoff: "fixed" } }),
  job("broken-export", "15 * * * *", "billing", { target: { fail: 99 }, retry: { max_retries: 1, delay: "1s", backoff: "fixed" } }),
  job("cleanup", "0 3 * * 0", "ops", { target: { sleep: "1s" }, priority: "LOW" }), job("train-model", "@manual", "data", { target: { sleep: "30s" } }),
];
/** So many runs of each at once, to have something to look at. */
const RUNS: [string, number][] = [["heartbeat", 5], ["sync-orders", 3], ["daily-report", 2], ["flaky-import", 3], ["broken-export", 3], ["train-model", 1]];

export async function loadDemo(): Promise<void> {
  await send({ method: "POST", path: "/jobs:batch", body: { jobs: JOBS } });
  for (const [name, n] of RUNS) await send({ method: "POST", path: "/runs:batch", body: { job: `demo-${name}`, runs: Array.from({ length: n }, () => ({})) } }).catch(() => null);
}

/** A copy of one has its labels, and is no longer made up: it has another name. */
const isMadeUp = (job: JobAnswer) => job.labels[MARK] === MAKER && (JOBS.some((each) => each.name === job.name) || /^demo-\d+$/.test(job.job_id));

const WAITS = 40;
const WAIT_MS = 250;
/** Of a deleted job: a run that was under way may still die of what it did before it was told to stop. */
async function discardDead(id: string): Promise<void> {
  for (let tries = 0; tries < WAITS; tries += 1) {
    const running = await get<RunList>(`/runs?job=${enc(id)}&status=RUNNING&limit=1`);
    const { run_count } = await get<DeadGroups>(`/dead-letters:groups?job=${enc(id)}&limit=1`);
    if (run_count) await send({ method: "POST", path: "/dead-letters:discard", body: { filter: { job: id }, expected_count: run_count } });
    if (!running.runs.length) return;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

const removal = (jobs: JobAnswer[]): BulkWork => ({
  title: "Remove", noun: "demo job", isDanger: true, freeUpTo: 10, effect: "These were made up by horae. They are deleted, their running runs are stopped and their dead letters discarded; no other job is touched.",
  items: jobs.map((each) => ({ key: each.job_id, label: each.name, write: { method: "DELETE", path: `/jobs/${enc(each.job_id)}` }, also: () => discardDead(each.job_id) })),
});

/** In the head of a panel: that there are made-up jobs, and the way to be rid of them. */
export function DemoNote() {
  const found = useLoad<JobList>(`/jobs?label=${MARK}:${MAKER}&limit=${MOST}`, { when: (change) => change.jobs.length > 0, restMs: 3000 });
  const [work, setWork] = useState<BulkWork | null>(null);
  const jobs = (found.data.value?.jobs ?? []).filter(isMadeUp);
  if (!jobs.length && !work) return null;
  const close = () => {
    setWork(null);
    found.reload();
  };
  return (
    <span class="row demo" role="group" aria-label="Demo data">
      <a class="tag" href={`/jobs?f=label:${MARK}:${MAKER}`}>demo: {found.data.value?.next_cursor ? `${MOST} or more jobs` : plural(jobs.length, "job")}</a>
      {found.data.value?.next_cursor ? <Command text="horae demo clear" /> : <Act operation="deleteJob" kind="plain" onClick={() => setWork(removal(jobs))}>Remove the demo data</Act>}
      {work && <BulkDialog work={work} onClose={close} />}
    </span>
  );
}
