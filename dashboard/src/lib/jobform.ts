// A job as the texts of a form, and back. What nobody touched is not in what is sent.
import type { JobAnswer } from "../types";
import { isSame, readExactly, writeJson } from "./json";
import { myZone } from "./time";

export type Form = {
  name: string; schedule: string; timezone: string; type: string; url: string; method: string; headers: string; body: string; command: string; handler: string; sleep: string;
  payload: string; queue: string; priority: string; timeout: string; retries: string; backoff: string; delay: string; overlap: string; misfire: string; jitter: string; labels: string; description: string; calendar: string;
  window: string; most: string; gap: string; fold: string; delivery: string; start_at: string; end_at: string; max_runs: string; max_concurrency: string; concurrency_key: string;
};
export type Name = keyof Form;
export type Document = Record<string, unknown>;
export type Change = { field: string; before: unknown; after: unknown };

export const FRESH: Form = {
  name: "", schedule: "0 9 * * 1-5", timezone: myZone, type: "http", url: "", method: "POST", headers: "", body: "", command: "", handler: "", sleep: "0s", payload: "", queue: "default", priority: "MEDIUM",
  timeout: "30s", retries: "3", backoff: "exponential", delay: "2s", overlap: "allow", misfire: "run_once", jitter: "0s", labels: "", description: "", calendar: "",
  window: "1h", most: "10", gap: "shift", fold: "first", delivery: "at_least_once", start_at: "", end_at: "", max_runs: "", max_concurrency: "", concurrency_key: "",
};
/** Of a new job these are only sent when somebody chose them: few need them, and the line for a terminal stays short. */
const RARE: Name[] = ["window", "most", "gap", "fold", "delivery", "start_at", "end_at", "max_runs", "max_concurrency", "concurrency_key"];
/** What a duplicate has in common with the job it was made from. */
const SPEC: (keyof JobAnswer)[] = [
  "schedule", "timezone", "type", "target", "payload", "priority", "queue", "timeout", "retry", "misfire", "overlap", "max_concurrency", "concurrency_key", "jitter", "dst",
  "calendar", "start_at", "end_at", "max_runs", "delivery", "after", "notify", "labels", "description",
];
const TARGETS: Record<string, Name[]> = { http: ["url", "method", "headers", "body"], shell: ["command"], python: ["handler"], noop: ["sleep"] };
const DRAFT = "horae.draft";

export function formOf(job: JobAnswer): Form {
  const [target, retry, misfire, dst] = [record(job.target), record(job.retry), record(job.misfire), record(job.dst)];
  const text = (value: unknown) => (value === undefined || value === null ? "" : typeof value === "string" ? value : writeJson(value));
  return {
    name: job.name, schedule: Array.isArray(job.schedule) ? job.schedule.join("\n") : (job.schedule ?? "@manual"), timezone: job.timezone, type: job.type,
    url: text(target.url), method: text(target.method) || "POST", headers: isSame(target.headers ?? {}, {}) ? "" : text(target.headers), body: bodyText(target.body), command: text(target.command), handler: text(target.handler), sleep: text(target.sleep) || "0s",
    payload: job.payload === null || job.payload === undefined ? "" : writeJson(job.payload, 2), queue: job.queue, priority: String(job.priority), timeout: String(job.timeout),
    retries: text(retry.max_retries ?? 3), backoff: text(retry.backoff) || "exponential", delay: text(retry.delay) || "2s", overlap: job.overlap, misfire: text(misfire.policy) || "run_once", jitter: String(job.jitter),
    labels: labelText(job.labels), description: job.description, calendar: text(job.calendar),
    window: text(misfire.window) || "1h", most: text(misfire.max ?? 10), gap: text(dst.gap) || "shift", fold: text(dst.fold) || "first", delivery: job.delivery,
    start_at: text(job.start_at), end_at: text(job.end_at), max_runs: text(job.max_runs), max_concurrency: text(job.max_concurrency), concurrency_key: text(job.concurrency_key),
  };
}

/** The fields whose texts differ from the first ones, in the words of the API; throws when a text that must be JSON is not. */
export function edited(form: Form, first: Partial<Form>, base: JobAnswer | null): Document {
  const made: Document = {};
  const isTouched = (name: Name) => form[name] !== (first[name] ?? (RARE.includes(name) ? FRESH[name] : undefined));
  const take = (field: string, names: Name[], value: () => unknown) => {
    if (names.some(isTouched)) made[field] = value();
  };
  const parts = (before: Document, texts: [string, Name, (text: string) => unknown][]) => ({ ...before, ...Object.fromEntries(texts.filter(([, name]) => isTouched(name)).map(([field, name, read]) => [field, read(form[name])])) });
  take("name", ["name"], () => form.name.trim());
  take("schedule", ["schedule"], () => scheduleOf(form.schedule));
  for (const name of ["timezone", "type", "queue", "priority", "timeout", "overlap", "jitter", "description", "delivery"] as const) take(name, [name], () => form[name]);
  take("target", ["type", ...(TARGETS[form.type] ?? [])], () => targetOf(form, first, base));
  take("payload", ["payload"], () => (form.payload.trim() ? json(form.payload, "Payload") : null));
  take("retry", ["retries", "backoff", "delay"], () => parts(record(base?.retry), [["max_retries", "retries", countOf], ["backoff", "backoff", String], ["delay", "delay", String]]));
  take("misfire", ["misfire", "window", "most"], () => parts(record(base?.misfire), [["policy", "misfire", String], ["window", "window", String], ["max", "most", countOf]]));
  take("dst", ["gap", "fold"], () => parts(record(base?.dst), [["gap", "gap", String], ["fold", "fold", String]]));
  for (const name of ["start_at", "end_at", "concurrency_key"] as const) take(name, [name], () => form[name].trim() || null);
  for (const name of ["max_runs", "max_concurrency"] as const) take(name, [name], () => (form[name].trim() ? countOf(form[name]) : null));
  take("labels", ["labels"], () => labelsOf(form.labels));
  take("calendar", ["calendar"], () => (/^\s*[{[]/.test(form.calendar) ? json(form.calendar, "Calendar") : form.calendar.trim() || null));
  return made;
}

export function changesOf(made: Document, job: JobAnswer): Change[] {
  const before = job as unknown as Document;
  return Object.entries(made).filter(([field, after]) => !isSame(before[field], after)).map(([field, after]) => ({ field, before: before[field], after }));
}

/** The whole of a job, for another one like it; what is not set is only there `withEmpty`. */
export function specOf(job: JobAnswer, withEmpty = false): Document {
  return Object.fromEntries(SPEC.filter((field) => withEmpty || (job[field] !== null && job[field] !== undefined)).map((field) => [field, job[field]]));
}

/** My changed texts on the texts of another version. */
export function rebased(form: Form, first: Form, onto: Form): Form {
  const names = Object.keys(onto) as Name[];
  return Object.fromEntries(names.map((name) => [name, form[name] === first[name] ? onto[name] : form[name]])) as Form;
}

export function scheduleOf(text: string): string | string[] {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.length > 1 ? lines : (lines[0] ?? "@manual");
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What was typed and not yet sent; whatever else may stand there is passed over. */
export function readDraft(): Form {
  const form = { ...FRESH };
  try {
    const saved = record(JSON.parse(localStorage.getItem(DRAFT) ?? "{}"));
    for (const name of Object.keys(FRESH) as Name[]) if (typeof saved[name] === "string") form[name] = saved[name];
  } catch {
    // Not ours.
  }
  return form;
}

export const keepDraft = (form: Form) => localStorage.setItem(DRAFT, JSON.stringify(form));
export const dropDraft = () => localStorage.removeItem(DRAFT);

function targetOf(form: Form, first: Partial<Form>, base: JobAnswer | null): Document {
  const isKept = base?.type === form.type;
  const target: Document = isKept ? { ...record(base?.target) } : {};
  for (const name of TARGETS[form.type] ?? []) {
    if (isKept && form[name] === first[name]) continue;
    const read = TARGET_VALUES[name] ?? String;
    const value = read(form[name]);
    if (value === undefined) delete target[name];
    else target[name] = value;
  }
  return target;
}

const TARGET_VALUES: Partial<Record<Name, (text: string) => unknown>> = {
  headers: (text) => (text.trim() ? json(text, "Headers") : {}),
  body: (text) => (!text.trim() ? undefined : isJson(text) ? readExactly(text) : text),
  command: (text) => (isJson(text) && isTexts(JSON.parse(text)) ? JSON.parse(text) : text),
};

const record = (value: unknown): Document => (value && typeof value === "object" && !Array.isArray(value) ? (value as Document) : {});
const isTexts = (value: unknown) => Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === "string");
/** What is no number goes as it is: the server says what it wants there. */
const countOf = (text: string) => (/^-?\d+$/.test(text.trim()) ? Number(text) : text);

function json(text: string, label: string): unknown {
  try {
    return readExactly(text);
  } catch (error) {
    throw new Error(`${label}: not JSON. ${(error as Error).message}`);
  }
}

/** A text that would be read as JSON is shown in quotes, as the JSON that it is. */
function bodyText(body: unknown): string {
  if (body === undefined || body === null) return "";
  return typeof body === "string" && !isJson(body) ? body : writeJson(body, 2);
}

function labelText(labels: Record<string, string>): string {
  const pairs = Object.entries(labels);
  const isPlain = pairs.every(([, value]) => value === value.trim() && !/[\r\n]/.test(value));
  return isPlain ? pairs.map((pair) => pair.join(":")).join("\n") : writeJson(labels, 2);
}

function labelsOf(text: string): unknown {
  if (text.trim().startsWith("{")) return json(text, "Labels");
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`Labels: “${line}” has no value. Write one a line, as in team:billing.`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
