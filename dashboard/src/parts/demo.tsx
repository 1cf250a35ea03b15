// Made-up jobs for a first look: made over the API, labelled, and gone with one click.
import { useState } from "preact/hooks";
import { enc, get, send } from "../lib/api";
import { problemOf, useLoad } from "../lib/load";
import { plural } from "../lib/words";
import type { DeadGroups, JobList } from "../types";
import { Act, Command, tell } from "./ui";

const LABEL = "label=demo:true";
const MOST = 100;
const job = (name: string, schedule: string, team: string, more: object = {}) => ({ name: `demo-${name}`, schedule, type: "noop", labels: { demo: "true", team }, description: "Made up, to look around. It does nothing.", ...more });
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

/** Their dead letters first: when the job is gone, nobody would know whose they are. */
async function clearDemo(): Promise<number> {
  let gone = 0;
  for (;;) {
    const { jobs } = await get<JobList>(`/jobs?${LABEL}&limit=${MOST}`);
    if (!jobs.length) return gone;
    for (const each of jobs) {
      await send({ method: "DELETE", path: `/jobs/${enc(each.job_id)}` });
      const dead = await get<DeadGroups>(`/dead-letters:groups?job=${enc(each.job_id)}&limit=1`);
      if (dead.run_count) await send({ method: "POST", path: "/dead-letters:discard", body: { filter: { job: each.job_id }, expected_count: dead.run_count } });
      gone += 1;
    }
  }
}

/** In the head of a panel: that there are made-up jobs, and the way to be rid of them. */
export function DemoNote() {
  const found = useLoad<JobList>(`/jobs?${LABEL}&limit=${MOST}`, { when: (change) => change.jobs.length > 0, restMs: 3000 });
  const [isBusy, setBusy] = useState(false);
  const jobs = found.data.value?.jobs ?? [];
  if (!jobs.length) return null;
  const clear = () => {
    setBusy(true);
    clearDemo().then((n) => tell(`${plural(n, "demo job")} gone.`), (error) => tell(problemOf(error).detail, undefined, "bad")).finally(() => {
      setBusy(false);
      found.reload();
    });
  };
  return (
    <span class="row demo" role="group" aria-label="Demo data">
      <a class="tag" href="/jobs?f=label:demo:true">demo: {found.data.value?.next_cursor ? `${MOST} or more jobs` : plural(jobs.length, "job")}</a>
      {found.data.value?.next_cursor ? <Command text="horae demo clear" /> : <Act operation="deleteJob" kind="plain" onClick={clear} disabled={isBusy ? "They are being removed." : ""}>{isBusy ? "Removing…" : "Remove the demo data"}</Act>}
    </span>
  );
}
