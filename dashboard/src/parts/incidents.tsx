// What is wrong at this moment, since when, and who was told of it.
import { enc, get } from "../lib/api";
import { useLoad } from "../lib/load";
import { errorWords, plural, runState } from "../lib/words";
import type { JobAnswer, JobList, WebhookAnswer } from "../types";
import { pauseJob, runNow, whyAsked } from "./actions";
import { type Group, useDeadGroups } from "./deadgroups";
import { Icon } from "./icons";
import { HeadPill, useSteady } from "./steady";
import { Act, Panel, Time } from "./ui";

const MOST = 50;
const ALL = {};
type Rule = { url?: string; channel?: string; on?: string | string[] };
type Jobs = { failing: JobAnswer[]; late: JobAnswer[]; isMore: boolean };
type Incident = { key: string; job: JobAnswer; kind: "failing" | "late"; group?: Group };

async function read(_: string, signal: AbortSignal): Promise<Jobs> {
  const [failing, late] = await Promise.all(["failing", "late"].map((health) => get<JobList>(`/jobs?health=${health}&limit=${MOST}`, signal)));
  return { failing: failing.jobs, late: late.jobs, isMore: !!(failing.next_cursor ?? late.next_cursor) };
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
  const dead = useDeadGroups(ALL, 200);
  const first = new Map<string, Group>();
  for (const group of dead.groups ?? []) if (!first.has(group.job_id)) first.set(group.job_id, group);
  const found = loaded.data.value && [
    ...loaded.data.value.failing.map((job): Incident => ({ key: `failing ${job.job_id}`, job, kind: "failing", group: first.get(job.job_id) })),
    ...loaded.data.value.late.map((job): Incident => ({ key: `late ${job.job_id}`, job, kind: "late" })),
  ];
  const steady = useSteady(found, (each) => each.key, loaded.data.value);
  return (
    <Panel title={<>Wrong now {!!found?.length && <span class="dim">({found.length}{loaded.data.value?.isMore ? " or more" : ""})</span>}</>} from={loaded} actions={<><HeadPill steady={steady} noun="incident" /><a href="/jobs?f=health:failing">All that fail</a></>}>
      {() => steady.shown.length === 0 ? <p class="calm"><Icon shape="tick" /> No job fails or is late.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="What is wrong now"><table class="small-table">
          <thead><tr><th scope="col">Job</th><th scope="col">What</th><th scope="col">Since</th><th scope="col">Told</th><th scope="col">Actions</th></tr></thead>
          <tbody>{steady.shown.map(({ item: { key, job, kind, group }, isGone }) => {
            const state = kind === "failing" ? runState("FAILED") : { shape: "clock" as const, tone: "queued" };
            return (
              <tr key={key} class={isGone ? "gone" : ""}>
                <th scope="row"><a href={`/jobs/${enc(job.name)}`}>{job.name}</a></th>
                <td class="in-text"><span class={`tone-${state.tone}`}><Icon shape={state.shape} /> {isGone ? "no longer" : kind === "late" ? "late" : "failing"}</span>{group && <> <a href={`/dead-letters?f=${enc(`job:${job.job_id}`)}`}>{plural(group.runs, "dead run")}</a> <span class="dim">{errorWords(group.error)}</span></>}</td>
                <td>{kind === "late" ? <a href={`/runs?f=${enc(`job:${job.job_id} status:queued`)}`}>what waits</a> : group ? <Time at={group.first_due} zone={job.timezone} /> : "–"}</td>
                <td>{told(job, kind, hooks) || <span class="tone-queued">nobody</span>}</td>
                <td class="row"><button type="button" class="plain" onClick={() => (whyAsked.value = { job: job.job_id, name: job.name })}>Why?</button><Act operation="runJob" kind="plain" onClick={() => runNow(job, loaded.reload)}>Run now</Act><Act operation="pauseJob" kind="plain" onClick={() => pauseJob(job, loaded.reload)} disabled={job.status === "SCHEDULED" ? "" : "Only an active job can be paused."}>Pause</Act></td>
              </tr>
            );
          })}</tbody>
        </table></div>
      )}
    </Panel>
  );
}
