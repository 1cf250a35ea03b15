// What stands under the attention list: throughput, lateness, queues, the next hour, what runs, what changed. Rows keep their places.
import { enc, get } from "../lib/api";
import { type Loaded, useLoad } from "../lib/load";
import { clock, ms, now, span, TARGET_MS, zoneOf } from "../lib/time";
import { count, plural } from "../lib/words";
import type { Forecast, JobList, QueueList, RunList, Series as SeriesAnswer } from "../types";
import { Chart, type Line } from "./chart";
import { HeadPill, useAttended, useSteady } from "./steady";
import { Badge, Panel, Time } from "./ui";

const HOUR = 3_600_000;

type SeriesData = { times: number[]; throughput: Line[]; lateness: Line[]; words: string; late: string };

/** Counted by the server, each thing when it happened; with very many runs it goes less far back, and says so. */
async function readSeries(_: string, signal: AbortSignal): Promise<SeriesData> {
  let answer = await get<SeriesAnswer>("/stats/series?window=1h", signal);
  // A young server: the stretch in which something happened says more than an hour of nothing.
  const first = answer.points.find((point) => point.due || point.started || point.finished);
  const age = first ? Date.now() - ms(first.at) : HOUR;
  if (age < HOUR / 2) answer = await get<SeriesAnswer>(`/stats/series?window=${age < HOUR / 10 ? "6m" : "30m"}`, signal);
  // The last stretch goes on, and would look like a fall.
  const points = answer.points.slice(0, -1);
  const step = span(answer.step_seconds * 1000);
  const length = `the last ${span(ms(answer.to) - ms(answer.from))}${answer.is_whole ? "" : ", as there were too many runs to go further back"}`;
  const sum = (name: "due" | "started" | "finished") => points.reduce((total, point) => total + point[name], 0).toLocaleString("en");
  const late = (name: "p50" | "p95" | "p99") => points.map((point) => point.lateness_ms[name]);
  const { p50, p95, p99 } = answer.lateness_ms;
  return {
    times: points.map((point) => ms(point.at)),
    throughput: [
      { label: "due", values: points.map((point) => point.due), color: "--quiet", dash: [4, 3] }, { label: "started", values: points.map((point) => point.started), color: "--running" }, { label: "finished", values: points.map((point) => point.finished), color: "--good" },
    ],
    lateness: [{ label: "p50", values: late("p50"), color: "--good", isSparse: true }, { label: "p95", values: late("p95"), color: "--queued", isSparse: true }, { label: "p99", values: late("p99"), color: "--missed", dash: [4, 3], isSparse: true }],
    words: `Runs each ${step}, of ${length}. Due ${sum("due")}, started ${sum("started")}, finished ${sum("finished")}.`,
    late: p50 === null || p95 === null || p99 === null ? `No run started in ${length}.` : `Of ${length}: p50 ${span(p50)}, p95 ${span(p95)}, p99 ${span(p99)}; target ${span(TARGET_MS)}.`,
  };
}

export function Series({ isWanted }: { isWanted: boolean }) {
  const loaded = useLoad<SeriesData>(isWanted ? "series" : "", { when: (change) => change.runs.length > 0, restMs: 5000, everyMs: 30_000 }, readSeries);
  return (
    <div class="grid series">
      <div class="span-6"><Panel title="Due, started, finished" from={loaded} rows={6}>{(data) => <Chart title="Throughput" summary={data.words} times={data.times} lines={data.throughput} />}</Panel></div>
      <div class="span-6"><Panel title="How late runs start" from={loaded} rows={6}>{(data) => <Chart title="Lateness" summary={data.late} times={data.times} lines={data.lateness} unit={span} target={{ value: TARGET_MS, label: "target 1 s" }} />}</Panel></div>
    </div>
  );
}

/** Those that wait longest when the page was opened. */
export function QueuePanel({ from }: { from: Loaded<QueueList> }) {
  const queues = from.data.value && [...from.data.value.queues].sort((a, b) => (b.oldest_age_ms ?? 0) - (a.oldest_age_ms ?? 0)).slice(0, 8);
  const steady = useSteady(queues, (queue) => queue.queue, from.data.value, String(!queues?.length));
  return (
    <Panel title="Queues" from={from} actions={<><HeadPill steady={steady} noun="queue" /><a href="/queues">All queues</a></>}>
      {() => steady.shown.length === 0 ? <p class="dim">No queue has been used yet.</p> : (
        <table class="small-table">
          <thead><tr><th scope="col">Queue</th>{["High", "Medium", "Low"].map((word) => <th scope="col" class="right" key={word}>{word}</th>)}<th scope="col" class="right">Oldest</th><th scope="col" class="right">Running</th></tr></thead>
          <tbody>
            {steady.shown.map(({ item: queue }) => (
              <tr key={queue.queue}>
                <th scope="row"><a href={`/runs?f=${enc(`queue:${queue.queue} status:queued`)}`}>{queue.queue}</a> {queue.paused && <Badge status="PAUSED" kind="job" />}</th>
                {(["HIGH", "MEDIUM", "LOW"] as const).map((word) => <td key={word} class="right"><div class="two-lines">{count(queue.by_priority[word].queued)}{queue.by_priority[word].oldest_age_ms !== null && <div class="dim">{span(queue.by_priority[word].oldest_age_ms!)}</div>}</div></td>)}
                <td class="right">{queue.oldest_age_ms === null ? "–" : span(queue.oldest_age_ms)}</td><td class="right">{queue.running}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

export function NextHour({ isWanted }: { isWanted: boolean }) {
  const read = (_: string, signal: AbortSignal) => get<Forecast>(`/forecast?bucket=1m&to=${enc(new Date(Date.now() + HOUR).toISOString())}`, signal);
  const loaded = useLoad<Forecast>(isWanted ? "hour" : "", { when: (change) => change.jobs.length > 0, restMs: 10_000, everyMs: 30_000 }, read);
  return (
    <Panel title="Next 60 minutes" from={loaded} actions={<a href="/forecast">Forecast</a>}>
      {(data) => {
        const start = Math.floor(ms(data.from) / 60_000) * 60_000;
        const runs = new Map(data.buckets.map((bucket) => [ms(bucket.at), bucket.runs]));
        const minutes = Array.from({ length: 60 }, (_x, i) => ({ at: start + i * 60_000, runs: runs.get(start + i * 60_000) ?? 0 }));
        const peak = minutes.reduce((a, b) => (b.runs > a.runs ? b : a));
        const words = data.runs ? `${plural(data.runs, "run")} due. Most at ${clock(peak.at, zoneOf(), false)}: ${peak.runs}.` : "Nothing is due in the next hour.";
        return (
          <>
            <div class="minutes" role="img" aria-label={words}>{minutes.map((minute) => <div key={minute.at} class={minute.runs === 0 ? "none" : minute === peak ? "peak" : ""} style={{ height: `${peak.runs ? Math.max(4, (minute.runs / peak.runs) * 100) : 4}%` }} title={`${clock(minute.at, zoneOf(), false)}: ${minute.runs}`} />)}</div>
            <div class="axis" aria-hidden="true">{[0, 15, 30, 45, 59].map((i) => <span key={i}>{clock(minutes[i].at, zoneOf(), false)}</span>)}</div>
            <p class="dim">{words}</p>
          </>
        );
      }}
    </Panel>
  );
}

/** Follows what happens while nobody is at it; else one that ends says so, and new ones wait for the reader. Its height is that of a full list. */
export function RunningNow({ isWanted }: { isWanted: boolean }) {
  const loaded = useLoad<RunList>(isWanted ? "/runs?status=RUNNING&limit=8" : "", { when: (change) => change.runs.length > 0, restMs: 2000, everyMs: 15_000 });
  const { isAttended, box } = useAttended();
  const steady = useSteady(loaded.data.value?.runs ?? null, (run) => run.run_id, loaded.data.value);
  steady.settle(!isAttended);
  return (
    <div {...box}>
      <Panel title="Running now" from={loaded} rows={8} actions={<><HeadPill steady={steady} noun="run" /><a href="/runs?f=status:running">All</a></>}>
        {() => (
          <div class="eight-rows">
            {steady.shown.length === 0 ? <p class="dim">{steady.waiting.length ? "Nothing ran until a moment ago." : "Nothing runs at this moment."}</p> : (
              <table class="small-table"><tbody>{steady.shown.map(({ item: run, isGone }) => <tr key={run.run_id} class={isGone ? "gone" : ""}><th scope="row"><a href={`/runs/${run.run_id}`}>{run.job_name}</a></th><td>{isGone ? <span class="badge dim">ended</span> : <Badge status={run.status} />}</td><td class="right">{isGone || !run.start_time ? "–" : span(now.value - ms(run.start_time))}</td></tr>)}</tbody></table>
            )}
          </div>
        )}
      </Panel>
    </div>
  );
}

export function Changes({ isWanted }: { isWanted: boolean }) {
  const loaded = useLoad<JobList>(isWanted ? "/jobs?sort=-updated_at&limit=6" : "", { when: (change) => change.jobs.length > 0, restMs: 3000 });
  const steady = useSteady(loaded.data.value?.jobs ?? null, (job) => `${job.job_id} ${job.version} ${job.status}`, loaded.data.value);
  return (
    <Panel title="What changed" from={loaded} actions={<><HeadPill steady={steady} noun="change" /><a href="/audit">Audit</a></>}>
      {() => steady.shown.length === 0 ? <p class="dim">No job yet.</p> : (
        <table class="small-table"><tbody>{steady.shown.map(({ item: job }) => <tr key={job.job_id + job.version + job.status}><th scope="row"><a href={`/jobs/${enc(job.name)}?tab=changes`}>{job.name}</a></th><td>{job.status === "PAUSED" ? <Badge status="PAUSED" kind="job" /> : job.version === 1 ? "created" : `version ${job.version}`}</td><td class="right"><Time at={job.updated_at} /></td></tr>)}</tbody></table>
      )}
    </Panel>
  );
}
