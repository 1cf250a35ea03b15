// A job made or changed, with what the server makes of it while it is typed.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, getExactly, send, type Write } from "../lib/api";
import { type Change, changesOf, dropDraft, edited, formOf, isJson, keepDraft, type Name, readDraft, rebased, specOf } from "../lib/jobform";
import { writeJson } from "../lib/json";
import { problemOf, useLoad } from "../lib/load";
import { go, guardLeaving, param } from "../lib/route";
import { myZone } from "../lib/time";
import type { JobAnswer, Problem } from "../types";
import { Preview, usePreview } from "../parts/preview";
import { useTitle } from "../parts/shell";
import { Act, ProblemBox, Skeleton, tell } from "../parts/ui";
import { CurlCopy } from "../parts/write";

const PRESETS: [string, string][] = [["every minute", "* * * * *"], ["every 15 minutes", "*/15 * * * *"], ["hourly, own minute", "H * * * *"], ["daily at 09:00", "0 9 * * *"], ["weekdays at 09:00", "0 9 * * 1-5"], ["Mondays", "0 9 * * 1"], ["1st of the month", "0 6 1 * *"], ["every 30 s", "@every 30s"], ["on request only", "@manual"]];
const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

export function EditJob({ job: word }: { job?: string }) {
  const source = word ?? param("from");
  const loaded = useLoad<JobAnswer>(source ? `/jobs/${enc(source)}` : "", {}, getExactly);
  useTitle(word ? `Edit ${word}` : "New job", "Jobs");
  if (source && loaded.problem.value) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (source && !loaded.data.value) return <Skeleton rows={10} />;
  return <JobForm loaded={loaded.data.value} isCopy={!word} />;
}

/** `isCopy`: what was loaded is only the pattern of another job. */
function JobForm({ loaded, isCopy }: { loaded: JobAnswer | null; isCopy: boolean }) {
  const [base, setBase] = useState(loaded);
  const job = isCopy ? null : base;
  const first = useMemo(() => (base ? formOf(base) : readDraft()), [base]);
  const [form, setForm] = useState(() => (base && isCopy ? { ...first, name: `${base.name}-copy` } : first));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [theirs, setTheirs] = useState<JobAnswer | null>(null);
  const preview = usePreview(form.schedule, form.timezone, form.gap, form.fold, job);
  const set = (name: Name) => (event: Event) => setForm({ ...form, [name]: (event.currentTarget as HTMLInputElement).value });
  const isChanged = JSON.stringify(form) !== JSON.stringify(first);
  useEffect(() => {
    if (!base && isChanged) keepDraft(form);
    guardLeaving(isChanged && base ? () => confirm("Leave without saving?") : null);
    return () => guardLeaving(null);
  }, [form, first]);

  const made = useMemo(() => {
    try {
      const mine = edited(form, base ? first : {}, base);
      return { document: base && isCopy ? { ...specOf(base), ...mine } : mine, fault: "" };
    } catch (error) {
      return { document: null, fault: (error as Error).message };
    }
  }, [form, first]);
  const changes = made.document && job ? changesOf(made.document, job) : [];
  const write = (): Write => {
    if (!made.document) throw new Error(made.fault);
    return job ? patchOf(job, changes) : { method: "POST", path: "/jobs", body: made.document };
  };
  async function save(asked: Write): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    setTheirs(null);
    try {
      const saved = await send<JobAnswer>(asked);
      if (!base) dropDraft();
      guardLeaving(null);
      tell(job ? `Saved as version ${saved.version}.` : `${saved.name} was made.`);
      go(`/jobs/${enc(saved.name)}`);
    } catch (error) {
      const found = problemOf(error);
      setProblem(found);
      // By its id: they may have changed its name.
      if (job && [404, 412].includes(found.status)) getExactly<JobAnswer>(`/jobs/${enc(job.job_id)}`).then((now) => now.version !== job.version && setTheirs(now), () => {});
      document.querySelector(".field.bad :is(input, textarea, select)")?.scrollIntoView({ block: "center" });
    } finally {
      setBusy(false);
    }
  }
  /** What I did not touch becomes theirs; `isMine` keeps what I did. */
  function take(version: JobAnswer, isMine: boolean): void {
    const next = formOf(version);
    const merged = isMine ? rebased(form, first, next) : next;
    setBase(version);
    setForm(merged);
    setTheirs(null);
    setProblem(null);
    if (isMine) void save(patchOf(version, changesOf(edited(merged, next, version), version)));
  }
  const mayNotSave = made.fault || (job && !changes.length ? "Nothing has changed." : "");
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !mayNotSave) void save(write());
  };
  const fault = (pointer: string) => problem?.errors.find((each) => each.pointer === pointer || each.pointer.startsWith(`${pointer}/`));
  const field = (name: Name, label: string, pointer: string, more: { hint?: string; kind?: "area" | "pick"; options?: string[]; list?: string; rows?: number; placeholder?: string } = {}) => {
    const wrong = fault(pointer);
    const shared = { value: form[name], onInput: set(name), "aria-invalid": !!wrong, placeholder: more.placeholder };
    return (
      <label class={`field ${wrong ? "bad" : ""}`}>
        <span>{label}</span>
        {more.kind === "pick" ? <select {...shared}>{[...new Set([...more.options!, form[name]])].map((each) => <option key={each}>{each}</option>)}</select> : more.kind === "area" ? <textarea rows={more.rows ?? 4} spellcheck={false} {...shared} /> : <input list={more.list} autocomplete="off" {...shared} />}
        {wrong ? <span class="fault" role="alert">{wrong.detail} {wrong.hint}</span> : more.hint && <small>{more.hint}</small>}
      </label>
    );
  };
  return (
    <>
      <div class="page-head">
        <div><p class="crumbs"><a href="/jobs">Jobs</a>{job && <> / <a href={`/jobs/${enc(job.name)}`}>{job.name}</a></>}</p><h1>{job ? `Edit ${job.name}` : "New job"}</h1>{!base && <p class="dim">Or <a href="/import">import a crontab</a>.</p>}</div>
        <div class="page-actions">
          <CurlCopy make={write} />
          <Act operation={job ? "changeJob" : "createJob"} kind="primary" onClick={() => void save(write())} disabled={mayNotSave} title="Ctrl Enter">{isBusy ? "Saving…" : job ? "Save" : "Make the job"}</Act>
        </div>
      </div>
      {problem && <ProblemBox problem={problem} />}
      {theirs && job && <Conflict job={job} theirs={theirs} mine={changes} take={take} />}
      <div class="form" onKeyDown={press}>
        <div class="stack">
          <section class="panel" aria-label="When">
            <h2>When</h2>
            <label class={`field ${preview.problem ? "bad" : ""}`}><span class="visually-hidden">Schedule</span><textarea class="when" rows={form.schedule.split("\n").length} value={form.schedule} onInput={set("schedule")} spellcheck={false} autocomplete="off" aria-describedby="preview" /></label>
            <div class="row">{PRESETS.map(([words, line]) => <button key={line} type="button" class="chip" aria-pressed={form.schedule === line} onClick={() => setForm({ ...form, schedule: line })}>{words}</button>)}</div>
            {field("timezone", "Time zone", "/timezone", { list: "zones", hint: form.timezone === myZone ? "the zone of this browser" : `this browser is in ${myZone}` })}
            <datalist id="zones">{ZONES.map((zone) => <option key={zone} value={zone} />)}</datalist>
          </section>
          <section class="panel" aria-label="What">
            <h2>What</h2>
            {field("name", "Name", "/name", { placeholder: "daily-report", hint: "letters, digits, dots, dashes; unique" })}
            {field("type", "Type", "/type", { kind: "pick", options: ["http", "shell", "python", "custom", "noop"] })}
            {form.type === "http" && <>{field("url", "URL", "/target/url", { placeholder: "https://example.com/report" })}<div class="fields">{field("method", "Method", "/target/method", { kind: "pick", options: ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"] })}{field("headers", "Headers (JSON)", "/target/headers", { placeholder: '{"X-Team": "ads"}' })}</div>{field("body", "Body", "/target/body", { kind: "area", rows: 3, hint: bodyHint(form.body) })}</>}
            {form.type === "shell" && field("command", "Command", "/target/command", { placeholder: "pg_dump shop > /backup/shop.sql" })}
            {form.type === "python" && field("handler", "Handler", "/target/handler", { placeholder: "reports.daily" })}
            {form.type === "noop" && field("sleep", "Sleep", "/target/sleep", { hint: "succeeds after this time; for trials" })}
            {form.type === "custom" && <p class="dim">Waits for a worker that has a handler of the job’s name.</p>}
            {field("payload", "Payload (JSON)", "/payload", { kind: "area", hint: form.payload.trim() ? undefined : "empty: no payload" })}
          </section>
          <section class="panel" aria-label="Rules">
            <details open={!!job}>
              <summary>Rules: {form.retries} retries ({form.backoff}), timeout {form.timeout}, overlap {form.overlap}, queue {form.queue}, {form.delivery.replaceAll("_", " ")}</summary>
              <div class="fields">
                {field("queue", "Queue", "/queue")}{field("priority", "Priority", "/priority", { kind: "pick", options: ["HIGH", "MEDIUM", "LOW"] })}{field("timeout", "Timeout", "/timeout")}{field("jitter", "Jitter", "/jitter", { hint: "spread the start by up to this" })}
                {field("retries", "Retries", "/retry/max_retries")}{field("backoff", "Backoff", "/retry/backoff", { kind: "pick", options: ["exponential", "linear", "fixed"] })}{field("delay", "First delay", "/retry/delay")}
                {field("overlap", "While one still runs", "/overlap", { kind: "pick", options: ["allow", "skip", "queue", "replace"] })}{field("misfire", "Due times passed", "/misfire/policy", { kind: "pick", options: ["run_once", "skip", "catch_up"] })}{field("calendar", "Calendar", "/calendar", { placeholder: "name of a calendar" })}
                {field("window", "Made up for if passed within", "/misfire/window", { hint: "longer ago is left out" })}{field("most", "At most so many made up for", "/misfire/max", { hint: "of catch_up" })}{field("delivery", "Delivery", "/delivery", { kind: "pick", options: ["at_least_once", "at_most_once"], hint: form.delivery === "at_most_once" ? "never tried twice: no retries" : "tried again when a worker is lost" })}
                {field("gap", "A time that the clocks leave out", "/dst/gap", { kind: "pick", options: ["shift", "skip"], hint: "dst.gap: shift runs right after the jump" })}{field("fold", "A time that comes twice", "/dst/fold", { kind: "pick", options: ["first", "last", "both"], hint: "dst.fold" })}
                {field("start_at", "Not before", "/start_at", { placeholder: "2030-01-01T09:00", hint: "start_at; empty: from now on" })}{field("end_at", "Not after", "/end_at", { placeholder: "2030-12-31T18:00", hint: "end_at; empty: without end" })}{field("max_runs", "Runs in all", "/max_runs", { hint: "empty: no limit" })}
                {field("max_concurrency", "Runs at the same time", "/max_concurrency", { hint: "empty: no limit" })}{field("concurrency_key", "Counted together with", "/concurrency_key", { placeholder: "shop-database", hint: "jobs of the same key share that limit" })}
              </div>
              {field("labels", "Labels", "/labels", { kind: "area", rows: Math.max(2, form.labels.split("\n").length), placeholder: "team:billing", hint: "one a line" })}
              {field("description", "Description", "/description", { kind: "area", rows: 2 })}
            </details>
          </section>
        </div>
        <aside class="preview stack" aria-label="Preview">
          <Preview preview={preview} schedule={form.schedule} zone={form.timezone} setSchedule={(schedule) => setForm({ ...form, schedule })} setJitter={() => setForm({ ...form, jitter: "60s" })} jitter={form.jitter} choose={(name, value) => setForm({ ...form, [name]: value })} />
          {made.fault && <p class="tone-failed" role="alert">{made.fault}</p>}
          {changes.length > 0 && <section class="panel"><h2>What will change</h2><div class="diff">{changes.map((each) => <div key={each.field}><div class="dim">{each.field}</div><div class="minus">{writeJson(each.before)}</div><div class="plus">{writeJson(each.after)}</div></div>)}</div></section>}
        </aside>
      </div>
    </>
  );
}

const patchOf = (job: JobAnswer, changes: Change[]): Write => ({ method: "PATCH", path: `/jobs/${enc(job.name)}`, body: Object.fromEntries(changes.map((each) => [each.field, each.after])), ifMatch: `"v${job.version}"` });

function bodyHint(body: string): string | undefined {
  if (!body.trim()) return undefined;
  if (!isJson(body)) return "sent as text: it is not JSON";
  return body.trim().startsWith('"') ? "sent as the text between the quotes" : "sent as JSON";
}

/** Both sides of an edit that came too late, and the two ways on. */
function Conflict({ job, theirs, mine, take }: { job: JobAnswer; theirs: JobAnswer; mine: Change[]; take: (version: JobAnswer, isMine: boolean) => void }) {
  const changed = changesOf({ name: theirs.name, ...specOf(theirs, true) }, job);
  const fields = [...new Set([...changed, ...mine].map((each) => each.field))];
  const side = (list: Change[], field: string, whose: string) => {
    const found = list.find((each) => each.field === field);
    return found ? <div class="plus"><span class="dim">{whose}: </span>{writeJson(found.after)}</div> : <div class="dim">{whose}: not changed</div>;
  };
  const both = fields.filter((field) => [changed, mine].every((list) => list.some((each) => each.field === field)));
  return (
    <section class="panel stack" aria-label="Conflict">
      <h2>Somebody else saved version {theirs.version}</h2>
      <div class="diff">{fields.map((field) => <div key={field}><strong>{field}</strong>{side(changed, field, "theirs")}{side(mine, field, "yours")}</div>)}</div>
      {both.length > 0 && <p class="warning">Both of you changed {both.join(", ")}: where the same part differs, yours is saved.</p>}
      <p class="row"><button type="button" class="primary" onClick={() => take(theirs, true)}>Save mine on top of theirs</button><button type="button" onClick={() => take(theirs, false)}>Read theirs, drop mine</button></p>
    </section>
  );
}
