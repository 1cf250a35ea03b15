// Is it healthy, what needs me, what changed.
import { enc, get } from "../lib/api";
import { type Loaded, useLoad } from "../lib/load";
import { clock, ms, now, relative, span, zoneOf } from "../lib/time";
import { count, errorWords, plural, reasonWords, runState } from "../lib/words";
import type { DeadGroups, Forecast, JobList, QueueList, Run, RunList, Series as SeriesAnswer, Stats, WorkerList } from "../types";
import { pauseJob, runNow, WhyDialog, whyAsked } from "../parts/actions";
import { Chart, type Line } from "../parts/chart";
import { Icon } from "../parts/icons";
import { stats as shared, statsLoad, useTitle } from "../parts/shell";
import { type Steady, useSteady } from "../parts/steady";
import { Act, Badge, Command, Empty, Panel, Time } from "../parts/ui";
import type { Shape } from "../lib/words";

const TARGET_MS = 1000;
const HOUR = 3_600_000;

type Item = { key: string; rank: number; shape: Shape; tone: string; name: string; href: string; what: string; cause: string; job?: string; jobId?: string; at?: string; since: number };
type Found = { dead: DeadGroups["groups"]; odd: Run[]; queues: QueueList["queues"]; workers: WorkerList["workers"] };

export function Overview() {
  const stats = shared.value;
  const isEmpty = stats?.jobs === 0 && !stats.dead_letters;
  const found = useLoad<Found>("attention", { when: (change) => change.runs.some((run) => run.status !== "SUCCEEDED" && run.status !== "RUNNING"), restMs: 4000, everyMs: 15_000 }, readAttention);
  const items = found.data.value ? attention(found.data.value, stats) : [];
  const steady = useSteady(found.data.value && items, (item) => item.key, found.data.value, String(!!stats));
  // What needs somebody comes first; what is counted over many runs is asked for after it.
  const isThere = !!(found.data.value ?? found.problem.value);
  useTitle(items.length ? `${items.length} to look at` : "", "Overview");
  if (isEmpty) return <Doors />;
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <Panel title={<>Needs attention {items.length > 0 && <span class="dim">({items.length})</span>}</>} from={found} rows={3} actions={<Waiting steady={steady} />}>{() => <Attention items={items.length ? steady.shown : []} isWaiting={steady.waiting.length > 0} />}</Panel>
      <Standing />
      <Series isWanted={isThere} />
      <div class="grid">
        <div class="span-6"><QueuePanel /></div>
        <div class="span-6"><NextHour isWanted={isThere} /></div>
        <div class="span-6"><RunningNow /></div>
        <div class="span-6"><Changes /></div>
      </div>
      <WhyDialog />
    </>
  );
}

async function readAttention(_: string, signal: AbortSignal): Promise<Found> {
  const since = enc(new Date(Date.now() - 24 * HOUR).toISOString());
  const [dead, skipped, unknown, queues, workers] = await Promise.all([
    get<DeadGroups>("/dead-letters:groups?limit=20", signal), get<RunList>(`/runs?status=SKIPPED&due_after=${since}&limit=100`, signal),
    get<RunList>(`/runs?status=UNKNOWN&due_after=${since}&limit=100`, signal), get<QueueList>("/queues", signal), get<WorkerList>("/workers", signal),
  ]);
  return { dead: dead.groups, odd: [...skipped.runs, ...unknown.runs], queues: queues.queues, workers: workers.workers };
}

function attention(found: Found, stats: Stats | null): Item[] {
  const items = new Map<string, Item & { n: number }>();
  const add = (run: Run, rank: number) => {
    const state = runState(run.status, run.reason);
    const cause = reasonWords(run.reason);
    const key = `${run.job_name} ${cause} ${state.word}`;
    const at = ms(run.scheduled_for);
    const known = items.get(key);
    if (known) {
      known.n += 1;
      known.since = Math.min(known.since, at);
      return;
    }
    items.set(key, { key, rank, shape: state.shape, tone: state.tone, name: run.job_name, href: `/runs/${run.run_id}`, what: state.word.toLowerCase(), cause, job: run.job_name, jobId: run.job_id, at: run.scheduled_for, since: at, n: 1 });
  };
  const dead = runState("FAILED");
  for (const group of found.dead) items.set(`${group.job_id} ${group.error}`, { key: `${group.job_id} ${group.error}`, rank: 2, shape: dead.shape, tone: dead.tone, name: group.job_name, href: `/dead-letters?f=${enc(`job:${group.job_name}`)}`, what: dead.word.toLowerCase(), cause: errorWords(group.error), job: group.job_name, jobId: group.job_id, at: group.last_due, since: ms(group.first_due), n: group.runs });
  for (const run of found.odd) if (run.status === "UNKNOWN" || runState(run.status, run.reason).word === "Missed") add(run, 3);
  const alive = found.workers.filter((worker) => worker.state !== "lost");
  const others: Item[] = [];
  for (const line of waitingLines(stats)) {
    const serves = alive.filter((worker) => worker.queues.includes("*") || worker.queues.includes(line.queue));
    const able = serves.filter((worker) => !line.needs || worker.needs.includes(line.needs));
    const isPaused = found.queues.some((queue) => queue.queue === line.queue && queue.paused);
    const cause = isPaused ? "the queue is paused" : !serves.length ? "no worker serves this queue" : !able.length ? `no worker offers ${line.needs}` : "all slots are busy, or limits hold it back";
    others.push({ key: `q ${line.queue} ${line.needs}`, rank: able.length ? 4 : 1, shape: "bars", tone: "queued", name: `queue ${line.queue}`, href: `/queues?f=${enc(line.queue)}`, what: `${count(line.queued)} waiting, oldest ${span(line.oldest * 1000)}`, cause, since: now.peek() - line.oldest * 1000 });
  }
  if (found.workers.length && !alive.length) others.push({ key: "workers", rank: 0, shape: "broken", tone: "dead", name: "workers", href: "/workers", what: "none is up", cause: "nothing can run until one is started", since: 0 });
  const grouped = [...items.values()].map((item) => ({ ...item, what: `${item.what}${item.n > 1 ? ` ×${item.n}` : ""}${item.n > 1 ? `, first ${relative(item.since, now.peek())}` : ` ${relative(item.since, now.peek())}`}`, rank: item.rank - Math.min(0.9, item.n / 1000) }));
  return [...grouped, ...others].sort((a, b) => a.rank - b.rank || a.since - b.since);
}

/** Those that wait for long, one for each queue and need, whatever the priority. */
function waitingLines(stats: Stats | null): { queue: string; needs: string | null; queued: number; oldest: number }[] {
  const lines = new Map<string, { queue: string; needs: string | null; queued: number; oldest: number }>();
  for (const line of stats?.waiting ?? []) {
    if (!line.queued || (line.oldest_seconds ?? 0) < 10) continue;
    const key = `${line.queue} ${line.needs}`;
    const known = lines.get(key) ?? { queue: line.queue, needs: line.needs, queued: 0, oldest: 0 };
    lines.set(key, { ...known, queued: known.queued + line.queued, oldest: Math.max(known.oldest, line.oldest_seconds ?? 0) });
  }
  return [...lines.values()];
}

/** In the head of the panel, where it moves nothing. */
function Waiting({ steady }: { steady: Steady<Item> }) {
  const [first] = steady.waiting;
  return first ? <button type="button" class="new-pill" onClick={steady.show}><span class="clip">{steady.waiting.length} new: {first.name}, show</span></button> : null;
}

function Attention({ items, isWaiting }: { items: Steady<Item>["shown"]; isWaiting: boolean }) {
  if (!items.length && isWaiting) return <p>Nothing needed you until a moment ago.</p>;
  if (!items.length) return <p class="calm"><Icon shape="tick" /> Nothing needs you.</p>;
  return (
    <>
      <ul class="attention">
        {items.slice(0, 10).map(({ item, isGone }) => (
          <li key={item.key}>
            <span class="what"><span class={`tone-${item.tone}`}><Icon shape={item.shape} size={16} /></span><a href={item.href} class="clip">{item.name}</a></span>
            <span class="cause" title={item.cause}>{isGone ? <span class="dim">no longer · </span> : <span class={`tone-${item.tone}`}>{item.what} </span>}<span class="dim">{!isGone && "· "}{item.cause}</span></span>
            <span class="row">
              {item.job && <button type="button" onClick={() => (whyAsked.value = { job: item.jobId!, name: item.job, at: item.at })}>Why?</button>}
              {item.job && <Act operation="runJob" onClick={() => runNow({ name: item.job!, job_id: item.jobId })}>Run now</Act>}
              {item.job && <Act operation="pauseJob" onClick={() => pauseJob({ name: item.job!, job_id: item.jobId })}>Pause</Act>}
              {!item.job && <a class="button" href={item.href}>Open</a>}
            </span>
          </li>
        ))}
      </ul>
      {items.length > 10 && <p class="dim">and {items.length - 10} more. <a href="/dead-letters">All dead letters</a></p>}
    </>
  );
}

function Standing() {
  return (
    <Panel title="Right now" from={statsLoad as Loaded<Stats>} rows={2}>
      {(stats) => {
        const minutes = Math.round(stats.recent.window_seconds / 60);
        const recent = minutes ? `in ${minutes} min` : `in ${span(stats.recent.window_seconds * 1000)}`;
        return (
          <div class="tiles">
            <a class="tile" href="/jobs"><strong>{count(stats.jobs, stats.counted_up_to)}</strong><span>jobs</span></a>
            <a class="tile" href="/runs?f=status:running"><strong>{count(stats.runs.running, stats.counted_up_to)}</strong><span>running</span></a>
            <a class="tile" href="/queues"><strong>{count(stats.runs.queued, stats.counted_up_to)}</strong><span>waiting</span></a>
            <a class="tile" href="/runs?f=status:succeeded"><strong>{count(stats.recent.succeeded)}</strong><span>succeeded {recent}</span></a>
            <a class="tile" href="/runs?f=status:dead"><strong class={stats.recent.failed ? "tone-dead" : ""}>{count(stats.recent.failed)}</strong><span>failed {recent}</span></a>
            <a class="tile" href="/dead-letters"><strong class={stats.dead_letters ? "tone-dead" : ""}>{count(stats.dead_letters, stats.counted_up_to)}</strong><span>dead letters</span></a>
            <a class="tile" href="/workers"><strong>{stats.workers.running} / {stats.workers.slots}</strong><span>slots in use, {plural(stats.workers.alive, "worker")}</span></a>
          </div>
        );
      }}
    </Panel>
  );
}

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

function Series({ isWanted }: { isWanted: boolean }) {
  const loaded = useLoad<SeriesData>(isWanted ? "series" : "", { when: (change) => change.runs.length > 0, restMs: 5000, everyMs: 30_000 }, readSeries);
  return (
    <div class="grid">
      <div class="span-6"><Panel title="Due, started, finished" from={loaded} rows={6}>{(data) => <Chart title="Throughput" summary={data.words} times={data.times} lines={data.throughput} />}</Panel></div>
      <div class="span-6"><Panel title="How late runs start" from={loaded} rows={6}>{(data) => <Chart title="Lateness" summary={data.late} times={data.times} lines={data.lateness} unit={span} target={{ value: TARGET_MS, label: "target 1 s" }} />}</Panel></div>
    </div>
  );
}

function QueuePanel() {
  const loaded = useLoad<QueueList>("/queues", { when: (change) => change.runs.length > 0, restMs: 4000, everyMs: 15_000 });
  return (
    <Panel title="Queues" from={loaded} actions={<a href="/queues">All queues</a>}>
      {({ queues }) => queues.length === 0 ? <p class="dim">No queue has been used yet.</p> : (
        <table class="small-table">
          <thead><tr><th scope="col">Queue</th>{["High", "Medium", "Low"].map((word) => <th scope="col" class="right" key={word}>{word}</th>)}<th scope="col" class="right">Oldest</th><th scope="col" class="right">Running</th></tr></thead>
          <tbody>
            {[...queues].sort((a, b) => (b.oldest_age_ms ?? 0) - (a.oldest_age_ms ?? 0)).slice(0, 8).map((queue) => (
              <tr key={queue.queue}>
                <th scope="row"><a href={`/runs?f=${enc(`queue:${queue.queue} status:queued`)}`}>{queue.queue}</a> {queue.paused && <Badge status="PAUSED" kind="job" />}</th>
                {(["HIGH", "MEDIUM", "LOW"] as const).map((word) => <td key={word} class="right">{count(queue.by_priority[word].queued)}{queue.by_priority[word].oldest_age_ms !== null && <div class="dim">{span(queue.by_priority[word].oldest_age_ms!)}</div>}</td>)}
                <td class="right">{queue.oldest_age_ms === null ? "–" : span(queue.oldest_age_ms)}</td><td class="right">{queue.running}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function NextHour({ isWanted }: { isWanted: boolean }) {
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

function RunningNow() {
  const loaded = useLoad<RunList>("/runs?status=RUNNING&limit=8", { when: (change) => change.runs.length > 0, restMs: 2000, everyMs: 15_000 });
  return (
    <Panel title="Running now" from={loaded} actions={<a href="/runs?f=status:running">All</a>}>
      {({ runs }) => runs.length === 0 ? <p class="dim">Nothing runs at this moment.</p> : (
        <table class="small-table"><tbody>{runs.map((run) => <tr key={run.run_id}><th scope="row"><a href={`/runs/${run.run_id}`}>{run.job_name}</a></th><td><Badge status={run.status} /></td><td class="right">{run.start_time ? span(now.value - ms(run.start_time)) : "–"}</td></tr>)}</tbody></table>
      )}
    </Panel>
  );
}

function Changes() {
  const loaded = useLoad<JobList>("/jobs?sort=-updated_at&limit=6", { when: (change) => change.jobs.length > 0, restMs: 3000 });
  return (
    <Panel title="What changed" from={loaded} actions={<a href="/audit">Audit</a>}>
      {({ jobs }) => jobs.length === 0 ? <p class="dim">No job yet.</p> : (
        <table class="small-table"><tbody>{jobs.map((job) => <tr key={job.job_id}><th scope="row"><a href={`/jobs/${enc(job.name)}?tab=changes`}>{job.name}</a></th><td>{job.status === "PAUSED" ? <Badge status="PAUSED" kind="job" /> : job.version === 1 ? "created" : `version ${job.version}`}</td><td class="right"><Time at={job.updated_at} /></td></tr>)}</tbody></table>
      )}
    </Panel>
  );
}

function Doors() {
  return (
    <Empty title="No jobs yet. Three ways to begin:">
      <div class="doors">
        <div class="door"><h2>Make a job</h2><p>Type when, and see in words and dates what it means.</p><a class="button primary" href="/jobs/new">New job</a></div>
        <div class="door"><h2>From a terminal</h2><p>One request is enough.</p><Command text={`curl -X PUT ${location.origin}/api/v1/jobs/hello -H 'Content-Type: application/json' -d '{"schedule": "* * * * *", "type": "shell", "target": {"command": "date"}}'`} /></div>
        <div class="door"><h2>Look around first</h2><p>Made-up jobs, labelled demo. Stop horae, run this, start it again.</p><Command text="horae demo load" /></div>
      </div>
    </Empty>
  );
}
