// What the server makes of a schedule while it is typed: its words, its next times, and how full that minute is.
import { useEffect, useState } from "preact/hooks";
import { enc, get, send } from "../lib/api";
import { scheduleOf } from "../lib/jobform";
import { problemOf } from "../lib/load";
import { absolute, clock, ms } from "../lib/time";
import type { DueJobs, Forecast, JobAnswer, PreviewAnswer, Problem } from "../types";
import { Skeleton, Time } from "./ui";

const MINUTE = 60_000;
const NEAR = 15;
const CROWD = 10;

/** Others in that minute; `quiet` is a minute of the same hour with fewer of them. */
type Crowd = { others: number; quiet: { minute: number; others: number } | null };
type Previewed = { answer: PreviewAnswer | null; problem: Problem | null; crowd: Crowd | null };

/** From the server's own parser, a moment after typing stops; the last good one stays until then. */
export function usePreview(schedule: string, timezone: string, gap: string, fold: string, job: JobAnswer | null): Previewed {
  const [state, setState] = useState<Previewed>({ answer: null, problem: null, crowd: null });
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(async () => {
      try {
        const answer = await send<PreviewAnswer>({ method: "POST", path: "/schedules/preview", body: { schedule: scheduleOf(schedule), timezone, dst: { gap, fold }, count: 8 } });
        if (isOver) return;
        setState((old) => ({ ...old, answer, problem: null }));
        const crowd = answer.next[0] ? await crowdAt(ms(answer.next[0].at), timezone, job).catch(() => null) : null;
        if (!isOver) setState((old) => ({ ...old, crowd }));
      } catch (error) {
        if (!isOver) setState((old) => ({ ...old, problem: problemOf(error) }));
      }
    }, 120);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [schedule, timezone, gap, fold, job]);
  return state;
}

async function crowdAt(at: number, zone: string, job: JobAnswer | null): Promise<Crowd | null> {
  const minute = Math.floor(at / MINUTE) * MINUTE;
  if (minute - Date.now() > 7 * 86_400_000) return null;
  const found = await get<Forecast>(`/forecast?bucket=1m&${stretch(Math.max(Date.now(), minute - NEAR * MINUTE), minute + (NEAR + 1) * MINUTE)}`);
  const runs = new Map(found.buckets.map((bucket) => [ms(bucket.at), bucket.runs]));
  const runsAt = (when: number) => runs.get(when) ?? 0;
  if (runsAt(minute) < CROWD) return null;
  const others = runsAt(minute) - (await ownRuns(job, minute));
  if (others < CROWD) return null;
  // The minute is that of the job's zone; in another hour it would be another time of the day.
  const hour = clock(minute, zone, false).slice(0, 2);
  const near = Array.from({ length: 2 * NEAR }, (_, i) => minute + (i % 2 ? -1 : 1) * (Math.floor(i / 2) + 1) * MINUTE);
  const [best] = near.filter((when) => when > Date.now() && clock(when, zone, false).slice(0, 2) === hour).sort((a, b) => runsAt(a) - runsAt(b));
  if (best === undefined || runsAt(best) >= others) return { others, quiet: null };
  return { others, quiet: { minute: Number(clock(best, zone, false).slice(3)), others: runsAt(best) - (await ownRuns(job, best)) } };
}

/** The job that is being edited is no crowd. */
async function ownRuns(job: JobAnswer | null, minute: number): Promise<number> {
  if (!job) return 0;
  const due = await get<DueJobs>(`/forecast/jobs?limit=1000&${stretch(minute, minute + MINUTE)}`);
  return due.jobs.find((each) => each.job_id === job.job_id)?.runs ?? 0;
}

const stretch = (from: number, to: number) => `from=${enc(new Date(from).toISOString())}&to=${enc(new Date(to).toISOString())}`;

type Choose = (name: "gap" | "fold" | "timezone", value: string) => void;

export function Preview({ preview, schedule, zone, setSchedule, setJitter, jitter, choose }: { preview: Previewed; schedule: string; zone: string; setSchedule: (text: string) => void; setJitter: () => void; jitter: string; choose: Choose }) {
  const { answer, problem, crowd } = preview;
  const hasSeconds = !!answer?.next.some((each) => ms(each.at) % MINUTE);
  return (
    <section class="panel stack" id="preview" aria-live="polite">
      <h2>What this means</h2>
      {problem && <div class="problem"><strong>{problem.errors[0]?.detail ?? problem.detail}</strong>{problem.errors[0]?.hint && <p>{problem.errors[0].hint}</p>}</div>}
      {answer && (
        <div class={`stack ${problem ? "dim" : ""}`}>
          <p class="words">{answer.description}</p>
          {answer.warnings.map((text) => <div class="warning stack" key={text}><p>{text}</p><Advice text={text} choose={choose} /></div>)}
          {crowd && <div class="warning stack"><p>{crowd.others} other runs are due in that minute{crowd.quiet && `; at :${String(crowd.quiet.minute).padStart(2, "0")} there ${crowd.quiet.others === 1 ? "is" : "are"} ${crowd.quiet.others}`}.</p><p class="row">{crowd.quiet && <UseMinute minute={crowd.quiet.minute} schedule={schedule} setSchedule={setSchedule} />}{jitter === "0s" && <button type="button" onClick={setJitter}>Add 60 s of jitter</button>}</p></div>}
          {answer.next.length === 0 ? <p class="dim">No due time to come: it runs when somebody asks.</p> : <ol class="next">{answer.next.map((each) => <li key={each.at}><span>{absolute(ms(each.at), zone, hasSeconds)}</span><span class="dim"><Time at={each.at} /></span></li>)}</ol>}
          {answer.next.length > 1 && <Gaps next={answer.next} />}
        </div>
      )}
      {!answer && !problem && <Skeleton rows={5} />}
    </section>
  );
}

/** What a warning says can be chosen, to be chosen here. */
function Advice({ text, choose }: { text: string; choose: Choose }) {
  const zone = /If that is not meant, use ([\w/]+)\./.exec(text)?.[1];
  if (zone) return <p class="row"><button type="button" onClick={() => choose("timezone", zone)}>Use {zone}</button></p>;
  const [, name, values] = /choose dst\.(gap|fold) ("\w+"(?: or "\w+")*)/.exec(text) ?? [];
  if (!name) return null;
  return <p class="row">{values.match(/\w+(?=")/g)!.map((value) => <button key={value} type="button" onClick={() => choose(name as "gap", value)}>Use dst.{name} {value}</button>)}</p>;
}

function UseMinute({ minute, schedule, setSchedule }: { minute: number; schedule: string; setSchedule: (text: string) => void }) {
  const parts = schedule.trim().split(/\s+/);
  if (schedule.trim().includes("\n") || parts.length !== 5 || !/^\d+$/.test(parts[0])) return null;
  return <button type="button" onClick={() => setSchedule([minute, ...parts.slice(1)].join(" "))}>Use minute {minute}</button>;
}

function Gaps({ next }: { next: PreviewAnswer["next"] }) {
  const offsets = new Set(next.map((each) => each.local.slice(-6)));
  return offsets.size > 1 ? <p class="warning">The clocks change between these times; the local time stays as written.</p> : null;
}
