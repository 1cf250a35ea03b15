// The closed lists in words, once.
export type Shape = "clock" | "bars" | "ring" | "again" | "tick" | "cross" | "boxcross" | "stop" | "skip" | "broken" | "pause" | "question";

export type StateWord = { word: string; shape: Shape; tone: string };

export const RUN_STATES: Record<string, StateWord> = {
  PENDING: { word: "Scheduled", shape: "clock", tone: "quiet" },
  QUEUED: { word: "Queued", shape: "bars", tone: "queued" },
  RUNNING: { word: "Running", shape: "ring", tone: "running" },
  RETRYING: { word: "Retrying", shape: "again", tone: "retrying" },
  SUCCEEDED: { word: "Succeeded", shape: "tick", tone: "good" },
  FAILED: { word: "Dead", shape: "boxcross", tone: "dead" },
  CANCELLED: { word: "Cancelled", shape: "stop", tone: "quiet" },
  SKIPPED: { word: "Skipped", shape: "skip", tone: "quiet" },
  MISSED: { word: "Missed", shape: "broken", tone: "missed" },
  UNKNOWN: { word: "Unknown", shape: "question", tone: "missed" },
};

export const JOB_STATES: Record<string, StateWord> = {
  SCHEDULED: { word: "Active", shape: "tick", tone: "good" },
  PAUSED: { word: "Paused", shape: "pause", tone: "queued" },
  COMPLETED: { word: "Completed", shape: "tick", tone: "quiet" },
  CANCELLED: { word: "Deleted", shape: "stop", tone: "quiet" },
};

/** Nobody could decide in time: shown as missed, not as skipped. */
const MISSED = new Set(["scheduler_down", "catch_up_expired"]);

export const REASONS: Record<string, string> = {
  overlap_skipped: "an earlier run was unfinished",
  catch_up_expired: "too late to catch up",
  job_paused: "the job was paused",
  queue_paused: "the queue is paused",
  tenant_paused: "the tenant is paused",
  tenant_quota: "the tenant’s quota is used up",
  outside_window: "outside the job’s start and end",
  calendar_excluded: "excluded by the calendar",
  dst_gap: "the clocks skipped this time",
  scheduler_down: "no scheduler was up",
  schedule_changed: "the schedule changed",
  superseded: "replaced by a later run",
  dependency_failed: "the job before it failed",
  no_worker: "no worker serves its queue",
  no_worker_for_type: "no worker can run this type",
  slots_full: "all slots are busy",
  job_concurrency: "the job’s own limit",
  tenant_concurrency: "the tenant’s limit",
  rate_limited: "a rate limit",
  behind_higher_priority: "behind higher priorities",
  jitter: "spread by jitter",
  retry_backoff: "waiting for the next attempt",
  waiting_for_upstream: "waiting for the job before it",
  exit_code: "the command failed",
  exception: "the handler raised an error",
  http_status: "the HTTP answer was not the expected one",
  timeout: "timed out",
  worker_lost: "the worker was lost",
  cancelled_by_user: "cancelled by a person",
  cancelled_by_policy: "cancelled by a rule",
  payload_rejected: "the payload was rejected",
};

export const reasonWords = (code: string | null | undefined): string => (code ? (REASONS[code] ?? code.replaceAll("_", " ")) : "");

export function runState(status: string, reason?: string | null): StateWord {
  if (status === "SKIPPED" && reason && MISSED.has(reason)) return RUN_STATES.MISSED;
  return RUN_STATES[status] ?? { word: status, shape: "question", tone: "quiet" };
}

export const jobState = (status: string): StateWord => JOB_STATES[status] ?? { word: status, shape: "question", tone: "quiet" };

export const count = (value: number, upTo = 10_000): string => (value >= upTo ? `${upTo.toLocaleString("en")}+` : value.toLocaleString("en"));
export const plural = (n: number, word: string): string => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

// Colours, and whatever else a command tells a terminal.
// eslint-disable-next-line no-control-regex
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
export const plain = (text: string): string => text.replace(ANSI, "");

/** Errors that differ only in numbers, ids and addresses are the same error. */
export function fingerprint(error: string | null | undefined, reason: string | null | undefined): string {
  const lines = plain(error ?? "").split("\n").map((each) => each.trim()).filter(Boolean);
  // What a command said last tells more than the number it ended with.
  const line = /^exit code/.test(lines[0] ?? "") && lines.length > 1 ? `${lines[0]}: ${lines.at(-1)}` : (lines[0] ?? "");
  const bare = line
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27,}/gi, "…")
    .replace(/0x[0-9a-f]+/gi, "…")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z?/g, "…")
    .replace(/\b\d{4,}\b/g, "…")
    .trim();
  return bare || reasonWords(reason) || "No error was told";
}

/** A fingerprint of the server is the reason's code where a run told nothing. */
export const errorWords = (error: string): string => (REASONS[error] ? reasonWords(error) : plain(error) || "No error was told");

export function scheduleText(schedule: unknown): string {
  if (schedule === null || schedule === undefined) return "@manual";
  return Array.isArray(schedule) ? schedule.join("  ·  ") : String(schedule);
}
