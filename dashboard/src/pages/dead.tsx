// Runs that used all their attempts, grouped by what went wrong; replayed a few at first, then at a pace.
import { useState } from "preact/hooks";
import { curl, enc, get, query, send, type Write } from "../lib/api";
import { DEAD_FILTERS, parse, toQuery } from "../lib/filter";
import { problemOf, useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { ms, span } from "../lib/time";
import { count, fingerprint, plural, REASONS } from "../lib/words";
import type { DeadList, Problem, Replayed, ReplayPlan, Run, RunId } from "../types";
import { discardRun, replayRun, retryRun } from "../parts/actions";
import { FilterBox } from "../parts/filterbox";
import { useTitle } from "../parts/shell";
import { Act, Badge, Copy, Dialog, Empty, ProblemBox, Skeleton, Time } from "../parts/ui";

const MOST = 2000;
const VALUES = { priority: ["HIGH", "MEDIUM", "LOW"], due: ["1h", "24h", "today", "7d", "30d"], reason: Object.keys(REASONS) };
type Group = { key: string; job: string; error: string; runs: Run[]; first: number; last: number };

async function readDead(path: string, signal: AbortSignal): Promise<{ runs: Run[]; isAll: boolean }> {
  const runs: Run[] = [];
  let cursor: string | null = "";
  while (cursor !== null && runs.length < MOST) {
    const page: DeadList = await get<DeadList>(`${path}${path.includes("?") ? "&" : "?"}limit=1000${cursor ? `&cursor=${enc(cursor)}` : ""}`, signal);
    runs.push(...page.dead_letters);
    cursor = page.next_cursor;
  }
  return { runs, isAll: cursor === null };
}

export function DeadLetters() {
  const text = param("f");
  const filter = parse(text, DEAD_FILTERS);
  if (filter.words && !filter.values.job) filter.values.job = filter.words;
  const asked = toQuery({ ...filter, words: "" }, "job");
  if (asked.due_after) asked.due_after = asked.due_after.replace(/:\d\d\.\d+Z$/, ":00Z");
  const loaded = useLoad(`/dead-letters${query(asked)}`, { when: (change) => change.runs.some((run) => run.status === "FAILED" || run.status === "QUEUED"), restMs: 4000 }, readDead);
  const [replaying, setReplaying] = useState<Group | "all" | null>(null);
  const opened = param("open");
  useTitle(loaded.data.value?.runs.length ? `${count(loaded.data.value.runs.length, MOST)} dead` : "", "Dead letters");
  const found = loaded.data.value;
  const groups = found ? groupsOf(found.runs) : [];
  return (
    <>
      <div class="page-head">
        <div><h1>Dead letters</h1><p class="dim">Runs that used all their attempts and wait for somebody to decide.</p></div>
        <div class="page-actions">{groups.length > 0 && <Act operation="replayRuns" kind="primary" onClick={() => setReplaying("all")}>Replay all {text ? "that match" : ""}</Act>}</div>
      </div>
      <FilterBox text={text} known={DEAD_FILTERS} values={VALUES} onChange={(next) => setParams({ f: next || null })} placeholder="job:…, reason:timeout, queue:…, due:24h" />
      {loaded.problem.value && <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />}
      {!found && !loaded.problem.value && <Skeleton rows={8} />}
      {found && groups.length === 0 && (text ? <Empty title="No dead run matches this filter"><button type="button" onClick={() => setParams({ f: null })}>Clear the filter</button></Empty> : <Empty title="No dead runs"><p>Runs land here after their last attempt.</p></Empty>)}
      {found && !found.isAll && <p class="dim">Grouped from the newest {found.runs.length.toLocaleString("en")}.</p>}
      {groups.map((group) => (
        <section class="panel group" key={group.key} aria-label={`${group.job}: ${group.error}`}>
          <div class="group-head">
            <button type="button" class="plain" aria-expanded={opened === group.key} onClick={() => setParams({ open: opened === group.key ? null : group.key })} aria-label={`${opened === group.key ? "Close" : "Open"} the runs of ${group.job}`}>{opened === group.key ? "▾" : "▸"}</button>
            <Badge status="FAILED" extra={`×${count(group.runs.length)}`} />
            <a href={`/jobs/${enc(group.job)}`}>{group.job}</a>
            <span class="group-error" title={group.error}>{group.error}</span>
            <Ages runs={group.runs} />
            <span class="dim group-when">{group.runs.length > 1 ? <>last <Time at={group.last} />, first <Time at={group.first} /></> : <Time at={group.last} />}</span>
            <Act operation="replayRuns" onClick={() => setReplaying(group)}>Replay</Act>
          </div>
          {opened === group.key && (
            <div class="scroll" tabIndex={0}><table class="small-table">
              <thead><tr><th scope="col">Due</th><th scope="col">Attempts</th><th scope="col">Error</th><th scope="col">Actions</th></tr></thead>
              <tbody>{group.runs.slice(0, 200).map((run) => <tr key={run.run_id}><th scope="row"><a href={`/runs/${run.run_id}`}><Time at={run.scheduled_for} mode="absolute" /></a></th><td>{run.attempt_number}</td><td>{run.error_message}</td><td class="row"><Act operation="retryRun" kind="plain" onClick={() => retryRun(run, loaded.reload)}>Retry</Act><Act operation="replayRun" kind="plain" onClick={() => replayRun(run, loaded.reload)}>Replay</Act><Act operation="discardRun" kind="plain" onClick={() => discardRun(run, loaded.reload)}>Discard</Act></td></tr>)}</tbody>
            </table></div>
          )}
        </section>
      ))}
      {replaying && <ReplayDialog group={replaying === "all" ? null : replaying} filter={asked} onClose={() => { setReplaying(null); loaded.reload(); }} />}
    </>
  );
}

function groupsOf(runs: Run[]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const error = fingerprint(run.error_message, run.reason);
    const key = `${run.job_name} ${error}`;
    const at = ms(run.scheduled_for);
    const group = groups.get(key) ?? { key, job: run.job_name, error, runs: [], first: at, last: at };
    group.runs.push(run);
    group.first = Math.min(group.first, at);
    group.last = Math.max(group.last, at);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.runs.length - a.runs.length || b.last - a.last);
}

/** How old, in four steps. */
function Ages({ runs }: { runs: Run[] }) {
  const steps: [string, number][] = [["1 h", 3_600_000], ["1 d", 86_400_000], ["7 d", 604_800_000], ["older", Infinity]];
  const now = Date.now();
  const counts = steps.map(([word, upTo], i) => [word, runs.filter((run) => { const age = now - ms(run.scheduled_for); return age < upTo && age >= (steps[i - 1]?.[1] ?? 0); }).length] as const).filter(([, n]) => n > 0);
  return <span class="row">{counts.map(([word, n]) => <span class="tag" key={word} title={`${n} within ${word}`}>{word}: {n}</span>)}</span>;
}

type Phase = "plan" | "canary" | "rest" | "over";

/** A few first; the rest at a pace only when those went well. */
function ReplayDialog({ group, filter, onClose }: { group: Group | null; filter: Record<string, string>; onClose: () => void }) {
  const [rate, setRate] = useState("5");
  const [canary, setCanary] = useState("3");
  const [phase, setPhase] = useState<Phase>("plan");
  const [words, setWords] = useState<string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const whole = group ? { ...filter, job: group.job } : filter;
  const plan = useLoad<ReplayPlan>(`plan ${JSON.stringify(whole)}`, {}, () => send<ReplayPlan>({ method: "POST", path: "/dead-letters:replay", body: { filter: whole, dry_run: true } }));
  // One error of a job that also has others: run by run, as the filter of the API does not know errors.
  const ids = group ? group.runs.map((run) => run.run_id) : (plan.data.value?.replay_of ?? []);
  const isExact = !group || plan.data.value?.count === group.runs.length;
  const say = (text: string) => setWords((all) => [...all, text]);
  const write = (): Write => ({ method: "POST", path: "/dead-letters:replay", body: { filter: whole, rate: Number(rate), expected_count: ids.length } });

  async function replayOne(id: string): Promise<string> {
    return (await send<RunId>({ method: "POST", path: `/dead-letters/${id}/replay`, body: {} })).run_id;
  }
  async function outcome(id: string): Promise<Run> {
    for (let tries = 0; ; tries += 1) {
      const run = await get<Run>(`/runs/${id}`);
      if (["SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN"].includes(run.status) || tries > 120) return run;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  async function start(): Promise<void> {
    setProblem(null);
    try {
      const first = ids.slice(0, Math.max(0, Number(canary)));
      if (first.length) {
        setPhase("canary");
        say(`Replaying ${first.length} first…`);
        const made = await Promise.all(first.map(replayOne));
        const ended = await Promise.all(made.map(outcome));
        const bad = ended.filter((run) => run.status !== "SUCCEEDED");
        say(`${plural(ended.length - bad.length, "run")} succeeded, ${bad.length} did not.`);
        if (bad.length) {
          say(`Stopped there: ${bad[0].error_message ?? bad[0].status}. The others were not touched.`);
          return setPhase("over");
        }
      }
      const rest = ids.slice(first.length);
      if (rest.length) {
        setPhase("rest");
        if (isExact) {
          const done = await send<Replayed>({ ...write(), body: { filter: whole, rate: Number(rate), expected_count: rest.length } });
          say(`${plural(done.count, "run")} on their way, ${rate} a second.`);
        } else {
          for (const id of rest) {
            await replayOne(id);
            await new Promise((resolve) => setTimeout(resolve, 1000 / Number(rate)));
          }
          say(`${plural(rest.length, "run")} replayed.`);
        }
      }
      setPhase("over");
    } catch (error) {
      setProblem(problemOf(error));
      setPhase("over");
    }
  }
  const seconds = Math.max(0, ids.length - Number(canary)) / Math.max(0.001, Number(rate));
  return (
    <Dialog title={group ? `Replay ${group.job}` : "Replay all"} onClose={onClose}>
      {plan.problem.value && <ProblemBox problem={plan.problem.value} retry={plan.reload} />}
      <p>{plan.data.value ? <><strong>{plural(ids.length, "run")}</strong> would be made anew with the same payloads and the job as it is now.</> : "Counting…"}</p>
      {group && <p class="dim clip">{group.error}</p>}
      {phase === "plan" && <div class="fields"><label class="field"><span>Try this many first</span><input type="number" min="0" max="50" value={canary} onInput={(event) => setCanary(event.currentTarget.value)} /><small>the rest only if all of them succeed</small></label><label class="field"><span>Then so many a second</span><input type="number" min="0.1" max="1000" step="any" value={rate} onInput={(event) => setRate(event.currentTarget.value)} /><small>about {span(seconds * 1000)} in all</small></label></div>}
      {words.length > 0 && <ul role="status">{words.map((each) => <li key={each}>{each}</li>)}</ul>}
      {problem && <ProblemBox problem={problem} />}
      <div class="row dialog-foot">
        <Copy text={curl(write())} label="Copy as curl" /><span class="grow" />
        <button type="button" onClick={onClose}>Close</button>
        {phase === "plan" && <button type="button" class="primary" disabled={!ids.length || !(Number(rate) > 0)} onClick={() => void start()}>Replay {ids.length}</button>}
        {(phase === "canary" || phase === "rest") && <button type="button" disabled>Working…</button>}
      </div>
    </Dialog>
  );
}
