// What is wrong at this moment, since when, and who was told of it.
import { enc, get } from "../lib/api";
import { useLoad } from "../lib/load";
import { errorWords, plural, runState } from "../lib/words";
import type { DeadGroups, JobAnswer, JobList, WebhookAnswer } from "../types";
import { pauseJob, runNow, whyAsked } from "./actions";
import { useCauses } from "./deadgroups";
import { Icon } from "./icons";
import { HeadPill, type Steady, useSteady } from "./steady";
import { Act, Panel, Time } from "./ui";

const SHOWN = 50;
/** Those that have recovered are among them, and would else hide those that fail. */
const LOOKED_AT = 200;
type Rule = { url?: string; channel?: string; on?: string | string[] };
type Jobs = { failing: JobAnswer[]; late: JobAnswer[]; recovered: JobAnswer[]; isMore: boolean };
type Incident = { key: string; job: JobAnswer; kind: "failing" | "late" | "recovered" };

async function read(_: string, signal: AbortSignal): Promise<Jobs> {
  const [dead, late] = await Promise.all([["failing", LOOKED_AT], ["late", SHOWN]].map(([health, limit]) => get<JobList>(`/jobs?health=${health}&limit=${limit}`, signal)));
  // A job with dead letters whose last run went well fails no longer; what waits there is for somebody to decide.
  const isRecovered = (job: JobAnswer) => job.last_run_status === "SUCCEEDED";
  const failing = dead.jobs.filter((job) => !isRecovered(job));
  return { failing: failing.slice(0, SHOWN), late: late.jobs, recovered: dead.jobs.filter(isRecovered).slice(0, SHOWN), isMore: !!(dead.next_cursor ?? late.next_cursor) || failing.length > SHOWN };
}

export const rulesOf = (job: JobAnswer): Rule[] => (Array.isArray(job.notify) ? (job.notify as Rule[]) : []);

/** In words: who hears of this kind of trouble, by the job itself and by the webhooks of the tenant. */
function told(job: JobAnswer, kind: Incident["kind"], hooks: WebhookAnswer[]): string {
  const events = kind === "late" ? ["run.late"] : ["run.failed", "dead_letter.added"];
  const words = kind === "late" ? ["late"] : ["failure", "dead", "always"];
  const own = rulesOf(job).filter((rule) => [rule.on ?? "always"].flat().some((word) => words.includes(word))).map((rule) => rule.channel ?? rule.url ?? "");
  const all = hooks.filter((hook) => hook.is_active && hook.events.some((event) => events.includes(event))).map((hook) => hook.name);
  return [...new Set([...own, ...all])].join(", ");
}

export function Incidents({ hooks }: { hooks: WebhookAnswer[] }) {
  const loaded = useLoad<Jobs>("incidents", { when: (change) => change.runs.some((run) => run.status !== "RUNNING"), restMs: 4000, everyMs: 15_000 }, read);
  const jobs = loaded.data.value;
  const as = (kind: Incident["kind"]) => (jobs?.[kind] ?? []).map((job): Incident => ({ key: `${kind} ${job.job_id}`, job, kind }));
  const found = jobs && [...as("failing"), ...as("late")];
  const recovered = jobs && as("recovered");
  const now = useSteady(found, (each) => each.key, jobs);
  const before = useSteady(recovered, (each) => each.key, jobs);
  const causes = useCauses([...now.shown, ...before.shown].filter(({ item }) => item.kind !== "late").map(({ item }) => item.job.job_id), jobs);
  const rows = { causes, hooks, reload: loaded.reload };
  return (
    <Panel title={<>Wrong now {!!found?.length && <span class="dim">({found.length}{jobs?.isMore ? " or more" : ""})</span>}</>} from={loaded} actions={<><HeadPill steady={now} noun="incident" /><a href="/jobs?f=health:failing">All with dead letters</a></>}>
      {() => (
        <>
          {now.shown.length === 0 ? <p class="calm"><Icon shape="tick" /> No job fails or is late.</p> : <Rows label="What is wrong now" steady={now} {...rows} />}
          {before.shown.length > 0 && (
            <section class="stack quiet-part">
              <h3 class="row">Dead letters wait <span class="dim">({before.shown.length}), though the last run succeeded</span> <HeadPill steady={before} noun="job" /></h3>
              <Rows label="Dead letters that wait" steady={before} {...rows} />
            </section>
          )}
        </>
      )}
    </Panel>
  );
}

type RowsProps = { label: string; steady: Steady<Incident>; causes: Map<string, DeadGroups>; hooks: WebhookAnswer[]; reload: () => void };
function Rows({ label, steady, causes, hooks, reload }: RowsProps) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}><table class="small-table">
      <thead><tr><th scope="col">Job</th><th scope="col">What</th><th scope="col">Since</th><th scope="col">Told</th><th scope="col">Actions</th></tr></thead>
      <tbody>{steady.shown.map(({ item: { key, job, kind }, isGone }) => {
        const state = kind === "failing" ? runState("FAILED") : { shape: "clock" as const, tone: kind === "late" ? "queued" : "quiet" };
        const cause = kind === "late" ? undefined : causes.get(job.job_id);
        const group = cause?.groups[0];
        return (
          <tr key={key} class={isGone ? "gone" : ""}>
            <th scope="row"><a href={`/jobs/${enc(job.name)}`}>{job.name}</a></th>
            <td class="in-text"><span class={`tone-${state.tone}`}><Icon shape={state.shape} /> {isGone ? "no longer" : kind === "recovered" ? "recovered" : kind}</span>{cause && group && <> <a href={`/dead-letters?f=${enc(`job:${job.job_id}`)}`}>{plural(cause.run_count, "dead run")}</a> <span class="dim">{errorWords(group.error)}{cause.group_count > 1 && `, and ${plural(cause.group_count - 1, "other cause")}`}</span></>}</td>
            <td>{kind === "late" ? <a href={`/runs?f=${enc(`job:${job.job_id} status:queued`)}`}>what waits</a> : group ? <Time at={group.first_due} zone={job.timezone} /> : "–"}</td>
            <td>{told(job, kind, hooks) || <span class="tone-queued">nobody</span>}</td>
            <td class="row"><button type="button" class="plain" onClick={() => (whyAsked.value = { job: job.job_id, name: job.name })}>Why?</button><Act operation="runJob" kind="plain" onClick={() => runNow(job, reload)}>Run now</Act><Act operation="pauseJob" kind="plain" onClick={() => pauseJob(job, reload)} disabled={job.status === "SCHEDULED" ? "" : "Only an active job can be paused."}>Pause</Act></td>
          </tr>
        );
      })}</tbody>
    </table></div>
  );
}
