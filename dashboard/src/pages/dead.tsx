// Runs that used all their attempts, grouped by what went wrong; replayed a few at first, then at a pace.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { enc, get, query, send, type Write } from "../lib/api";
import { DEAD_FILTERS, parse, toQuery } from "../lib/filter";
import { problemOf, useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { span } from "../lib/time";
import { count, errorWords, plain, plural, REASONS } from "../lib/words";
import type { DeadList, Problem, Replayed, ReplayPlan, Run, RunId } from "../types";
import { discardRun, replayRun, retryRun } from "../parts/actions";
import { type Group, groupKey, useDeadGroups } from "../parts/deadgroups";
import { Export } from "../parts/export";
import { FilterBox, UnreadFilter } from "../parts/filterbox";
import { Deleted, useNamed } from "../parts/named";
import { useTitle } from "../parts/shell";
import { FreshLine, useGrowing, useSteady } from "../parts/steady";
import { Act, Badge, Dialog, Empty, ProblemBox, Skeleton, Time } from "../parts/ui";
import { ask, Terminal } from "../parts/write";

const SHOWN = 200;
const MOST_AT_ONCE = 10_000;
const VALUES = { priority: ["HIGH", "MEDIUM", "LOW"], due: ["1h", "24h", "today", "7d", "30d"], reason: Object.keys(REASONS) };
type Asked = Record<string, string>;

export function DeadLetters() {
  const text = param("f");
  const filter = parse(text, DEAD_FILTERS);
  const named = useNamed(filter.values.job ? "" : filter.words);
  if (named.id) filter.values.job = named.id;
  const isUnread = filter.problems.length > 0 || !!named.instead;
  const asked = useMemo(() => toQuery({ ...filter, words: "" }, "job"), [text, named.id]);
  const loaded = useDeadGroups(isUnread ? null : asked, SHOWN);
  const [replaying, setReplaying] = useState<Group | "all" | null>(null);
  const opened = param("open");
  const found = loaded.whole;
  useTitle(found?.run_count ? `${found.run_count.toLocaleString("en")} dead` : "", "Dead letters");
  const groups = loaded.groups ?? [];
  const steady = useSteady(loaded.groups, groupKey, loaded.source, text, !loaded.isWhole);
  const drawn = useGrowing(steady.shown.length, 20, text);
  const reload = () => {
    steady.settle();
    loaded.reload();
  };
  return (
    <>
      <div class="page-head">
        <div><h1>Dead letters</h1><p class="dim">Runs that used all their attempts and wait for somebody to decide.{found && found.run_count > 0 && <> {plural(found.run_count, "run")}, {plural(found.group_count, "cause")}{found.group_count > groups.length ? `; those of the last day come first, then the largest; ${SHOWN} are shown` : "; those of the last day come first"}.</>}</p></div>
        <div class="page-actions">{!isUnread && groups.length > 0 && <Act operation="replayRuns" kind="primary" onClick={() => setReplaying("all")}>Replay all {text ? "that match" : ""}</Act>}</div>
      </div>
      <FilterBox text={text} known={DEAD_FILTERS} values={VALUES} onChange={(next, isSameStep) => setParams({ f: next || null }, isSameStep)} extra={<Export path={`/dead-letters${query(asked)}`} field="dead_letters" name="dead-letters" />} placeholder="part of a job’s name, job:…, reason:timeout, queue:…, due:24h" />
      {filter.problems.length > 0 ? <UnreadFilter /> : named.instead}
      {loaded.problem && <ProblemBox problem={loaded.problem} retry={loaded.reload} />}
      <Deleted name={filter.values.job} problem={loaded.problem} />
      {!loaded.groups && !loaded.problem && !isUnread && <Skeleton rows={8} />}
      {!isUnread && found && groups.length === 0 && (text ? <Empty title="No dead run matches this filter"><button type="button" onClick={() => setParams({ f: null })}>Clear the filter</button></Empty> : <Empty title="No dead runs"><p>Runs land here after their last attempt.</p></Empty>)}
      {!isUnread && groups.length > 0 && <FreshLine words={steady.waiting.length ? plural(steady.waiting.length, "new cause") : ""} onShow={steady.show} />}
      {!isUnread && groups.length > 0 && steady.shown.slice(0, drawn).map(({ item: group, isGone }) => {
        const key = groupKey(group);
        return (
          <section class={`panel group ${isGone ? "gone" : ""}`} key={key} aria-label={`${group.job_name}: ${errorWords(group.error)}`}>
            <div class="group-head">
              <button type="button" class="plain" aria-expanded={opened === key} onClick={() => setParams({ open: opened === key ? null : key }, true)} aria-label={`${opened === key ? "Close" : "Open"} the runs of ${group.job_name}`}>{opened === key ? "▾" : "▸"}</button>
              <Badge status="FAILED" extra={`×${count(group.runs, Infinity)}`} />
              <a href={`/jobs/${enc(group.job_id)}`}>{group.job_name}</a>
              <span class="group-error" title={errorWords(group.error)}>{errorWords(group.error)}</span>
              <Ages group={group} />
              <span class="dim group-when">{group.runs > 1 ? <>last <Time at={group.last_due} />, first <Time at={group.first_due} /></> : <Time at={group.last_due} />}</span>
              <span class="group-acts">{isGone ? <span class="dim">none left</span> : <><Act operation="replayRuns" onClick={() => setReplaying(group)}>Replay</Act><Act operation="discardRuns" kind="plain" onClick={() => discardGroup(group, asked, reload)}>Discard</Act></>}</span>
            </div>
            {opened === key && <GroupRuns group={group} asked={asked} reload={reload} />}
          </section>
        );
      })}
      {replaying && <ReplayDialog group={replaying === "all" ? null : replaying} filter={asked} onClose={() => { setReplaying(null); reload(); }} />}
    </>
  );
}

const within = (group: Group, asked: Asked): Asked => ({ ...asked, job: group.job_id, error: group.error });

/** As many as are seen: when more have died meanwhile, the server refuses. */
function discardGroup(group: Group, asked: Asked, after: () => void): void {
  ask({
    title: `Take ${plural(group.runs, "run")} of ${group.job_name} out of the dead letters`, button: "Discard", isDanger: true, typed: String(group.runs),
    write: { method: "POST", path: "/dead-letters:discard", body: { filter: within(group, asked), expected_count: Math.min(group.runs, MOST_AT_ONCE) } },
    effect: <p>{errorWords(group.error)}. The runs and their logs stay in the history; they are no longer listed as waiting for you.</p>,
    done: () => {
      after();
      return { text: `${plural(group.runs, "run")} discarded.` };
    },
  });
}

/** The newest of one group; the list of runs has the others. */
function GroupRuns({ group, asked, reload }: { group: Group; asked: Asked; reload: () => void }) {
  const path = `/dead-letters${query({ ...within(group, asked), limit: SHOWN })}`;
  const loaded = useLoad<DeadList>(path);
  const steady = useSteady(loaded.data.value?.dead_letters ?? null, (run) => run.run_id, loaded.data.value, path);
  const again = () => { steady.settle(); loaded.reload(); reload(); };
  const turn = useRef(group.runs);
  useEffect(() => {
    if (turn.current !== group.runs) loaded.reload();
    turn.current = group.runs;
  }, [group.runs]);
  if (loaded.problem.value) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (!loaded.data.value) return <Skeleton rows={Math.min(6, group.runs)} />;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Dead runs of ${group.job_name}`}><table class="small-table">
        <thead><tr><th scope="col">Due</th><th scope="col">Attempts</th><th scope="col">Error</th><th scope="col">Actions</th></tr></thead>
        <tbody>{steady.shown.map(({ item: run, isGone }) => <tr key={run.run_id}><th scope="row"><a href={`/runs/${run.run_id}`}><Time at={run.scheduled_for} mode="absolute" /></a></th><td>{run.attempt_number}</td><td class="error-cell">{plain(run.error_message ?? "")}</td><td class="row">{isGone ? <span class="dim">no longer here</span> : <><Act operation="retryRun" kind="plain" onClick={() => retryRun(run, again)}>Retry</Act><Act operation="replayRun" kind="plain" onClick={() => replayRun(run, again)}>Replay</Act><Act operation="discardRun" kind="plain" onClick={() => discardRun(run, again)}>Discard</Act></>}</td></tr>)}</tbody>
      </table></div>
      <p class="dim">{group.runs > SHOWN ? `The newest ${SHOWN} of ${group.runs.toLocaleString("en")}.` : `${plural(group.runs, "run")}.`} {steady.waiting.length > 0 && <button type="button" class="plain small" onClick={steady.show}>{plural(steady.waiting.length, "new run")}, show</button>}</p>
    </>
  );
}

/** How old, in four steps. */
function Ages({ group }: { group: Group }) {
  const steps: [string, string, number][] = [["1 h", "due within the last hour", group.by_age.hour], ["1 d", "before that, within a day", group.by_age.day], ["7 d", "before that, within a week", group.by_age.week], ["older", "due more than a week ago", group.by_age.older]];
  return <span class="row">{steps.filter(([, , n]) => n > 0).map(([word, words, n]) => <span class="tag" key={word} title={`${n} ${words}`}>{word}: {n.toLocaleString("en")}</span>)}</span>;
}

type Phase = "plan" | "canary" | "rest" | "over";

/** A few first; the rest at a pace only when those went well. */
function ReplayDialog({ group, filter, onClose }: { group: Group | null; filter: Record<string, string>; onClose: () => void }) {
  const [rate, setRate] = useState("5");
  const [canary, setCanary] = useState("3");
  const [phase, setPhase] = useState<Phase>("plan");
  const [words, setWords] = useState<string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const whole = group ? within(group, filter) : filter;
  const plan = useLoad<ReplayPlan>(`plan ${JSON.stringify(whole)}`, {}, () => send<ReplayPlan>({ method: "POST", path: "/dead-letters:replay", body: { filter: whole, dry_run: true } }));
  const ids = plan.data.value?.replay_of ?? [];
  const expected = (n: number) => (ids.length < MOST_AT_ONCE ? { expected_count: n } : {});
  const say = (text: string) => setWords((all) => [...all, text]);
  const write = (): Write => ({ method: "POST", path: "/dead-letters:replay", body: { filter: whole, rate: Number(rate), ...expected(ids.length) } });

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
          say(`Stopped there: ${plain(bad[0].error_message ?? bad[0].status)}. The others were not touched.`);
          return setPhase("over");
        }
      }
      const rest = ids.slice(first.length);
      if (rest.length) {
        setPhase("rest");
        // Unless new ones have died meanwhile, these are those that were counted: the server refuses another number.
        const done = await send<Replayed>({ ...write(), body: { filter: whole, rate: Number(rate), ...expected(rest.length) } });
        say(`${plural(done.count, "run")} on their way, ${rate} a second.`);
      }
      setPhase("over");
    } catch (error) {
      setProblem(problemOf(error));
      setPhase("over");
    }
  }
  const seconds = Math.max(0, ids.length - Number(canary)) / Math.max(0.001, Number(rate));
  return (
    <Dialog title={group ? `Replay ${group.job_name}` : "Replay all"} onClose={onClose}>
      {plan.problem.value && <ProblemBox problem={plan.problem.value} retry={plan.reload} />}
      <p>{plan.data.value ? <><strong>{plural(ids.length, "run")}</strong> would be made anew with the same payloads and the job as it is now.</> : "Counting…"}</p>
      {group && <p class="dim clip">{errorWords(group.error)}</p>}
      {ids.length >= MOST_AT_ONCE && <p class="dim">{MOST_AT_ONCE.toLocaleString("en")} are the most at once, oldest first.</p>}
      {phase === "plan" && <div class="fields"><label class="field"><span>Try this many first</span><input type="number" min="0" max="50" value={canary} onInput={(event) => setCanary(event.currentTarget.value)} /><small>the rest only if all of them succeed</small></label><label class="field"><span>Then so many a second</span><input type="number" min="0.1" max="1000" step="any" value={rate} onInput={(event) => setRate(event.currentTarget.value)} /><small>about {span(seconds * 1000)} in all</small></label></div>}
      {words.length > 0 && <ul role="status">{words.map((each) => <li key={each}>{each}</li>)}</ul>}
      {problem && <ProblemBox problem={problem} />}
      <div class="row dialog-foot">
        <Terminal writes={[write()]} /><span class="grow" />
        <button type="button" onClick={onClose}>Close</button>
        {phase === "plan" && <button type="button" class="primary" disabled={!ids.length || !(Number(rate) > 0)} onClick={() => void start()}>Replay {ids.length}</button>}
        {(phase === "canary" || phase === "rest") && <button type="button" disabled>Working…</button>}
      </div>
    </Dialog>
  );
}
