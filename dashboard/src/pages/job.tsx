// One job: what it is about to do, what it did, what changed, and why.
import { curl, enc, send } from "../lib/api";
import { useRef } from "preact/hooks";
import { writeJson } from "../lib/json";
import { useLoad } from "../lib/load";
import { go, param, setParams } from "../lib/route";
import { day, ms, span, weekday, zoneMode, zoneOf } from "../lib/time";
import { plural, runState, scheduleText } from "../lib/words";
import type { JobAnswer, PreviewAnswer, Run, VersionList, WebhookList } from "../types";
import { deleteJob, pauseJob, resumeJob, runNow, WhyDialog, whyAsked, wordOf } from "../parts/actions";
import { Chart, type Line } from "../parts/chart";
import { rulesOf } from "../parts/incidents";
import { RunTable } from "../parts/runtable";
import { runLabel, Strip } from "../parts/strip";
import { useTitle } from "../parts/shell";
import { Act, Badge, Command, Empty, Json, Panel, ProblemBox, Skeleton, Tabs, Time } from "../parts/ui";

const DAY = 86_400_000;
const HISTORY = 500;

export function JobPage({ job: word }: { job: string }) {
  const id = useRef("");
  const loaded = useLoad<JobAnswer>(`/jobs/${enc(word)}`, { when: (change) => [...change.jobs, ...change.runs].some((event) => event.job_id === id.current), restMs: 1500 });
  const job = loaded.data.value;
  id.current = job?.job_id ?? "";
  const history = useLoad<Run[]>(`/jobs/${enc(word)}/runs?limit=${HISTORY}`, { when: (change) => change.runs.some((run) => run.job_id === job?.job_id), restMs: 3000 });
  const runs = (history.data.value ?? []).filter((run) => run.status !== "PENDING");
  const versions = useLoad<VersionList>(`/jobs/${enc(word)}/versions`, { when: (change) => change.jobs.some((each) => each.job_id === job?.job_id) });
  const tab = param("tab", "runs");
  useTitle(job && (job.status === "PAUSED" ? "Paused" : job.last_run_status ? runState(job.last_run_status).word : ""), job?.name ?? word, "Jobs");
  if (loaded.problem.value && !job) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (!job) return <Skeleton rows={8} />;
  const reload = () => loaded.reload();
  const isDeleted = job.status === "CANCELLED";
  return (
    <>
      <div class="page-head">
        <div class="stack-tight">
          <p class="crumbs"><a href="/jobs">Jobs</a> / <span title={job.job_id}>{job.name}</span>{isDeleted && <span class="dim"> · {job.job_id}</span>}</p>
          <h1>{job.name}</h1>
        </div>
        <div class="page-actions">
          <span data-key="R"><Act operation="runJob" kind="primary" onClick={() => runNow(job, reload)} disabled={isDeleted ? "A deleted job cannot run." : ""}>Run now</Act></span>
          <span data-key="p">{job.status === "PAUSED" ? <Act operation="resumeJob" onClick={() => resumeJob(job, reload)}>Resume</Act> : <Act operation="pauseJob" onClick={() => pauseJob(job, reload)} disabled={job.status === "SCHEDULED" ? "" : "Only an active job can be paused."}>Pause</Act>}</span>
          {!isDeleted && <a class="button" data-key="e" href={`/jobs/${enc(job.name)}/edit`}>Edit</a>}
          <button type="button" data-key="y" onClick={() => (whyAsked.value = { job: wordOf(job), name: job.name })}>Why?</button>
          <a class="button" href={`/jobs/new?from=${enc(wordOf(job))}`}>Duplicate</a>
          <Act operation="deleteJob" onClick={() => deleteJob(job, () => go("/jobs"))} disabled={isDeleted ? "It is deleted already." : ""}>Delete</Act>
        </div>
      </div>
      <Summary job={job} runs={runs} />
      <Tabs at={tab} onPick={(name) => setParams({ tab: name })} tabs={[["runs", "Runs"], ["upcoming", "Upcoming"], ["durations", "Durations"], ["calendar", "Calendar"], ["definition", "Definition"], ["changes", `Changes (${job.version})`], ["alerts", "Alerts"]]} />
      {tab === "runs" && <RunTable path={`/runs?job=${enc(job.job_id)}`} jobId={job.job_id} zone={job.timezone} empty={<Empty title={job.next_fire_time ? "Waiting for the first run" : "No run yet"}><p>{job.next_fire_time ? <>Due <Time at={job.next_fire_time} zone={job.timezone} mode="both" />.</> : "It runs when somebody asks for it."}</p>{!isDeleted && <Act operation="runJob" kind="primary" onClick={() => runNow(job, reload)}>Run it now to test</Act>}</Empty>} />}
      {tab === "upcoming" && <Upcoming job={job} />}
      {tab === "durations" && <Durations runs={runs} isCut={(history.data.value?.length ?? 0) >= HISTORY} versions={versions.data.value} />}
      {tab === "calendar" && <Calendar runs={runs} zone={job.timezone} />}
      {tab === "definition" && <Panel title="Definition" from={loaded} actions={<Command text={curl({ method: "GET", path: `/jobs/${enc(wordOf(job))}` })} />}>{(each) => <Definition job={each} />}</Panel>}
      {tab === "changes" && <Panel title="Changes" from={versions}>{(data) => <Versions list={data} />}</Panel>}
      {tab === "alerts" && <Rules job={job} />}
      <WhyDialog />
    </>
  );
}

/** Who is told of this job: by its own rules, and by the webhooks of the tenant, which hear of every job. */
function Rules({ job }: { job: JobAnswer }) {
  const hooks = useLoad<WebhookList>("/webhooks");
  const own = rulesOf(job);
  return (
    <Panel title="Who is told" from={hooks} actions={<a href="/alerts">All alerts</a>}>
      {({ webhooks }) => own.length + webhooks.length === 0 ? <Empty title="Nobody is told of this job"><p>A webhook tells one address of all jobs; “notify” in the definition of one job.</p><a class="button" href="/alerts">Webhooks</a></Empty> : (
        <div class="scroll-x" tabIndex={0}><table class="small-table">
          <thead><tr><th scope="col">To</th><th scope="col">Of</th><th scope="col">By</th></tr></thead>
          <tbody>
            {own.map((rule, i) => <tr key={i}><th scope="row" class="mono">{rule.channel ?? rule.url}</th><td>{[rule.on ?? "always"].flat().join(", ")}</td><td>this job’s notify</td></tr>)}
            {webhooks.map((hook) => <tr key={hook.id} class={hook.is_active ? "" : "gone"}><th scope="row">{hook.name}</th><td>{hook.events.join(", ")}</td><td>a webhook of all jobs{hook.is_active ? "" : ", switched off"}</td></tr>)}
          </tbody>
        </table></div>
      )}
    </Panel>
  );
}

/** State, last result, next time, schedule in words, last runs. */
function Summary({ job, runs }: { job: JobAnswer; runs: Run[] }) {
  const preview = usePreview(job, 1);
  const last = runs.find((run) => run.end_time && run.status !== "SKIPPED");
  const times = runs.filter((run) => run.status === "SUCCEEDED" && run.duration_ms !== null).map((run) => run.duration_ms as number).sort((a, b) => a - b);
  const usual = times.length ? times[Math.floor(times.length / 2)] : null;
  const rate = (days: number) => {
    const over = runs.filter((run) => ms(run.scheduled_for) > Date.now() - days * DAY && (run.status === "SUCCEEDED" || run.status === "FAILED"));
    return over.length ? `${((over.filter((run) => run.status === "SUCCEEDED").length / over.length) * 100).toFixed(1).replace(".0", "")} % of ${over.length}` : null;
  };
  const week = rate(7);
  return (
    <section class="panel stack" aria-label="Summary">
      <p class="sentence">
        <Badge status={job.status} kind="job" />
        {job.status === "PAUSED" && <>{job.paused_until ? <>, resumes <Time at={job.paused_until} zone={job.timezone} mode="both" /></> : null}{job.pause_reason && <>: {job.pause_reason}</>}</>}
        {last && <> · last run <span class={`tone-${runState(last.status, last.reason).tone}`}>{runState(last.status, last.reason).word.toLowerCase()}</span> <a href={`/runs/${last.run_id}`}><Time at={last.end_time} zone={job.timezone} /></a>{last.duration_ms !== null && <> after {span(last.duration_ms)}{usual !== null && <span class="dim"> (usually {span(usual)})</span>}</>}</>}
        {!last && runs.length === 0 && <> · never ran</>}
        {job.next_fire_time && <> · next <Time at={job.next_fire_time} zone={job.timezone} mode="both" /></>}
      </p>
      <p><strong>{preview.data.value?.description ?? scheduleText(job.schedule)}</strong> <code class="dim">{scheduleText(job.schedule)}</code></p>
      <p class="row"><Strip runs={runs.slice(0, 30)} big empty={false} />{week && <span class="dim">{week} succeeded in 7 days</span>}</p>
      <p class="row dim"><span class="tag">{job.type}</span><span class="tag">queue {job.queue}</span><span class="tag">{String(job.priority).toLowerCase()} priority</span><span class="tag">overlap: {job.overlap}</span><span class="tag">timeout {String(job.timeout)}</span><span class="tag">{plural(job.max_retries, "retry").replace("retrys", "retries")}</span>{Object.entries(job.labels).map(([key, value]) => <a class="tag" key={key} href={`/jobs?f=${enc(`label:${key}:${value}`)}`}>{key}:{value}</a>)}</p>
      {job.description && <p class="dim">{job.description}</p>}
    </section>
  );
}

function usePreview(job: JobAnswer, size: number) {
  const body = { schedule: job.schedule, timezone: job.timezone, dst: job.dst, count: size };
  return useLoad<PreviewAnswer>(`preview ${JSON.stringify(body)}`, {}, () => send<PreviewAnswer>({ method: "POST", path: "/schedules/preview", body }));
}

function Upcoming({ job }: { job: JobAnswer }) {
  const preview = usePreview(job, 20);
  return (
    <Panel title="Upcoming" from={preview}>
      {(data) => (
        <div class="stack">
          {job.status === "PAUSED" && <p class="warning">The job is paused: these times start nothing until it is resumed.</p>}
          {data.warnings.map((text) => <p class="warning" key={text}>{text}</p>)}
          {data.next.length === 0 ? <p class="dim">No due time to come.</p> : <ol class="next">{data.next.map((each) => <li key={each.at}><Time at={each.at} zone={job.timezone} mode="both" seconds={false} />{zoneMode.value !== "job" && <span class="dim">{each.local.replace("T", " ")} in {job.timezone}</span>}<button type="button" class="plain small" onClick={() => (whyAsked.value = { job: wordOf(job), name: job.name, at: each.at })}>Why?</button></li>)}</ol>}
          {job.calendar !== null && <p class="dim">Days that its calendar excludes are skipped, and kept with that reason.</p>}
        </div>
      )}
    </Panel>
  );
}

function Durations({ runs, isCut, versions }: { runs: Run[]; isCut: boolean; versions: VersionList | null }) {
  const done = runs.filter((run) => run.start_time && run.duration_ms !== null).sort((a, b) => ms(a.start_time) - ms(b.start_time));
  if (done.length < 2) return <Empty title="Not enough runs for a chart yet" />;
  const times = done.map((run) => ms(run.start_time));
  const good = done.map((run) => (run.status === "SUCCEEDED" ? run.duration_ms : null));
  const bad = done.map((run) => (run.status === "SUCCEEDED" ? null : run.duration_ms));
  const sorted = good.filter((value) => value !== null).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  const lines: Line[] = [{ label: "succeeded", values: good, color: "--good", points: true }, { label: "not", values: bad, color: "--dead", points: true, isCross: true }];
  if (sorted.length) lines.push({ label: "p50", values: times.map(() => at(0.5)), color: "--quiet", dash: [3, 3], width: 1 }, { label: "p95", values: times.map(() => at(0.95)), color: "--queued", dash: [3, 3], width: 1 });
  const marks = (versions?.versions ?? []).filter((each) => each.version > 1).map((each) => ({ at: ms(each.created_at), label: `v${each.version}` }));
  const covers = isCut ? `The last ${done.length.toLocaleString("en")} runs that started, since ${day(times[0], zoneOf())}` : `All ${plural(done.length, "run")} that started`;
  const summary = sorted.length ? `${covers}: p50 ${span(at(0.5))}, p95 ${span(at(0.95))}. Dashed lines are versions of the job. Click a dot or a cross to open the run.` : `${covers}, none succeeded.`;
  return <section class="panel"><Chart title="Durations" summary={summary} times={times} lines={lines} unit={span} height={260} marks={marks} onPick={(index) => go(`/runs/${done[index].run_id}`)} /></section>;
}

function Calendar({ runs, zone }: { runs: Run[]; zone: string }) {
  const where = zoneOf(zone);
  const days = new Map<string, Run[]>();
  for (const run of runs) {
    const key = day(ms(run.scheduled_for), where);
    days.set(key, [...(days.get(key) ?? []), run]);
  }
  const order = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const today = Date.now();
  const back = 12 * 7 + order.indexOf(weekday(today, where));
  const cells = Array.from({ length: back + 1 }, (_, i) => day(today - (back - i) * DAY, where));
  const count = (list: Run[], status: string) => list.filter((run) => run.status === status).length;
  return (
    <section class="panel stack">
      <h2>The last 12 weeks, a square for each day</h2>
      <div class="calendar" role="list" tabIndex={0} aria-label="Days">
        {cells.map((each) => {
          const list = days.get(each) ?? [];
          const bad = count(list, "FAILED"), missed = list.filter((run) => runState(run.status, run.reason).word === "Missed").length;
          const words = list.length ? `${each}: ${plural(list.length, "run")}, ${count(list, "SUCCEEDED")} succeeded${bad ? `, ${bad} dead` : ""}${missed ? `, ${missed} missed` : ""}` : `${each}: no run`;
          return <i key={each} role="listitem" class={bad ? "bad" : missed ? "missed" : list.length ? "some" : ""} title={words} aria-label={words} />;
        })}
      </div>
      <p class="dim">Square: all well. Diamond: something died. Outline: something was missed. Of the newest {runs.length} runs.</p>
      {runs.filter((run) => run.status === "FAILED").slice(0, 5).map((run) => <p key={run.run_id}><a href={`/runs/${run.run_id}`}>{runLabel(run)}</a></p>)}
    </section>
  );
}

const SHOWN: [string, keyof JobAnswer][] = [["Schedule", "schedule"], ["Time zone", "timezone"], ["Type", "type"], ["Target", "target"], ["Payload", "payload"], ["Queue", "queue"], ["Priority", "priority"], ["Timeout", "timeout"], ["Retry", "retry"], ["When late (misfire)", "misfire"], ["Overlap", "overlap"], ["Most at once", "max_concurrency"], ["Jitter", "jitter"], ["Clock changes", "dst"], ["Calendar", "calendar"], ["From", "start_at"], ["Until", "end_at"], ["Most runs", "max_runs"], ["Delivery", "delivery"], ["After", "after"], ["Notify", "notify"]];

function Definition({ job }: { job: JobAnswer }) {
  return (
    <div class="stack">
      <dl class="facts">{SHOWN.map(([name, field]) => <FactRow key={field} name={name} value={job[field]} />)}</dl>
      <details><summary>As JSON</summary><Json value={job} /></details>
    </div>
  );
}

function FactRow({ name, value }: { name: string; value: unknown }) {
  if (value === null || value === undefined) return null;
  return <><dt>{name}</dt><dd>{typeof value === "object" ? <code>{writeJson(value)}</code> : String(value)}</dd></>;
}

function Versions({ list }: { list: VersionList }) {
  return (
    <div class="stack">
      {list.versions.map((each) => (
        <article key={each.version}>
          <p><strong>Version {each.version}</strong> <span class="dim">by {each.actor}, <Time at={each.created_at} mode="both" /></span></p>
          {each.diff.length === 0 ? <p class="dim">{each.version === 1 ? "Created." : "Nothing in the definition changed."}</p> : <div class="diff">{each.diff.map((change) => <div key={change.field}><div class="dim">{change.field}</div><div class="minus">{writeJson(change.before ?? null)}</div><div class="plus">{writeJson(change.after ?? null)}</div></div>)}</div>}
        </article>
      ))}
    </div>
  );
}

