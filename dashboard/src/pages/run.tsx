// One run: how it ended and why, what changed since it last went well, every attempt to scale, its log.
import { enc, get } from "../lib/api";
import { writeJson } from "../lib/json";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/route";
import { absolute, ms, now, span, zoneOf } from "../lib/time";
import { fingerprint, plain, reasonWords, runState } from "../lib/words";
import type { JobAnswer, Run, RunWithAttempts, VersionList } from "../types";
import { cancelRun, discardRun, replayRun, retryRun, WhyDialog, whyAsked } from "../parts/actions";
import { Icon } from "../parts/icons";
import { Log } from "../parts/log";
import { useTitle } from "../parts/shell";
import { Act, Copy, Json, Panel, ProblemBox, Skeleton, Tabs, Time } from "../parts/ui";

const OVER = ["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "UNKNOWN"];

export function RunPage({ run: id }: { run: string }) {
  const loaded = useLoad<RunWithAttempts>(`/runs/${enc(id)}`, { when: (change) => change.runs.some((each) => each.run_id === id), restMs: 500 });
  const run = loaded.data.value;
  const tab = param("tab", "log");
  const state = run ? runState(run.status, run.reason) : null;
  useTitle(state?.word, run?.job_name, "Run");
  if (loaded.problem.value && !run) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (!run || !state) return <Skeleton rows={10} />;
  const isOver = OVER.includes(run.status);
  const reload = loaded.reload;
  return (
    <>
      <div class="page-head">
        <div>
          <p class="crumbs"><a href="/runs">Runs</a> / <a href={`/jobs/${enc(run.job_id)}`}>{run.job_name}</a> / <span class="mono">{run.run_id}</span> <Copy text={run.run_id} label="Copy id" /></p>
          <h1>{run.job_name} <span class="dim">· due {absolute(ms(run.scheduled_for), zoneOf())}</span></h1>
        </div>
        <div class="page-actions">
          {!isOver && <Act operation="cancelRun" onClick={() => cancelRun(run, reload)}>Cancel</Act>}
          {["FAILED", "CANCELLED", "UNKNOWN"].includes(run.status) && <Act operation="retryRun" kind="primary" onClick={() => retryRun(run, reload)}>Retry</Act>}
          {run.status === "FAILED" && <Act operation="replayRun" onClick={() => replayRun(run, reload)}>Replay</Act>}
          {run.status === "FAILED" && <Act operation="discardRun" onClick={() => discardRun(run, reload)}>Discard</Act>}
          <button type="button" data-key="y" onClick={() => (whyAsked.value = { job: run.job_id, name: run.job_name, at: run.scheduled_for })}>Why?</button>
        </div>
      </div>
      <section class="panel stack" aria-label="Outcome">
        <p class={`sentence tone-${state.tone}`} role="status"><Icon shape={state.shape} size={18} /> <strong>{outcome(run)}</strong></p>
        {run.error_message && <pre class="error-text mono" tabIndex={0}>{plain(run.error_message)}</pre>}
        <Compare run={run} />
        <Timeline run={run} />
      </section>
      <Tabs at={tab} onPick={(name) => setParams({ tab: name })} tabs={[["log", "Log"], ["attempts", `Attempts (${run.attempts.length})`], ["result", "Result"], ["facts", "Facts"]]} />
      {tab === "log" && <Log run={run} isOver={isOver} />}
      {tab === "attempts" && <Attempts run={run} />}
      {tab === "result" && <Panel title="Result" from={loaded}>{(each) => each.result === null ? <p class="dim">{isOver ? "It gave no result." : "No result yet."}</p> : <Json value={each.result} />}</Panel>}
      {tab === "facts" && <Facts run={run} />}
      <WhyDialog />
    </>
  );
}

/** One sentence: what, after how many attempts, because of what. */
function outcome(run: RunWithAttempts): string {
  const state = runState(run.status, run.reason);
  const reason = run.reason ? reasonWords(run.reason) : "";
  switch (run.status) {
    case "SUCCEEDED": return `Succeeded${run.duration_ms !== null ? ` in ${span(run.duration_ms)}` : ""}${run.retry_count ? ` on attempt ${run.attempt_number}` : ""}.`;
    case "FAILED": return `Dead after ${run.attempt_number} of ${run.max_attempts} ${run.max_attempts === 1 ? "attempt" : "attempts"}: ${run.error_message ? fingerprint(run.error_message, run.reason) : reason || "it failed"}.`.replace("..", ".");
    case "SKIPPED": return `${state.word}${run.skipped_count ? `, ${run.skipped_count} due times` : ""}: ${reason}.`;
    case "CANCELLED": return `Cancelled${reason ? `: ${reason}` : ""}.`;
    case "RUNNING": return `Running for ${run.start_time ? span(Math.max(0, now.value - ms(run.start_time))) : "a moment"}, attempt ${run.attempt_number} of ${run.max_attempts}.`;
    case "RETRYING": return `Attempt ${run.attempt_number} of ${run.max_attempts} failed${reason ? ` (${reason})` : ""}; the next one is waiting.`;
    case "QUEUED": return `Waiting for a worker since ${span(Math.max(0, now.value - ms(run.run_at)))}${reason ? `: ${reason}` : ""}.`;
    case "PENDING": return `Due in ${span(Math.max(0, ms(run.run_at) - now.value))}.`;
    default: return `The worker was lost and the job runs at most once: nobody knows whether it finished.`;
  }
}

type Compared = { good: Run | null; versions: VersionList; same: number; job: JobAnswer | null };

/** Against the last run before this one that went well. */
function Compare({ run }: { run: RunWithAttempts }) {
  const isBad = run.status === "FAILED" || run.status === "UNKNOWN";
  const loaded = useLoad<Compared>(isBad ? `compare ${run.run_id}` : "", {}, async (_, signal) => {
    const base = `/jobs/${enc(run.job_id)}`;
    const [good, versions, dead, job] = await Promise.all([
      get<Run[]>(`${base}/runs?status=SUCCEEDED&due_before=${enc(run.scheduled_for)}&limit=1`, signal), get<VersionList>(`${base}/versions`, signal),
      get<Run[]>(`${base}/runs?status=FAILED&limit=200`, signal), get<JobAnswer>(base, signal).catch(() => null),
    ]);
    const print = fingerprint(run.error_message, run.reason);
    return { good: good[0] ?? null, versions, same: dead.filter((each) => each.run_id !== run.run_id && fingerprint(each.error_message, each.reason) === print).length, job };
  });
  const found = loaded.data.value;
  if (!isBad) return null;
  if (loaded.problem.value) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (!found) return <p class="dim">Looking for what changed…</p>;
  const changed = found.good ? found.versions.versions.filter((each) => each.version > found.good!.job_version && each.version <= run.job_version) : [];
  return (
    <div class="stack">
      <p>
        {found.good ? <>Since the last success (<a href={`/runs/${found.good.run_id}`}><Time at={found.good.scheduled_for} mode="both" /></a>): {changed.length ? <strong>the job changed from v{found.good.job_version} to v{run.job_version}</strong> : <>the job did not change (v{run.job_version})</>}{found.good.executor_id !== run.executor_id && run.executor_id && <>, another worker took it</>}.</> : <>It has not succeeded before, as far as runs are kept.</>}
        {found.same > 0 && <> <a href={`/dead-letters?f=${enc(`job:${run.job_id}`)}`}>{found.same} more {found.same === 1 ? "run shares" : "runs share"} this error</a>.</>}
      </p>
      {changed.map((each) => <div key={each.version} class="diff"><div class="dim">v{each.version} by {each.actor}, <Time at={each.created_at} mode="both" /></div>{each.diff.map((change) => <div key={change.field}><span class="dim">{change.field}</span><div class="minus">{writeJson(change.before ?? null)}</div><div class="plus">{writeJson(change.after ?? null)}</div></div>)}</div>)}
    </div>
  );
}

/** From the due time to the end, every wait and every attempt, all on one scale. */
function Timeline({ run }: { run: RunWithAttempts }) {
  if (run.status === "SKIPPED") return null;
  const due = ms(run.scheduled_for);
  const start = Math.min(due, ...run.attempts.map((each) => ms(each.start_time)));
  const end = run.end_time ? ms(run.end_time) : Math.max(now.value, start + 1);
  const whole = Math.max(1, end - start);
  const place = (from: number, to: number) => ({ left: `${(Math.max(0, from - start) / whole) * 100}%`, width: `${(Math.max(0, to - from) / whole) * 100}%` });
  const lanes: { name: string; from: number; to: number; kind: string; words: string }[] = [];
  let at = start;
  if (ms(run.run_at) > due) {
    lanes.push({ name: "jitter", from: due, to: ms(run.run_at), kind: "wait tone-quiet", words: "" });
    at = ms(run.run_at);
  }
  for (const attempt of run.attempts) {
    const from = ms(attempt.start_time);
    const to = attempt.end_time ? ms(attempt.end_time) : end;
    if (from - at > 0) lanes.push({ name: lanes.some((lane) => lane.name.startsWith("#")) ? "backoff" : "waited", from: at, to: from, kind: "wait tone-queued", words: "" });
    const state = runState(attempt.status === "FAILED" && run.status !== "FAILED" ? "FAILED" : attempt.status, attempt.reason);
    lanes.push({ name: `#${attempt.attempt_number}`, from, to, kind: `tone-${state.tone}`, words: attempt.status === "SUCCEEDED" ? "succeeded" : attempt.reason ? reasonWords(attempt.reason) : state.word.toLowerCase() });
    at = to;
  }
  if (!run.end_time && run.status !== "RUNNING") lanes.push({ name: "waiting", from: at, to: Math.max(end, at), kind: "wait tone-queued", words: reasonWords(run.reason) });
  return (
    <div class="timeline" role="list" aria-label={`Timeline over ${span(whole)}`}>
      {lanes.map((lane, i) => <div class="lane-row" role="listitem" key={i}><span class={lane.kind.replace("wait ", "")}>{lane.name}<span class="dim"> {lane.words}</span></span><div class="lane"><div class={`bar ${lane.kind}`} style={place(lane.from, lane.to)} /></div><span class="right">{span(lane.to - lane.from)}</span></div>)}
      <div class="lane-row"><span class="dim">{span(whole)} in all</span><span class="axis"><Time at={start} mode="clock" /><Time at={end} mode="clock" /></span><span /></div>
    </div>
  );
}

function Attempts({ run }: { run: RunWithAttempts }) {
  if (!run.attempts.length) return <p class="dim">It has not been tried yet.</p>;
  return (
    <section class="panel scroll" tabIndex={0} aria-label="Attempts">
      <table class="small-table">
        <thead><tr><th scope="col">Attempt</th><th scope="col">Outcome</th><th scope="col">Started</th><th scope="col" class="right">Took</th><th scope="col">Worker</th><th scope="col">Error</th></tr></thead>
        <tbody>{run.attempts.map((each) => <tr key={each.attempt_number}><th scope="row"><a href={`/runs/${run.run_id}?attempt=${each.attempt_number}`}>#{each.attempt_number}</a></th><td>{each.status === "SUCCEEDED" ? "succeeded" : each.reason ? reasonWords(each.reason) : each.status.toLowerCase()}</td><td><Time at={each.start_time} mode="absolute" /></td><td class="right">{each.duration_ms === null ? "–" : span(each.duration_ms)}</td><td class="mono">{each.executor_id ? <a href={`/runs?f=${enc(`worker:${each.executor_id}`)}`}>{each.executor_id.slice(-12)}</a> : "–"}</td><td>{plain(each.error_message ?? "")}</td></tr>)}</tbody>
      </table>
    </section>
  );
}

function Facts({ run }: { run: RunWithAttempts }) {
  const times: [string, string | null][] = [["Due", run.scheduled_for], ["To start (after jitter)", run.run_at], ["Queued", run.queued_at], ["Started", run.start_time], ["Ended", run.end_time]];
  return (
    <section class="panel stack">
      <dl class="facts">
        {times.map(([name, at]) => <><dt key={name}>{name}</dt><dd><Time at={at} mode="both" /></dd></>)}
        <dt>Started by</dt><dd>{run.trigger}{run.replay_of && <>, of <a href={`/runs/${run.replay_of}`} class="mono">{run.replay_of}</a></>}</dd>
        <dt>Late</dt><dd>{run.lateness_ms === null ? "–" : span(run.lateness_ms)}</dd>
        <dt>Queue</dt><dd>{run.queue}, {run.priority.toLowerCase()} priority</dd>
        <dt>Job version</dt><dd><a href={`/jobs/${enc(run.job_id)}?tab=changes`}>v{run.job_version}</a></dd>
        <dt>Worker</dt><dd class="mono">{run.executor_id ?? "–"}</dd>
        <dt>Reason</dt><dd>{run.reason ? <>{reasonWords(run.reason)} <code>{run.reason}</code></> : "–"}</dd>
      </dl>
      <details><summary>As JSON</summary><Json value={run} /></details>
    </section>
  );
}
