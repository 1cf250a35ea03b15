// The public API and nothing else: one way to ask, one shape of failure, and the same call as a line of curl.
import { signal } from "@preact/signals";
import { NEEDS, type Problem, type WhoAmI } from "../types";
import { readExactly, readJson, writeJson } from "./json";

export const BASE = "/api/v1";
const KEY = "horae.key";
const TENANT = "horae.tenant";

export const key = signal(sessionStorage.getItem(KEY) ?? "");
export const tenant = signal(sessionStorage.getItem(TENANT) ?? "");
export const needsKey = signal(false);
export const whoami = signal<WhoAmI | null>(null);

export function setKey(value: string): void {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  key.value = value;
}

export function setTenant(value: string): void {
  if (value) sessionStorage.setItem(TENANT, value);
  else sessionStorage.removeItem(TENANT);
  tenant.value = value;
}

type Shared = { ask: true } | { bye: true } | { key: string; tenant: string };
/** Between tabs of this origin alone; nothing of it is stored. */
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("horae.key");
const HAND_OVER_MS = 300;
/** A busy tab answers later: the page for signing in, shown meanwhile, goes away by itself. */
const LATE_MS = 5000;
let borrowing: Promise<boolean> | null = null;
let take: ((shared: { key: string; tenant: string }) => void) | null = null;
tabs?.addEventListener("message", ({ data }: MessageEvent<Shared>) => {
  // Only a key that the server knows is handed on.
  if ("ask" in data) return void (key.value && whoami.value && !needsKey.value && tabs.postMessage({ key: key.value, tenant: tenant.value }));
  if ("bye" in data) return signOut(false);
  take?.(data);
});

/** In all tabs: one that is left would hand the key to this one again. */
export function signOut(isAsked = true): void {
  if (isAsked) tabs?.postMessage({ bye: true });
  else if (!key.value) return;
  setKey("");
  setTenant("");
  whoami.value = null;
  needsKey.value = true;
}

/** A tab that was opened from another one asks it for the key, instead of the reader. */
function borrowed(): Promise<boolean> {
  borrowing ??= new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), HAND_OVER_MS);
    const late = setTimeout(() => (take = null), LATE_MS);
    take = (shared) => {
      take = null;
      clearTimeout(timer);
      clearTimeout(late);
      if (key.value) return;
      if (!tenant.value) setTenant(shared.tenant);
      setKey(shared.key);
      needsKey.value = false;
      resolve(true);
    };
    tabs ? tabs.postMessage({ ask: true }) : resolve(false);
  });
  return borrowing;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
export type Write = { method: Method; path: string; body?: unknown; ifMatch?: string };

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

export function headers(extra: Record<string, string> = {}): Record<string, string> {
  const made: Record<string, string> = { ...extra };
  if (key.value) made.Authorization = `Bearer ${key.value}`;
  if (tenant.value) made["X-Horae-Tenant"] = tenant.value;
  return made;
}

/** How far the server's clock is ahead of this one, to the second; rounded up, so that what just ended is not left out. */
let aheadMs = 1000;

export async function open(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  const sent = key.value;
  try {
    answer = await fetch(path.startsWith("/") && !path.startsWith(BASE) ? BASE + path : path, {
      ...init,
      headers: { ...headers(), ...(init.headers as Record<string, string>) },
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(unreachable());
  }
  const told = Date.parse(answer.headers.get("date") ?? "");
  if (told) aheadMs = told + 1000 - Date.now();
  if (answer.ok) return answer;
  const problem = await readProblem(answer);
  // What was asked before there was a key, and is refused after another request got one, is asked again with it.
  if (answer.status === 401 && !key.value) await borrowed();
  if (answer.status === 401 && key.value && key.value !== sent) return open(path, init);
  if (answer.status === 401) needsKey.value = true;
  throw new ApiError(problem);
}

/** `=now` in the path is the moment of asking: a list that is read again later ends later. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const moment = path.replace(/=now(?=&|$)/, `=${enc(new Date(Date.now() + aheadMs).toISOString())}`);
  return readJson(await (await open(moment, { signal })).text()) as T;
}

/** For what will be edited and sent back: every number as the server wrote it. */
export async function getExactly<T>(path: string, signal?: AbortSignal): Promise<T> {
  return readExactly(await (await open(path, { signal })).text()) as T;
}

export async function send<T>(write: Write): Promise<T> {
  const extra: Record<string, string> = { "Content-Type": "application/json" };
  if (write.method === "POST") extra["Idempotency-Key"] = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  if (write.ifMatch) extra["If-Match"] = write.ifMatch;
  const body = write.body === undefined ? undefined : writeJson(write.body);
  return readJson(await (await open(write.path, { method: write.method, headers: extra, body })).text()) as T;
}

async function readProblem(answer: Response): Promise<Problem> {
  try {
    const document = (await answer.json()) as Problem;
    if (typeof document.title === "string") return document;
  } catch {
    // Not ours: a proxy in between.
  }
  return {
    type: "about:blank", title: `The server answered ${answer.status}`, status: answer.status,
    detail: answer.statusText, code: "unknown", errors: [], request_id: answer.headers.get("x-request-id") ?? "",
  };
}

function unreachable(): Problem {
  return {
    type: "about:blank", title: "horae cannot be reached", status: 0, code: "unreachable", errors: [], request_id: "",
    detail: "The server did not answer. It may be restarting; this page tries again by itself.",
  };
}

const RANK = ["viewer", "operator", "editor", "admin"];

/** Why the caller may not do this, in words; empty when they may. The server decides again on every write. */
export function whyNot(operation: string): string {
  const me = whoami.value;
  const need = NEEDS[operation];
  if (!me || !need) return "";
  if (RANK.indexOf(me.role) < RANK.indexOf(need.role))
    return `Your key has the role “${me.role}”; this needs “${need.role}”. An admin can make such a key.`;
  if (me.scopes.length && !me.scopes.includes(need.scope))
    return `Your key is limited to ${me.scopes.join(", ")}; this needs the scope “${need.scope}”.`;
  return "";
}

/** The same write for a terminal. The key stays out of it. */
export function curl(write: Write): string {
  const words = ["curl", "-X", write.method, quote(location.origin + BASE + write.path)];
  if (needsKey.value || key.value) words.push("-H", '"Authorization: Bearer $HORAE_API_KEY"');
  if (tenant.value) words.push("-H", quote(`X-Horae-Tenant: ${tenant.value}`));
  if (write.ifMatch) words.push("-H", quote(`If-Match: ${write.ifMatch}`));
  if (write.body !== undefined)
    words.push("-H", quote("Content-Type: application/json"), "-d", quote(writeJson(write.body)));
  return words.join(" ");
}

export const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export function query(values: Record<string, string | number | undefined | null>): string {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null && value !== "") made.set(name, String(value));
  const text = made.toString();
  return text ? `?${text}` : "";
}

/** `/jobs/new` is a page of its own: a job of that name is spelt otherwise, and means the same to the server. */
export const enc = (word: string) => (word === "new" ? "%6Eew" : encodeURIComponent(word));
