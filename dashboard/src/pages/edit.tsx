// A job made or changed, with what the server makes of it while it is typed.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, get, send, type Write } from "../lib/api";
import { problemOf, useLoad } from "../lib/load";
import { go, guardLeaving, param } from "../lib/route";
import { absolute, ms, myZone } from "../lib/time";
import type { Forecast, JobAnswer, PreviewAnswer, Problem } from "../types";
import { useTitle } from "../parts/shell";
import { Act, ProblemBox, Skeleton, tell, Time } from "../parts/ui";
import { CurlCopy } from "../parts/write";

type Form = {
  name: string; schedule: string; timezone: string; type: string; url: string; method: string; headers: string; body: string; command: string; handler: string; sleep: string;
  payload: string; queue: string; priority: string; timeout: string; retries: string; backoff: string; delay: string; overlap: string; misfire: string; jitter: string; labels: string; description: string; calendar: string;
};

const FRESH: Form = {
  name: "", schedule: "0 9 * * 1-5", timezone: myZone, type: "http", url: "", method: "POST", headers: "", body: "", command: "", handler: "", sleep: "0s", payload: "{}", queue: "default", priority: "MEDIUM",
  timeout: "30s", retries: "3", backoff: "exponential", delay: "2s", overlap: "allow", misfire: "run_once", jitter: "0s", labels: "", description: "", calendar: "",
};
const PRESETS: [string, string][] = [["every minute", "* * * * *"], ["every 15 minutes", "*/15 * * * *"], ["hourly, own minute", "H * * * *"], ["daily at 09:00", "0 9 * * *"], ["weekdays at 09:00", "0 9 * * 1-5"], ["Mondays", "0 9 * * 1"], ["1st of the month", "0 6 1 * *"], ["every 30 s", "@every 30s"], ["on request only", "@manual"]];
const DRAFT = "horae.draft";
const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

export function EditJob({ job: word }: { job?: string }) {
  const source = word ?? param("from");
  const loaded = useLoad<JobAnswer>(source ? `/jobs/${enc(source)}` : "");
  useTitle(word ? `Edit ${word}` : "New job", "Jobs");
  if (source && loaded.problem.value) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (source && !loaded.data.value) return <Skeleton rows={10} />;
  const job = loaded.data.value;
  const first = job ? formOf(job) : draft();
  if (job && !word) first.name = `${job.name}-copy`;
  return <JobForm first={first} job={word ? job : null} />;
}

function draft(): Form {
  try {
    return { ...FRESH, ...JSON.parse(localStorage.getItem(DRAFT) ?? "{}") } as Form;
  } catch {
    return { ...FRESH };
  }
}

function formOf(job: JobAnswer): Form {
  const target = (job.target ?? {}) as Record<string, unknown>;
  const retry = (job.retry ?? {}) as Record<string, unknown>;
  const misfire = (job.misfire ?? {}) as Record<string, unknown>;
  const text = (value: unknown) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
  return {
    name: job.name, schedule: Array.isArray(job.schedule) ? job.schedule.join("\n") : String(job.schedule ?? "@manual"), timezone: job.timezone, type: job.type, url: text(target.url), method: text(target.method) || "POST",
    headers: target.headers && Object.keys(target.headers).length ? JSON.stringify(target.headers) : "", body: text(target.body), command: text(target.command), handler: text(target.handler), sleep: text(target.sleep) || "0s",
    payload: JSON.stringify(job.payload ?? {}, null, 2), queue: job.queue, priority: String(job.priority), timeout: String(job.timeout), retries: String(retry.max_retries ?? 3), backoff: text(retry.backoff) || "exponential", delay: text(retry.delay) || "2s",
    overlap: job.overlap, misfire: text(misfire.policy) || "run_once", jitter: String(job.jitter), labels: Object.entries(job.labels).map(([key, value]) => `${key}:${value}`).join(" "), description: job.description, calendar: typeof job.calendar === "string" ? job.calendar : "",
  };
}

const jsonOr = (text: string, empty: unknown): unknown => (text.trim() ? JSON.parse(text) : empty);

/** In the words of the API; throws when a field that must be JSON is not. */
function documentOf(form: Form, job: JobAnswer | null): Record<string, unknown> {
  const lines = form.schedule.split("\n").map((line) => line.trim()).filter(Boolean);
  const before = (job?.type === form.type ? (job.target ?? {}) : {}) as Record<string, unknown>;
  const body = form.body.trim();
  const target: Record<string, unknown> = form.type === "http" ? { ...before, url: form.url, method: form.method, headers: jsonOr(form.headers, {}), body: body ? (/^[[{"]/.test(body) ? JSON.parse(body) : body) : (before.body === undefined ? undefined : null) }
    : form.type === "shell" ? { ...before, command: form.command.startsWith("[") ? JSON.parse(form.command) : form.command }
    : form.type === "python" ? { ...before, handler: form.handler } : form.type === "noop" ? { ...before, sleep: form.sleep } : before;
  if (target.body === undefined || target.body === null) delete target.body;
  const retry = { ...((job?.retry as Record<string, unknown> | null) ?? {}), max_retries: Number(form.retries), backoff: form.backoff, delay: form.delay };
  const misfire = { ...((job?.misfire as Record<string, unknown> | null) ?? {}), policy: form.misfire };
  const made: Record<string, unknown> = {
    name: form.name.trim(), schedule: lines.length > 1 ? lines : (lines[0] ?? "@manual"), timezone: form.timezone, type: form.type, payload: jsonOr(form.payload, {}), queue: form.queue, priority: form.priority, timeout: form.timeout, retry, misfire,
    overlap: form.overlap, jitter: form.jitter, labels: Object.fromEntries(form.labels.split(/\s+/).filter(Boolean).map((each) => [each.split(":")[0], each.split(":").slice(1).join(":")])), description: form.description,
  };
  if (form.type !== "custom") made.target = target;
  if (typeof job?.calendar !== "object" || job?.calendar === null) made.calendar = form.calendar || null;
  return made;
}

type Change = { field: string; before: unknown; after: unknown };
function changesOf(made: Record<string, unknown>, job: JobAnswer | null): Change[] {
  if (!job) return [];
  const before = job as unknown as Record<string, unknown>;
  const same = (a: unknown, b: unknown) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
  return Object.entries(made).filter(([field, after]) => !same(before[field], after)).map(([field, after]) => ({ field, before: before[field], after }));
}
const sorted = (value: unknown): unknown => value && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a.localeCompare(b)).map(([key, each]) => [key, sorted(each)])) : value;

function JobForm({ first, job }: { first: Form; job: JobAnswer | null }) {
  const [form, setForm] = useState(first);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [theirs, setTheirs] = useState<JobAnswer | null>(null);
  const preview = usePreview(form.schedule, form.timezone);
  const set = (name: keyof Form) => (event: Event) => setForm({ ...form, [name]: (event.currentTarget as HTMLInputElement).value });
  const isChanged = JSON.stringify(form) !== JSON.stringify(first);
  useEffect(() => {
    if (!job && isChanged) localStorage.setItem(DRAFT, JSON.stringify(form));
    guardLeaving(isChanged && job ? () => confirm("Leave without saving?") : null);
    return () => guardLeaving(null);
  }, [form]);

  const made = useMemo(() => {
    try {
      return { document: documentOf(form, job), fault: "" };
    } catch (error) {
      return { document: null, fault: `Not JSON: ${(error as Error).message}` };
    }
  }, [form]);
  const changes = made.document ? changesOf(made.document, job) : [];
  const write = (): Write => {
    if (!made.document) throw new Error(made.fault);
    if (!job) return { method: "POST", path: "/jobs", body: made.document };
    return { method: "PATCH", path: `/jobs/${enc(job.name)}`, body: Object.fromEntries(changes.map((each) => [each.field, each.after])), ifMatch: `"v${job.version}"` };
  };
  async function save(): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const saved = await send<JobAnswer>(write());
      localStorage.removeItem(DRAFT);
      guardLeaving(null);
      tell(job ? `Saved as version ${saved.version}.` : `${saved.name} was made.`);
      go(`/jobs/${enc(saved.name)}`);
    } catch (error) {
      const found = problemOf(error);
      setProblem(found);
      if (found.status === 412 && job) get<JobAnswer>(`/jobs/${enc(job.name)}`).then(setTheirs, () => {});
      document.querySelector(".field.bad input")?.scrollIntoView({ block: "center" });
    } finally {
      setBusy(false);
    }
  }
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") void save();
  };
  const fault = (pointer: string) => problem?.errors.find((each) => each.pointer === pointer || each.pointer.startsWith(`${pointer}/`));
  const field = (name: keyof Form, label: string, pointer: string, more: { hint?: string; kind?: "area" | "pick"; options?: string[]; list?: string; rows?: number; placeholder?: string } = {}) => {
    const wrong = fault(pointer);
    const shared = { value: form[name], onInput: set(name), "aria-invalid": !!wrong, placeholder: more.placeholder };
    return (
      <label class={`field ${wrong ? "bad" : ""}`}>
        <span>{label}</span>
        {more.kind === "pick" ? <select {...shared}>{more.options!.map((each) => <option key={each}>{each}</option>)}</select> : more.kind === "area" ? <textarea rows={more.rows ?? 4} spellcheck={false} {...shared} /> : <input list={more.list} autocomplete="off" {...shared} />}
        {wrong ? <span class="fault" role="alert">{wrong.detail} {wrong.hint}</span> : more.hint && <small>{more.hint}</small>}
      </label>
    );
  };
  return (
    <>
      <div class="page-head">
        <div><p class="crumbs"><a href="/jobs">Jobs</a>{job && <> / <a href={`/jobs/${enc(job.name)}`}>{job.name}</a></>}</p><h1>{job ? `Edit ${job.name}` : "New job"}</h1></div>
        <div class="page-actions">
          <CurlCopy make={write} />
          <Act operation={job ? "changeJob" : "createJob"} kind="primary" onClick={() => void save()} disabled={made.fault || (job && !changes.length ? "Nothing has changed." : "")} title="Ctrl Enter">{isBusy ? "Saving…" : job ? "Save" : "Make the job"}</Act>
        </div>
      </div>
      {problem && <ProblemBox problem={problem} />}
      {theirs && job && <section class="panel"><h2>Somebody else saved version {theirs.version}</h2><div class="diff">{changesOf(documentOf(formOf(theirs), theirs), job).map((each) => <div key={each.field}><span class="dim">{each.field}: theirs</span><div class="plus">{JSON.stringify(each.after)}</div></div>)}</div><p><button type="button" onClick={() => location.reload()}>Read it anew</button></p></section>}
      <div class="form" onKeyDown={press}>
        <div class="stack">
          <section class="panel" aria-label="When">
            <h2>When</h2>
            <label class={`field ${preview.problem ? "bad" : ""}`}><span class="visually-hidden">Schedule</span><input class="when" value={form.schedule} onInput={set("schedule")} spellcheck={false} autocomplete="off" aria-describedby="preview" /></label>
            <div class="row">{PRESETS.map(([words, line]) => <button key={line} type="button" class="chip" aria-pressed={form.schedule === line} onClick={() => setForm({ ...form, schedule: line })}>{words}</button>)}</div>
            {field("timezone", "Time zone", "/timezone", { list: "zones", hint: form.timezone === myZone ? "the zone of this browser" : `this browser is in ${myZone}` })}
            <datalist id="zones">{ZONES.map((zone) => <option key={zone} value={zone} />)}</datalist>
          </section>
          <section class="panel" aria-label="What">
            <h2>What</h2>
            {field("name", "Name", "/name", { placeholder: "daily-report", hint: "letters, digits, dots, dashes; unique" })}
            {field("type", "Type", "/type", { kind: "pick", options: ["http", "shell", "python", "custom", "noop"] })}
            {form.type === "http" && <>{field("url", "URL", "/target/url", { placeholder: "https://example.com/report" })}<div class="fields">{field("method", "Method", "/target/method", { kind: "pick", options: ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"] })}{field("headers", "Headers (JSON)", "/target/headers", { placeholder: '{"X-Team": "ads"}' })}</div>{field("body", "Body", "/target/body", { kind: "area", rows: 3 })}</>}
            {form.type === "shell" && field("command", "Command", "/target/command", { placeholder: "pg_dump shop > /backup/shop.sql" })}
            {form.type === "python" && field("handler", "Handler", "/target/handler", { placeholder: "reports.daily" })}
            {form.type === "noop" && field("sleep", "Sleep", "/target/sleep", { hint: "succeeds after this time; for trials" })}
            {form.type === "custom" && <p class="dim">Waits for a worker that has a handler of the job’s name.</p>}
            {field("payload", "Payload (JSON)", "/payload", { kind: "area" })}
          </section>
          <section class="panel" aria-label="Rules">
            <details open={!!job}>
              <summary>Rules: {form.retries} retries ({form.backoff}), timeout {form.timeout}, overlap {form.overlap}, queue {form.queue}</summary>
              <div class="fields">
                {field("queue", "Queue", "/queue")}{field("priority", "Priority", "/priority", { kind: "pick", options: ["HIGH", "MEDIUM", "LOW"] })}{field("timeout", "Timeout", "/timeout")}{field("jitter", "Jitter", "/jitter", { hint: "spread the start by up to this" })}
                {field("retries", "Retries", "/retry/max_retries")}{field("backoff", "Backoff", "/retry/backoff", { kind: "pick", options: ["exponential", "linear", "fixed"] })}{field("delay", "First delay", "/retry/delay")}
                {field("overlap", "While one still runs", "/overlap", { kind: "pick", options: ["allow", "skip", "queue", "replace"] })}{field("misfire", "Due times passed", "/misfire/policy", { kind: "pick", options: ["run_once", "skip", "catch_up"] })}{field("calendar", "Calendar", "/calendar", { placeholder: "name of a calendar" })}
              </div>
              {field("labels", "Labels", "/labels", { placeholder: "team:billing tier:gold" })}
              {field("description", "Description", "/description", { kind: "area", rows: 2 })}
            </details>
          </section>
        </div>
        <aside class="preview stack" aria-label="Preview">
          <Preview preview={preview} zone={form.timezone} setSchedule={(schedule) => setForm({ ...form, schedule })} setJitter={() => setForm({ ...form, jitter: "60s" })} jitter={form.jitter} />
          {made.fault && <p class="tone-failed" role="alert">{made.fault}</p>}
          {changes.length > 0 && <section class="panel"><h2>What will change</h2><div class="diff">{changes.map((each) => <div key={each.field}><div class="dim">{each.field}</div><div class="minus">{JSON.stringify(each.before)}</div><div class="plus">{JSON.stringify(each.after)}</div></div>)}</div></section>}
        </aside>
      </div>
    </>
  );
}

type Previewed = { answer: PreviewAnswer | null; problem: Problem | null; crowd: { at: number; runs: number; quiet: number | null; quietRuns: number } | null };

/** From the server's own parser, a moment after typing stops; the last good one stays until then. */
function usePreview(schedule: string, timezone: string): Previewed {
  const [state, setState] = useState<Previewed>({ answer: null, problem: null, crowd: null });
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(async () => {
      const lines = schedule.split("\n").map((line) => line.trim()).filter(Boolean);
      try {
        const answer = await send<PreviewAnswer>({ method: "POST", path: "/schedules/preview", body: { schedule: lines.length > 1 ? lines : (lines[0] ?? "@manual"), timezone, count: 8 } });
        if (isOver) return;
        setState((old) => ({ ...old, answer, problem: null }));
        const crowd = answer.next[0] ? await crowdAt(ms(answer.next[0].at)) : null;
        if (!isOver) setState((old) => ({ ...old, crowd }));
      } catch (error) {
        if (!isOver) setState((old) => ({ ...old, problem: problemOf(error) }));
      }
    }, 120);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [schedule, timezone]);
  return state;
}

/** How many runs are due in that minute, and the emptiest one near it. */
async function crowdAt(at: number): Promise<Previewed["crowd"]> {
  const minute = Math.floor(at / 60_000) * 60_000;
  if (minute - Date.now() > 7 * 86_400_000) return null;
  const start = Math.max(Date.now(), minute - 15 * 60_000);
  const found = await get<Forecast>(`/forecast?bucket=1m&from=${enc(new Date(start).toISOString())}&to=${enc(new Date(minute + 16 * 60_000).toISOString())}`).catch(() => null);
  if (!found) return null;
  const runs = new Map(found.buckets.map((bucket) => [ms(bucket.at), bucket.runs]));
  let quiet: number | null = null, quietRuns = Infinity;
  for (let step = 1; step <= 15; step += 1) {
    const there = minute + step * 60_000;
    if ((runs.get(there) ?? 0) < quietRuns) {
      quietRuns = runs.get(there) ?? 0;
      quiet = there;
    }
  }
  return { at: minute, runs: runs.get(minute) ?? 0, quiet, quietRuns };
}

function Preview({ preview, zone, setSchedule, setJitter, jitter }: { preview: Previewed; zone: string; setSchedule: (text: string) => void; setJitter: () => void; jitter: string }) {
  const { answer, problem, crowd } = preview;
  const isCrowded = crowd && crowd.runs >= 10;
  const quietMinute = crowd?.quiet ? new Date(crowd.quiet).getUTCMinutes() : 0;
  return (
    <section class="panel stack" id="preview" aria-live="polite">
      <h2>What this means</h2>
      {problem && <div class="problem"><strong>{problem.errors[0]?.detail ?? problem.detail}</strong>{problem.errors[0]?.hint && <p>{problem.errors[0].hint}</p>}</div>}
      {answer && (
        <div class={`stack ${problem ? "dim" : ""}`}>
          <p class="words">{answer.description}</p>
          {answer.warnings.map((text) => <p class="warning" key={text}>{text}</p>)}
          {isCrowded && <div class="warning stack"><p>{crowd.runs} other runs are due in that minute; at :{String(quietMinute).padStart(2, "0")} there {crowd.quietRuns === 1 ? "is" : "are"} {crowd.quietRuns}.</p><p class="row"><UseMinute minute={quietMinute} setSchedule={setSchedule} />{jitter === "0s" && <button type="button" onClick={setJitter}>Add 60 s of jitter</button>}</p></div>}
          {answer.next.length === 0 ? <p class="dim">No due time to come: it runs when somebody asks.</p> : <ol class="next">{answer.next.map((each) => <li key={each.at}><span>{absolute(ms(each.at), zone, false)}</span><span class="dim"><Time at={each.at} /></span></li>)}</ol>}
          {answer.next.length > 1 && <Gaps next={answer.next} />}
        </div>
      )}
      {!answer && !problem && <Skeleton rows={5} />}
    </section>
  );
}

function UseMinute({ minute, setSchedule }: { minute: number; setSchedule: (text: string) => void }) {
  const box = document.querySelector<HTMLInputElement>(".when");
  const parts = (box?.value ?? "").trim().split(/\s+/);
  if (parts.length !== 5 || !/^\d+$/.test(parts[0])) return null;
  return <button type="button" onClick={() => setSchedule([minute, ...parts.slice(1)].join(" "))}>Use minute {minute}</button>;
}

function Gaps({ next }: { next: PreviewAnswer["next"] }) {
  const offsets = new Set(next.map((each) => each.local.slice(-6)));
  return offsets.size > 1 ? <p class="warning">The clocks change between these times; the local time stays as written.</p> : null;
}
