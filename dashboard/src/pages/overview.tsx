// Is it healthy, what needs me, what changed.
import { enc, get } from "../lib/api";
import type { Change } from "../lib/live";
import { type Loaded, useLoad } from "../lib/load";
import { ms, now, relative, span } from "../lib/time";
import { count, errorWords, plural, reasonWords, runState } from "../lib/words";
import type { QueueList, Run, RunList, Stats, WorkerList } from "../types";
import { pauseJob, runNow, WhyDialog, whyAsked } from "../parts/actions";
import { type Group, useDeadGroups } from "../parts/deadgroups";
import { DemoNote } from "../parts/demo";
import { Icon } from "../parts/icons";
import { Changes, NextHour, QueuePanel, RunningNow, Series } from "../parts/panels";
import { stats as standing, statsLoad, useTitle } from "../parts/shell";
import { type Steady, useSteady } from "../parts/steady";
import { Act, Panel } from "../parts/ui";
import type { Shape, StateWord } from "../lib/words";
import { Start } from "./start";

const HOUR = 3_600_000;

type Item = { key: string; rank: number; shape: Shape; tone: string; name: string; href: string; what: string; cause: string; job?: string; jobId?: string; at?: string; since: number };
/** `all`: where those of all its jobs are. */
type Cause = Item & { n: number; jobs: Map<string, string>; all: string };
const ALL = {};
const LOOKED_AT = 200;
type Odd = { runs: Run[]; isMore: boolean };
type Found = { dead: Group[]; odd: Run[]; isMore: boolean; queues: QueueList["queues"]; workers: WorkerList["workers"] };

export function Overview() {
  const stats = standing.value;
  const isEmpty = stats?.jobs === 0 && !stats.dead_letters;
  const changed = { when: (change: Change) => change.runs.some((run) => run.status !== "SUCCEEDED" && run.status !== "RUNNING"), restMs: 4000, everyMs: 15_000 };
  const dead = useDeadGroups(ALL, LOOKED_AT);
  const odd = useLoad<Odd>("odd", changed, readOdd);
  const queues = useLoad<QueueList>("/queues", { when: (change) => change.runs.length > 0, restMs: 4000, everyMs: 15_000 });
  const workers = useLoad<WorkerList>("/workers", { everyMs: 15_000 });
  // What is counted over many runs is asked for after these.
  const isThere = [odd, queues, workers].every((part) => part.data.value ?? part.problem.value) && !!(dead.groups ?? dead.problem);
  const isMore = (dead.whole?.group_count ?? 0) > (dead.groups?.length ?? 0) || !!odd.data.value?.isMore;
  const found = { dead: dead.groups ?? [], odd: odd.data.value?.runs ?? [], isMore, queues: queues.data.value?.queues ?? [], workers: workers.data.value?.workers ?? [] };
  const items = isThere ? attention(found, stats) : [];
  const steady = useSteady(isThere ? items : null, (item) => item.key, dead.source, `${!!stats} ${isEmpty}`, !dead.isWhole);
  // As whole as what could be read lets it be.
  const shown = { ...odd, data: { value: isThere ? true : null }, problem: { value: dead.problem ?? odd.problem.value ?? queues.problem.value ?? workers.problem.value }, reload: () => { dead.reload(); [odd, queues, workers].forEach((part) => part.reload()); } } as Loaded<boolean>;
  const size = `${items.length}${isMore ? "+" : ""}`;
  useTitle(items.length ? `${size} to look at` : "", "Overview");
  if (isEmpty) return <Start />;
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <Panel title={<>Needs attention {items.length > 0 && <span class="dim">({size})</span>}</>} from={shown} rows={3} actions={<Waiting steady={steady} />}>{() => <Attention items={items.length ? steady.shown : []} isWaiting={steady.waiting.length > 0} isMore={isMore} />}</Panel>
      <Standing isThere={isThere} />
      <Series isWanted={isThere} />
      <div class="grid">
        <div class="span-6"><QueuePanel from={queues} /></div>
        <div class="span-6"><NextHour isWanted={isThere} /></div>
        <div class="span-6"><RunningNow isWanted={isThere} /></div>
        <div class="span-6"><Changes isWanted={isThere} /></div>
      </div>
      <WhyDialog />
    </>
  );
}

async function readOdd(_: string, signal: AbortSignal): Promise<Odd> {
  const since = enc(new Date(Date.now() - 24 * HOUR).toISOString());
  const found = await Promise.all(["SKIPPED", "UNKNOWN"].map((status) => get<RunList>(`/runs?status=${status}&due_after=${since}&limit=100`, signal)));
  return { runs: found.flatMap((each) => each.runs), isMore: found.some((each) => each.next_cursor) };
}

/** One row for each cause, however many jobs it has hit. */
function attention(found: Found, stats: Stats | null): Item[] {
  const items = new Map<string, Cause>();
  const add = (state: StateWord, rank: number, cause: string, job: { job_id: string; job_name: string }, n: number, first: string, last: string, href: string, all: string) => {
    const key = `${state.word} ${cause}`;
    const known = items.get(key);
    const since = Math.min(known?.since ?? Infinity, ms(first));
    const jobs = (known?.jobs ?? new Map<string, string>()).set(job.job_id, job.job_name);
    if (known) items.set(key, { ...known, n: known.n + n, since, jobs, at: known.at! < last ? last : known.at });
    else items.set(key, { key, rank, shape: state.shape, tone: state.tone, name: job.job_name, href, all, what: state.word.toLowerCase(), cause, job: job.job_name, jobId: job.job_id, at: last, since, n, jobs });
  };
  for (const group of found.dead) add(runState("FAILED"), 2, errorWords(group.error), group, group.runs, group.first_due, group.last_due, `/dead-letters?f=${enc(`job:${group.job_id}`)}`, "/dead-letters");
  for (const run of found.odd) {
    const state = runState(run.status, run.reason);
    if (run.status === "UNKNOWN" || state.word === "Missed") add(state, 3, reasonWords(run.reason), run, 1, run.scheduled_for, run.scheduled_for, `/runs/${run.run_id}`, `/runs?f=${enc(`status:${run.status.toLowerCase()}`)}`);
  }
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
  const grouped = [...items.values()].map((item) => ({ ...item, ...shared(item, found.isMore), what: `${item.what}${item.n > 1 ? ` ×${item.n}` : ""}${item.n > 1 ? `, first ${relative(item.since, now.peek())}` : ` ${relative(item.since, now.peek())}`}`, rank: item.rank - Math.min(0.9, item.n / 1000) }));
  return [...grouped, ...others].sort((a, b) => a.rank - b.rank || a.since - b.since);
}

/** What stands in the row of a cause that more than one job has. */
function shared({ jobs, cause, what, all }: Cause, isMore: boolean): Partial<Item> {
  if (jobs.size < 2) return {};
  const names = [...jobs.values()];
  return { name: cause || `runs ${what}`, href: all, job: undefined, cause: `${jobs.size}${isMore ? "+" : ""} jobs: ${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}` };
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

function Attention({ items, isWaiting, isMore }: { items: Steady<Item>["shown"]; isWaiting: boolean; isMore: boolean }) {
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
      {items.length > 10 && <p class="dim">and {items.length - 10}{isMore ? " or more" : " more"}. <a href="/dead-letters">All dead letters</a></p>}
    </>
  );
}

function Standing({ isThere }: { isThere: boolean }) {
  return (
    <Panel title="Right now" from={statsLoad as Loaded<Stats>} rows={2} actions={isThere && <DemoNote />}>
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
