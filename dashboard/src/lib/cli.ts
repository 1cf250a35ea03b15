// The same write as a line of the command line. Not every write has one: then only curl is offered.
import { quote, tenant, type Write } from "./api";
import { writeJson } from "./json";

type Body = Record<string, unknown>;
type Maker = (words: string[], body: Body) => string[] | null;

const flag = (name: string, value: unknown): string[] => (value === undefined || value === null || value === "" ? [] : [name, typeof value === "object" ? writeJson(value) : String(value)]);
/** For limits: null is a value there, and lifts them. */
const limit = (body: Body, field: string): string[] => (field in body ? [`--${field.replaceAll("_", "-")}`, body[field] === null ? "none" : String(body[field])] : []);
const LIMITS = ["max_jobs", "max_queued_runs", "max_running_runs", "requests_per_second", "weight", "description"];
const sets = (body: Body): string[] => Object.entries(body).filter(([, value]) => value !== undefined).flatMap(([field, value]) => ["--set", `${field}=${writeJson(value)}`]);
const paused = (body: Body): string[] => ("paused" in body ? [body.paused ? "--paused" : "--active"] : []);
const events = (body: Body): string[] => ((body.events as string[] | undefined) ?? []).flatMap((event) => ["--event", event]);

const MAKERS: [string, RegExp, Maker][] = [
  ["POST", /^\/jobs$/, (_, { name, ...fields }) => ["job", "create", String(name), ...sets(fields)]],
  ["PATCH", /^\/jobs\/([^/]+)$/, ([job], body) => ["job", "edit", job, ...sets(body)]],
  ["POST", /^\/jobs\/([^/]+)\/run$/, ([job], body) => ["job", "run", job, ...flag("--payload", body.payload)]],
  ["POST", /^\/jobs\/([^/]+)\/pause$/, ([job], body) => ["job", "pause", job, ...flag("--until", body.until), ...flag("--reason", body.reason)]],
  ["POST", /^\/jobs\/([^/]+)\/resume$/, ([job]) => ["job", "resume", job]],
  ["DELETE", /^\/jobs\/([^/]+)$/, ([job]) => ["job", "delete", "--yes", job]],
  ["POST", /^\/runs\/([^/]+)\/(cancel|retry)$/, ([run, verb]) => ["run", verb, run]],
  ["POST", /^\/dead-letters\/([^/]+)\/replay$/, ([run]) => ["dead", "replay", "--yes", run]],
  ["DELETE", /^\/dead-letters\/([^/]+)$/, ([run]) => ["dead", "discard", "--yes", run]],
  ["POST", /^\/dead-letters:(replay|discard)$/, ([verb], body) => inBulk(verb, body)],
  ["POST", /^\/queues\/([^/]+)\/(pause|resume)$/, ([queue, verb]) => ["queue", verb, queue]],
  ["PATCH", /^\/queues\/([^/]+)$/, ([queue], body) => ["queue", "limit", queue, body.max_running === null ? "none" : String(body.max_running)]],
  ["POST", /^\/workers\/([^/]+)\/drain$/, ([worker]) => ["worker", "drain", worker]],
  ["POST", /^\/webhooks$/, (_, body) => ["webhook", "create", String(body.name), "--to", String(body.url), ...events(body)]],
  ["PATCH", /^\/webhooks\/([^/]+)$/, ([hook], body) => ("is_active" in body ? ["webhook", "edit", hook, body.is_active ? "--active" : "--inactive"] : null)],
  ["POST", /^\/webhooks\/([^/]+)\/test$/, ([hook]) => ["webhook", "test", hook]],
  ["DELETE", /^\/webhooks\/([^/]+)$/, ([hook]) => ["webhook", "delete", hook]],
  ["POST", /^\/deliveries\/([^/]+)\/resend$/, ([delivery]) => ["webhook", "resend", delivery]],
  ["POST", /^\/keys$/, (_, body) => ["key", "create", String(body.name), ...flag("--role", body.role), ...flag("--expires-in", body.expires_in)]],
  ["POST", /^\/keys\/([^/]+)\/rotate$/, ([key], body) => ["key", "rotate", key, ...flag("--overlap", body.overlap)]],
  ["DELETE", /^\/keys\/([^/]+)$/, ([key]) => ["key", "revoke", key]],
  ["POST", /^\/tenants$/, (_, body) => ["tenant", "create", String(body.tenant), ...LIMITS.flatMap((field) => limit(body, field)), ...paused(body)]],
  ["PATCH", /^\/tenants\/([^/]+)$/, ([tenant], body) => ["tenant", "edit", tenant, ...LIMITS.flatMap((field) => limit(body, field)), ...paused(body)]],
];

function inBulk(verb: string, body: Body): string[] | null {
  const filter = (body.filter ?? {}) as Body;
  const chosen = [...flag("--job", filter.job), ...flag("--queue", filter.queue), ...flag("--priority", filter.priority), ...flag("--reason", filter.reason), ...flag("--error", filter.error), ...flag("--since", filter.due_after), ...flag("--until", filter.due_before)];
  return ["dead", verb, ...(chosen.length ? chosen : ["--all"]), ...flag("--rate", body.rate), "--yes"];
}

/** With the server and the tenant that this page is about: a terminal may be set to others. */
export function cli(write: Write): string {
  const where = ["--url", location.origin, ...(tenant.value ? ["--tenant", tenant.value] : [])];
  for (const [method, pattern, make] of MAKERS) {
    const match = method === write.method ? pattern.exec(write.path) : null;
    const words = match && make(match.slice(1).map(decodeURIComponent), (write.body ?? {}) as Body);
    const version = /^"v(\d+)"$/.exec(write.ifMatch ?? "")?.[1];
    if (words) return ["horae", ...words, ...(version ? ["--if-version", version] : []), ...where].map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quote(word))).join(" ");
  }
  return "";
}
