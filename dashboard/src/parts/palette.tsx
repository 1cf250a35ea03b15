// One box that goes anywhere: pages, jobs, queues and workers by name, runs by the start of their id; and does things to them.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { enc, get, whyNot } from "../lib/api";
import { togglePause } from "../lib/live";
import { go } from "../lib/route";
import { setZone, ZONE_WORDS, type ZoneMode } from "../lib/time";
import type { JobAnswer, JobList, QueueList, Run, RunList, WorkerList } from "../types";
import { pauseJob, resumeJob, runNow, whyAsked } from "./actions";
import { isHelpOpen } from "./keys";
import { PAGES } from "./shell";
import { nextTheme, setTheme, THEMES } from "./theme";
import { Dialog, tell } from "./ui";

export const isPaletteOpen = signal(false);
/** `operation`: the write that it leads to; who may not do it is told so in the list. */
type Entry = { text: string; hint: string; operation?: string; run: () => void };

const ACTIONS: Entry[] = [
  { text: "New job", hint: "n", operation: "createJob", run: () => go("/jobs/new") },
  { text: "Import a crontab", hint: "import", operation: "createJobs", run: () => go("/import") },
  { text: "Pause or resume live updates", hint: "Space", run: togglePause },
  { text: "Change the theme", hint: "t", run: nextTheme },
  ...THEMES.map((each) => ({ text: `Theme: ${each}`, hint: "theme", run: () => setTheme(each) })),
  ...(Object.keys(ZONE_WORDS) as ZoneMode[]).map((mode) => ({ text: `Time zone: ${ZONE_WORDS[mode]}`, hint: "zone", run: () => setZone(mode) })),
  { text: "Show the keyboard keys", hint: "?", run: () => (isHelpOpen.value = true) },
];

type Verb = { word: string; operation?: string; text: (name: string) => string; can: (job: JobAnswer) => boolean; run: (job: JobAnswer) => void };
const VERBS: Verb[] = [
  { word: "run", operation: "runJob", text: (name) => `Run ${name} now`, can: () => true, run: (job) => runNow(job) },
  { word: "pause", operation: "pauseJob", text: (name) => `Pause ${name}`, can: (job) => job.status === "SCHEDULED", run: (job) => pauseJob(job) },
  { word: "resume", operation: "resumeJob", text: (name) => `Resume ${name}`, can: (job) => job.status === "PAUSED", run: (job) => resumeJob(job) },
  { word: "edit", operation: "changeJob", text: (name) => `Edit ${name}`, can: () => true, run: (job) => go(`/jobs/${enc(job.name)}/edit`) },
  { word: "why", text: (name) => `Why? ${name}`, can: () => true, run: (job) => { go(`/jobs/${enc(job.name)}`); whyAsked.value = { job: job.job_id, name: job.name }; } },
];

/** "pause daily" is about jobs that have "daily" in their names. */
function asked(text: string): { verb: Verb | null; name: string } {
  const match = /^(\w+)\s+(.+)$/.exec(text.trim());
  const verb = match && VERBS.find((each) => each.word === match[1].toLowerCase());
  return verb ? { verb, name: match[2].replace(/\s+now$/i, "") } : { verb: null, name: text.trim() };
}

/** With the name alone the jobs come first, then what can be done to the best of them. */
function entriesOf(jobs: JobAnswer[], verb: Verb | null): Entry[] {
  const doing = (job: JobAnswer, each: Verb): Entry => ({ text: each.text(job.name), hint: "do", operation: each.operation, run: () => each.run(job) });
  if (verb) return jobs.filter(verb.can).map((job) => doing(job, verb));
  const best = jobs.slice(0, 1).flatMap((job) => VERBS.filter((each) => each.can(job)).map((each) => doing(job, each)));
  return [...jobs.map((job) => ({ text: job.name, hint: "job", run: () => go(`/jobs/${enc(job.name)}`) })), ...best];
}

const FEWEST_DIGITS = 6;
/** An id begins with its due time, twelve digits of milliseconds: a part of it bounds when the run was due. */
async function runsBy(start: string, signal: AbortSignal): Promise<Run[]> {
  const digits = start.replaceAll("-", "").slice(0, 12);
  const at = (fill: string) => new Date(Number.parseInt(digits.padEnd(12, fill), 16));
  const [from, to] = [at("0"), new Date(at("f").getTime() + 1)];
  if (Number.isNaN(from.getTime()) || Number.isNaN(to.getTime()) || from.getFullYear() > 9000) return [];
  const { runs } = await get<RunList>(`/runs?limit=1000&due_after=${enc(from.toISOString())}&due_before=${enc(to.toISOString())}`, signal);
  return runs.filter((run) => run.run_id.startsWith(start)).slice(0, 8);
}

async function look(text: string, signal: AbortSignal): Promise<Entry[]> {
  const { verb, name } = asked(text);
  const low = name.toLowerCase();
  const isId = /^[0-9a-f-]+$/.test(low) && low.replaceAll("-", "").length >= FEWEST_DIGITS;
  const none = () => null;
  const [jobs, queues, workers, runs] = await Promise.all([
    get<JobList>(`/jobs?limit=8&q=${enc(name)}`, signal).catch(none), verb ? null : get<QueueList>("/queues", signal).catch(none), verb ? null : get<WorkerList>("/workers", signal).catch(none), isId && !verb ? runsBy(low, signal).catch(none) : null,
  ]);
  return [
    ...(runs ?? []).map((run) => ({ text: `${run.job_name} · ${run.run_id}`, hint: "run", run: () => go(`/runs/${run.run_id}`) })),
    ...entriesOf(jobs?.jobs ?? [], verb),
    ...(queues?.queues ?? []).filter((each) => each.queue.toLowerCase().includes(low)).slice(0, 8).map((each) => ({ text: each.queue, hint: "queue", run: () => go(`/queues?f=${enc(each.queue)}`) })),
    ...(workers?.workers ?? []).filter((each) => `${each.node} ${each.worker_id}`.toLowerCase().includes(low)).slice(0, 8).map((each) => ({ text: `${each.node} · ${each.worker_id}`, hint: "worker", run: () => go(`/runs?f=${enc(`worker:${each.worker_id}`)}`) })),
  ];
}

export function Palette() {
  return isPaletteOpen.value ? <PaletteBox /> : null;
}

function PaletteBox() {
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState<{ text: string; jobs: Entry[] }>({ text: "", jobs: [] });
  const isEntered = useRef(false);
  const [at, setAt] = useState(0);
  const close = () => (isPaletteOpen.value = false);
  const word = text.trim().toLowerCase();

  useEffect(() => {
    if (!word) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      look(text, abort.signal).then((found) => !abort.signal.aborted && setAnswer({ text, jobs: found }));
    }, 120);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);

  const isRunId = /^[0-9a-f]{8}-[0-9a-f-]{20,}$/.test(word);
  const fixed: Entry[] = [...PAGES.map(([href, name, key]) => ({ text: name, hint: `g ${key}`, run: () => go(href) })), ...ACTIONS];
  const isAnswered = !word || answer.text === text;
  const jobs = !word ? [] : isAnswered ? answer.jobs : answer.jobs.filter((job) => job.text.toLowerCase().includes(asked(word).name));
  const sure = [
    ...(isRunId ? [{ text: `Run ${word}`, hint: "run", run: () => go(`/runs/${word}`) }] : []),
    ...fixed.filter((entry) => entry.text.toLowerCase().includes(word)),
  ];
  const found = [...sure, ...jobs];
  const pick = (entry: Entry | undefined) => {
    if (!entry) return;
    const why = whyNot(entry.operation ?? "");
    if (why) return tell(why, undefined, "bad");
    close();
    entry.run();
  };
  useEffect(() => {
    if (!isEntered.current || !isAnswered) return;
    isEntered.current = false;
    pick(found[at]);
  }, [answer]);
  // At once, not in an effect: the next key may come before it.
  const type = (next: string) => {
    setText(next);
    setAt(0);
    isEntered.current = false;
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") {
      // Of jobs the answer to these very words decides; it may be on its way.
      if (at < sure.length || isAnswered) pick(found[at]);
      else isEntered.current = true;
    } else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" onClose={close} palette>
      <input role="combobox" aria-label="Find a job, a run, a queue, a worker, a page or an action" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found.length ? `palette-${at}` : undefined} autofocus placeholder="A job, a queue, a worker, a run’s id, a page; or: pause …, run …" value={text} onInput={(event) => type(event.currentTarget.value)} onKeyDown={press} />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, i) => {
          const why = whyNot(entry.operation ?? "");
          return <li key={entry.hint + entry.text} id={`palette-${i}`} role="option" aria-selected={i === at} aria-disabled={why ? true : undefined} onClick={() => pick(entry)} onMouseMove={() => setAt(i)}><span>{entry.text}{why && <small>Not allowed. {why}</small>}</span><kbd>{entry.hint}</kbd></li>;
        })}
        {!found.length && <li role="option" aria-selected={false}>{isAnswered ? `Nothing has “${text}” in its name.` : "Looking…"}</li>}
      </ul>
    </Dialog>
  );
}
