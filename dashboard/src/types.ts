// Made from the OpenAPI file by api_types.py; do not edit. `make types` writes it anew.

export type AuditCheck = {
  tenant: string;
  ok: boolean;
  rows: number;
  unsealed: number;
  head: string;
  breaks: ({
    seq: number;
    id: number | null;
    what: string;
  })[];
};

export type AuditEntry = {
  id: number;
  tenant: string;
  at: string;
  actor: string;
  key_id: string | null;
  address: string | null;
  request_id: string | null;
  action: string;
  target: string;
  before: unknown;
  after: unknown;
  seq: number | null;
  hash: string | null;
};

export type AuditList = {
  entries: (AuditEntry)[];
  next_cursor: string | null;
};

export type Backfill = {
  from: string;
  to: string;
  max?: number | null;
  dry_run?: boolean | null;
  priority?: string | number | null;
};

export type BackfillPlan = {
  runs: number;
  next_from: string | null;
  times: (string)[];
  dry_run: true;
};

export type Backfilled = {
  runs: number;
  next_from: string | null;
};

export type BatchAnswer = {
  created: number;
  failed: number;
  results: ({
    index: number;
    job_id?: string;
    error?: Problem;
  })[];
};

export type Beaten = {
  runs: ({
    run_id: string;
    state: "running" | "cancelled" | "lost";
    reason: string | null;
  })[];
  is_draining: boolean;
};

export type Calendar = {
  exclude?: (string)[] | null;
  include?: (string)[] | null;
  holidays?: string | null;
  subdivision?: string | null;
};

export type CalendarAnswer = {
  name: string;
  version: number;
  updated_at: string;
  exclude?: (string)[];
  include?: (string)[];
  holidays?: string;
  subdivision?: string;
};

export type CalendarList = {
  calendars: (CalendarAnswer)[];
};

export type ChangeQueue = {
  max_running?: number | null;
};

export type ChangeTenant = {
  max_jobs?: number | null;
  max_queued_runs?: number | null;
  max_running_runs?: number | null;
  requests_per_second?: number | null;
  max_payload_bytes?: number | null;
  weight?: number | null;
  paused?: boolean | null;
  description?: string | null;
};

export type Claim = {
  worker: string;
  node?: string | null;
  queues?: (string)[] | null;
  handlers: (string)[];
  slots?: number | null;
  holds: (string)[];
  wait?: string | number | null;
};

export type Claimed = {
  worker_id: string;
  runs: ({
    run_id: string;
    fence: number;
    job_id: string;
    job: string;
    tenant: string;
    handler: string;
    args: Record<string, unknown>;
    secrets: Record<string, unknown>;
    payload: unknown;
    upstream: Record<string, unknown> | null;
    attempt: number;
    max_attempts: number;
    scheduled_for: string;
    timeout_seconds: number;
    idempotency_key: string;
  })[];
  is_draining: boolean;
  heartbeat_seconds: number;
  visibility_seconds: number;
};

export type Completed = {
  run_id: string;
  repeated: boolean;
};

export type Completion = {
  fence: number;
  status: "succeeded" | "failed" | "cancelled" | "released";
  result?: unknown;
  error?: string | null;
  reason?: "exception" | "exit_code" | "timeout" | "payload_rejected" | null;
  retry_after?: string | number | null;
  retryable?: boolean | null;
};

export type DeadGroups = {
  groups: ({
    job_id: string;
    job_name: string;
    error: string;
    runs: number;
    first_due: string;
    last_due: string;
    newest_run_id: string;
    by_age: {
      hour: number;
      day: number;
      week: number;
      older: number;
    };
  })[];
  group_count: number;
  run_count: number;
};

export type DeadList = {
  dead_letters: (Run)[];
  next_cursor: string | null;
};

export type Deleted = {
  deleted: true;
  job_id: string;
};

export type DeletedCalendar = {
  deleted: true;
  name: string;
};

export type DeletedSecret = {
  deleted: true;
  name: string;
};

export type DeletedWebhook = {
  deleted: true;
  id: string;
};

export type Delivery = {
  delivery_id: string;
  event: string;
  state: "waiting" | "delivered" | "dead";
  webhook_id: string | null;
  url: string | null;
  job_id: string | null;
  run_id: string | null;
  attempts: number;
  status: number | null;
  error: string | null;
  took_ms: number | null;
  created_at: string;
  next_attempt_at: string | null;
  ended_at: string | null;
};

export type DeliveryId = {
  delivery_id: string;
};

export type DeliveryList = {
  deliveries: (Delivery)[];
  next_cursor: string | null;
};

export type Discard = {
  filter?: {
    job?: string;
    queue?: string;
    priority?: string | number;
    reason?: string;
    error?: string;
    due_after?: string;
    due_before?: string;
  } | null;
  dry_run?: boolean | null;
  expected_count?: number | null;
};

export type Discarded = {
  deleted: true;
  run_id: string;
};

export type DiscardedRuns = {
  count: number;
  run_ids: (string)[];
  dry_run: boolean;
};

export type Drained = {
  worker_id: string;
  state: "draining";
};

export type DueJobs = {
  from: string;
  to: string;
  is_complete: boolean;
  jobs: ({
    job_id: string;
    job_name: string;
    due: string;
    runs: number;
    queue: string;
    priority: string;
  })[];
};

export type Explanation = {
  verdict: string;
  reason: unknown;
  text: string;
  facts: (unknown)[];
};

export type Forecast = {
  from: string;
  to: string;
  bucket: string;
  runs: number;
  jobs: number;
  is_complete: boolean;
  buckets: ({
    at: string;
    runs: number;
    by: ({
      priority: string;
      queue: string;
      runs: number;
    })[];
  })[];
};

export type Heartbeat = {
  runs: ({
    run_id: string;
    fence: number;
  })[];
  is_draining?: boolean | null;
};

export type Job = {
  name?: string;
  schedule?: string | (string)[] | null;
  timezone?: string;
  type?: string;
  target?: Record<string, unknown> | string | null;
  payload?: unknown;
  priority?: string | number;
  queue?: string;
  timeout?: string | number;
  retry?: Record<string, unknown> | number | null;
  misfire?: Record<string, unknown> | string | null;
  overlap?: "allow" | "skip" | "queue" | "replace";
  max_concurrency?: number | null;
  concurrency_key?: string | null;
  jitter?: string | number;
  dst?: Record<string, unknown> | null;
  calendar?: Record<string, unknown> | string | null;
  start_at?: string | null;
  end_at?: string | null;
  max_runs?: number | null;
  delivery?: "at_least_once" | "at_most_once";
  after?: unknown;
  notify?: (Record<string, unknown>)[];
  labels?: Record<string, string>;
  description?: string;
};

export type JobAnswer = {
  name: string;
  schedule: string | (string)[] | null;
  timezone: string;
  type: string;
  target: Record<string, unknown> | string | null;
  payload: unknown;
  priority: string | number;
  queue: string;
  timeout: string | number;
  retry: Record<string, unknown> | number | null;
  misfire: Record<string, unknown> | string | null;
  overlap: "allow" | "skip" | "queue" | "replace";
  max_concurrency: number | null;
  concurrency_key: string | null;
  jitter: string | number;
  dst: Record<string, unknown> | null;
  calendar: Record<string, unknown> | string | null;
  start_at: string | null;
  end_at: string | null;
  max_runs: number | null;
  delivery: "at_least_once" | "at_most_once";
  after: unknown;
  notify: (Record<string, unknown>)[];
  labels: Record<string, string>;
  description: string;
  job_id: string;
  tenant: string;
  status: "SCHEDULED" | "PAUSED" | "COMPLETED" | "CANCELLED";
  schedule_type: string;
  cron_expression: string | null;
  max_retries: number;
  next_fire_time: string | null;
  last_run_status: string | null;
  version: number;
  created_at: string;
  updated_at: string;
  paused_until?: string | null;
  pause_reason?: string | null;
};

export type JobBatch = {
  jobs: (Job)[];
};

export type JobList = {
  jobs: (JobAnswer)[];
  next_cursor: string | null;
};

export type JobStatus = {
  job_id: string;
  status: string;
  last_run: string | null;
  next_run: string | null;
  retry_count: number;
  latest_run: Run | null;
};

export type Key = {
  key_id: string;
  name: string;
  tenant: string;
  role: "viewer" | "operator" | "editor" | "admin" | "worker";
  scopes: ("jobs" | "runs" | "dead-letters" | "schedules" | "calendars" | "forecast" | "workers" | "queues" | "stats" | "events" | "history" | "secrets" | "webhooks" | "deliveries" | "signing-secret" | "keys" | "tenants" | "audit")[];
  prefix: string;
  requests_per_second: number | null;
  status: "active" | "expired" | "revoked";
  created_at: string;
  created_by: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
};

export type KeyList = {
  keys: (Key)[];
  next_cursor: string | null;
};

export type KeyShown = {
  key_id: string;
  name: string;
  tenant: string;
  role: "viewer" | "operator" | "editor" | "admin" | "worker";
  scopes: ("jobs" | "runs" | "dead-letters" | "schedules" | "calendars" | "forecast" | "workers" | "queues" | "stats" | "events" | "history" | "secrets" | "webhooks" | "deliveries" | "signing-secret" | "keys" | "tenants" | "audit")[];
  prefix: string;
  requests_per_second: number | null;
  status: "active" | "expired" | "revoked";
  created_at: string;
  created_by: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
  key: string;
};

export type Left = {
  worker: string;
  left: true;
};

export type LogKept = {
  run_id: string;
  kept: boolean;
};

export type LogPiece = {
  fence: number;
  seq: number;
  text: string;
};

export type NewKey = {
  name: string;
  role: "viewer" | "operator" | "editor" | "admin" | "worker";
  scopes?: ("jobs" | "runs" | "dead-letters" | "schedules" | "calendars" | "forecast" | "workers" | "queues" | "stats" | "events" | "history" | "secrets" | "webhooks" | "deliveries" | "signing-secret" | "keys" | "tenants" | "audit")[] | null;
  expires_at?: string | null;
  expires_in?: string | number | null;
  requests_per_second?: number | null;
};

export type NewTenant = {
  tenant: string;
  max_jobs?: number | null;
  max_queued_runs?: number | null;
  max_running_runs?: number | null;
  requests_per_second?: number | null;
  max_payload_bytes?: number | null;
  weight?: number | null;
  paused?: boolean | null;
  description?: string | null;
};

export type Nothing = Record<string, unknown>;

export type Pause = {
  until?: string | null;
  reason?: string | null;
};

export type Preview = {
  schedule: string | (string)[] | null;
  timezone?: string | null;
  dst?: Record<string, unknown> | null;
  count?: number | null;
  from?: string | null;
};

export type PreviewAnswer = {
  description: string;
  next: ({
    at: string;
    local: string;
  })[];
  warnings: (string)[];
};

export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  errors: ({
    pointer: string;
    detail: string;
    hint: string;
  })[];
  request_id: string;
};

export type Queue = {
  queue: string;
  queued: number;
  queued_is_exact: boolean;
  running: number;
  oldest_age_ms: number | null;
  by_priority: {
    HIGH: {
      queued: number;
      oldest_age_ms: number | null;
    };
    MEDIUM: {
      queued: number;
      oldest_age_ms: number | null;
    };
    LOW: {
      queued: number;
      oldest_age_ms: number | null;
    };
  };
  paused: boolean;
  max_running: number | null;
};

export type QueueList = {
  queues: (Queue)[];
};

export type Rehearsal = {
  dry_run: true;
  changes: ({
    action: string;
    target: string;
    before: unknown;
    after: unknown;
  })[];
};

export type Replay = {
  filter?: {
    job?: string;
    queue?: string;
    priority?: string | number;
    reason?: string;
    error?: string;
    due_after?: string;
    due_before?: string;
  } | null;
  dry_run?: boolean | null;
  expected_count?: number | null;
  rate?: number | null;
};

export type ReplayPlan = {
  count: number;
  replay_of: (string)[];
  dry_run: true;
};

export type Replayed = {
  count: number;
  run_ids: (string)[];
};

export type Revoked = {
  revoked: true;
  key_id: string;
};

export type RotateKey = {
  overlap?: string | number | null;
};

export type Run = {
  run_id: string;
  job_id: string;
  job_name: string;
  tenant: string;
  status: "PENDING" | "QUEUED" | "RUNNING" | "RETRYING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "SKIPPED" | "UNKNOWN";
  trigger: "schedule" | "manual" | "backfill" | "after" | "replay";
  scheduled_for: string;
  run_at: string;
  queued_at: string;
  start_time: string | null;
  end_time: string | null;
  modified_time: string;
  duration_ms: number | null;
  attempt_number: number;
  retry_count: number;
  max_attempts: number;
  priority: "HIGH" | "MEDIUM" | "LOW";
  queue: string;
  executor_id: string | null;
  result: unknown;
  error_message: string | null;
  reason: string | null;
  log_url: string;
  job_version: number;
  replay_of: string | null;
  lateness_ms: number | null;
  skipped_until?: string;
  skipped_count?: number;
};

export type RunBatch = {
  job: string;
  runs: (RunRequest)[];
};

export type RunId = {
  run_id: string;
};

export type RunIds = {
  created: number;
  run_ids: (string)[];
};

export type RunList = {
  runs: (Run)[];
  next_cursor: string | null;
  searched_back_to: string | null;
};

export type RunRequest = {
  payload?: unknown;
  priority?: string | number | null;
  run_at?: string | null;
};

export type RunWithAttempts = {
  run_id: string;
  job_id: string;
  job_name: string;
  tenant: string;
  status: "PENDING" | "QUEUED" | "RUNNING" | "RETRYING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "SKIPPED" | "UNKNOWN";
  trigger: "schedule" | "manual" | "backfill" | "after" | "replay";
  scheduled_for: string;
  run_at: string;
  queued_at: string;
  start_time: string | null;
  end_time: string | null;
  modified_time: string;
  duration_ms: number | null;
  attempt_number: number;
  retry_count: number;
  max_attempts: number;
  priority: "HIGH" | "MEDIUM" | "LOW";
  queue: string;
  executor_id: string | null;
  result: unknown;
  error_message: string | null;
  reason: string | null;
  log_url: string;
  job_version: number;
  replay_of: string | null;
  lateness_ms: number | null;
  skipped_until?: string;
  skipped_count?: number;
  attempts: ({
    attempt_number: number;
    status: string;
    executor_id: string | null;
    start_time: string;
    end_time: string | null;
    duration_ms: number | null;
    reason: string | null;
    error_message: string | null;
  })[];
};

export type Runs = (Run)[];

export type Secret = {
  value: string;
};

export type SecretAnswer = {
  name: string;
  version: number;
  created_at: string;
  updated_at: string;
};

export type SecretList = {
  secrets: (SecretAnswer)[];
};

export type Series = {
  from: string;
  to: string;
  step_seconds: number;
  is_whole: boolean;
  lateness_ms: {
    p50: number | null;
    p95: number | null;
    p99: number | null;
  };
  points: ({
    at: string;
    due: number;
    started: number;
    finished: number;
    lateness_ms: {
      p50: number | null;
      p95: number | null;
      p99: number | null;
    };
  })[];
};

export type Signing = {
  secret: string;
  old_secret: string | null;
};

export type Stats = {
  at: string;
  jobs: number;
  runs: {
    running: number;
    queued: number;
    pending: number;
  };
  dead_letters: number;
  counted_up_to: number;
  waiting: ({
    queue: string;
    priority: string;
    needs: string | null;
    queued: number;
    pending: number;
    oldest_seconds: number | null;
  })[];
  workers: {
    alive: number;
    slots: number;
    running: number;
  };
  recent: {
    window_seconds: number;
    succeeded: number;
    failed: number;
    per_second: number;
    lateness_ms: {
      p50: number | null;
      p95: number | null;
      p99: number | null;
      max: number | null;
    };
  };
};

export type Tenant = {
  tenant: string;
  max_jobs: number | null;
  max_queued_runs: number | null;
  max_running_runs: number | null;
  requests_per_second: number | null;
  max_payload_bytes: number | null;
  weight: number;
  paused: boolean;
  description: string;
  usage: {
    jobs: number | null;
  };
  created_at: string | null;
  updated_at: string | null;
};

export type TenantList = {
  tenants: (Tenant)[];
  next_cursor: string | null;
};

export type VersionList = {
  versions: ({
    version: number;
    created_at: string;
    actor: string;
    diff: ({
      field: string;
      before: unknown;
      after: unknown;
    })[];
  })[];
};

export type Webhook = {
  name: string;
  url: string;
  events: ("run.succeeded" | "run.failed" | "run.cancelled" | "run.unknown" | "run.skipped" | "run.missed" | "run.recovered" | "run.late" | "dead_letter.added")[];
  late_after?: string | number | null;
  is_active?: boolean | null;
};

export type WebhookAnswer = {
  id: string;
  name: string;
  url: string;
  events: ("run.succeeded" | "run.failed" | "run.cancelled" | "run.unknown" | "run.skipped" | "run.missed" | "run.recovered" | "run.late" | "dead_letter.added")[];
  late_after: string | number;
  is_active: boolean;
  created_at: string;
  updated_at: string;
};

export type WebhookChange = {
  name?: string | null;
  url?: string | null;
  events?: ("run.succeeded" | "run.failed" | "run.cancelled" | "run.unknown" | "run.skipped" | "run.missed" | "run.recovered" | "run.late" | "dead_letter.added")[] | null;
  late_after?: string | number | null;
  is_active?: boolean | null;
};

export type WebhookList = {
  webhooks: (WebhookAnswer)[];
};

export type WebhookSecret = {
  id: string;
  name: string;
  url: string;
  events: ("run.succeeded" | "run.failed" | "run.cancelled" | "run.unknown" | "run.skipped" | "run.missed" | "run.recovered" | "run.late" | "dead_letter.added")[];
  late_after: string | number;
  is_active: boolean;
  created_at: string;
  updated_at: string;
  secret: string;
};

export type WhoAmI = {
  actor: string;
  role: "viewer" | "operator" | "editor" | "admin" | "worker";
  tenant: string;
  scopes: (string)[];
  may_switch_tenant: boolean;
};

export type WorkerList = {
  workers: ({
    worker_id: string;
    node: string;
    state: string;
    slots: number;
    running: number;
    queues: (string)[];
    needs: (string)[];
    started_at: string;
    seen_at: string;
  })[];
};

// The least role of every operation, and the scope that it belongs to.
export const NEEDS: Record<string, { role: string; scope: string }> = {
  backfillJob: {"role": "operator", "scope": "jobs"},
  cancelRun: {"role": "operator", "scope": "runs"},
  changeJob: {"role": "editor", "scope": "jobs"},
  changeQueue: {"role": "editor", "scope": "queues"},
  changeTenant: {"role": "admin", "scope": "tenants"},
  changeWebhook: {"role": "editor", "scope": "webhooks"},
  checkAudit: {"role": "admin", "scope": "audit"},
  claimRuns: {"role": "worker", "scope": "workers"},
  completeRun: {"role": "worker", "scope": "runs"},
  createJob: {"role": "editor", "scope": "jobs"},
  createJobs: {"role": "editor", "scope": "jobs"},
  createKey: {"role": "admin", "scope": "keys"},
  createTenant: {"role": "admin", "scope": "tenants"},
  createWebhook: {"role": "editor", "scope": "webhooks"},
  deleteCalendar: {"role": "editor", "scope": "calendars"},
  deleteJob: {"role": "editor", "scope": "jobs"},
  deleteSecret: {"role": "editor", "scope": "secrets"},
  deleteWebhook: {"role": "editor", "scope": "webhooks"},
  discardRun: {"role": "operator", "scope": "dead-letters"},
  discardRuns: {"role": "operator", "scope": "dead-letters"},
  drainWorker: {"role": "operator", "scope": "workers"},
  explainJob: {"role": "viewer", "scope": "jobs"},
  exportAudit: {"role": "admin", "scope": "audit"},
  exportHistory: {"role": "admin", "scope": "history"},
  getCalendar: {"role": "viewer", "scope": "calendars"},
  getForecast: {"role": "viewer", "scope": "forecast"},
  getJob: {"role": "viewer", "scope": "jobs"},
  getJobHistory: {"role": "viewer", "scope": "jobs"},
  getJobStatus: {"role": "viewer", "scope": "jobs"},
  getKey: {"role": "admin", "scope": "keys"},
  getLogs: {"role": "viewer", "scope": "runs"},
  getRun: {"role": "viewer", "scope": "runs"},
  getSeries: {"role": "viewer", "scope": "stats"},
  getSigningSecret: {"role": "editor", "scope": "signing-secret"},
  getStats: {"role": "viewer", "scope": "stats"},
  getTenant: {"role": "admin", "scope": "tenants"},
  getWebhook: {"role": "viewer", "scope": "webhooks"},
  groupDeadLetters: {"role": "viewer", "scope": "dead-letters"},
  heartbeat: {"role": "worker", "scope": "workers"},
  leaveFleet: {"role": "worker", "scope": "workers"},
  listAudit: {"role": "admin", "scope": "audit"},
  listCalendars: {"role": "viewer", "scope": "calendars"},
  listDeadLetters: {"role": "viewer", "scope": "dead-letters"},
  listDeliveries: {"role": "viewer", "scope": "deliveries"},
  listDeliveriesOf: {"role": "viewer", "scope": "webhooks"},
  listDueJobs: {"role": "viewer", "scope": "forecast"},
  listJobs: {"role": "viewer", "scope": "jobs"},
  listKeys: {"role": "admin", "scope": "keys"},
  listQueues: {"role": "viewer", "scope": "queues"},
  listRuns: {"role": "viewer", "scope": "runs"},
  listRunsOfJob: {"role": "viewer", "scope": "jobs"},
  listSecrets: {"role": "viewer", "scope": "secrets"},
  listTenants: {"role": "admin", "scope": "tenants"},
  listVersions: {"role": "viewer", "scope": "jobs"},
  listWebhooks: {"role": "viewer", "scope": "webhooks"},
  listWorkers: {"role": "viewer", "scope": "workers"},
  pauseJob: {"role": "operator", "scope": "jobs"},
  pauseQueue: {"role": "operator", "scope": "queues"},
  previewSchedule: {"role": "viewer", "scope": "schedules"},
  putCalendar: {"role": "editor", "scope": "calendars"},
  putJob: {"role": "editor", "scope": "jobs"},
  putSecret: {"role": "editor", "scope": "secrets"},
  replayRun: {"role": "operator", "scope": "dead-letters"},
  replayRuns: {"role": "operator", "scope": "dead-letters"},
  resendDelivery: {"role": "operator", "scope": "deliveries"},
  resumeJob: {"role": "operator", "scope": "jobs"},
  resumeQueue: {"role": "operator", "scope": "queues"},
  retryRun: {"role": "operator", "scope": "runs"},
  revokeKey: {"role": "admin", "scope": "keys"},
  rotateKey: {"role": "admin", "scope": "keys"},
  rotateWebhook: {"role": "editor", "scope": "webhooks"},
  runJob: {"role": "operator", "scope": "jobs"},
  runJobManyTimes: {"role": "operator", "scope": "runs"},
  runJobNow: {"role": "operator", "scope": "jobs"},
  testWebhook: {"role": "operator", "scope": "webhooks"},
  watch: {"role": "viewer", "scope": "events"},
  whoAmI: {"role": "viewer", "scope": "whoami"},
  writeLog: {"role": "worker", "scope": "runs"},
};
