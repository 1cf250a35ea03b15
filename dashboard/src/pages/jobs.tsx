// Every job: found by filter, sorted, with its last runs; and what is done to many at once.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, get, query, type Write, whyNot } from "../lib/api";
import { JOB_FILTERS, parse, STATUS, toQuery, withPart } from "../lib/filter";
import { type JobEvent, onChange } from "../lib/live";
import { param, setParams } from "../lib/route";
import { count, plural, scheduleText } from "../lib/words";
import type { JobAnswer, JobList } from "../types";
import { pauseJob, resumeJob, runNow, WhyDialog, whyAsked, wordOf } from "../parts/actions";
import { BulkDialog, type BulkWork } from "../parts/bulk";
import { countWords, useCounts } from "../parts/counts";
import { Export } from "../parts/export";
import { FilterBox, typedFilter, UnreadFilter } from "../parts/filterbox";
import { Strip, stripOf, stripTurn, wantStrips } from "../parts/strip";
import { stats, useTitle } from "../parts/shell";
import { FreshLine } from "../parts/steady";
import { type Column, Table, usePages } from "../parts/table";
import { Act, Badge, Command, Count, Empty, Time, tell } from "../parts/ui";

const TABS: [string, string, string][] = [["All", "", ""], ["Failing", "health", "failing"], ["Late", "health", "late"], ["Never ran", "health", "never_run"], ["Active", "status", "active"], ["Paused", "status", "paused"], ["Due in 1 h", "due", "1h"], ["Completed", "status", "completed"], ["Deleted", "status", "deleted"]];
const QUICK = ["status", "due", "health"];
const statusOf = (value: string) => STATUS[value] ?? value.toUpperCase();
const VALUES = { status: ["active", "paused", "completed", "deleted"], health: ["failing", "late", "never_run"], type: ["http", "shell", "python", "custom", "noop"], priority: ["HIGH", "MEDIUM", "LOW"], due: ["1h", "24h", "today", "7d"], label: ["team:"] };
const MOST = 10_000;
type Known = Pick<JobAnswer, "job_id" | "name" | "status">;
type Verb = { word: string; operation: string; path: string; can: (job: Known) => boolean; others: string; effect: string };

export function Jobs() {
  const text = param("f");
  const filter = parse(text, JOB_FILTERS);
  const sort = param("sort", filter.values.due ? "next_fire_time" : "name");
  // Once a filter: "within an hour" would else be another question every minute, and lose the place and what is selected.
  const asked = useMemo(() => query({ ...toQuery(filter, "q"), sort }), [text, sort]);
  const pages = usePages<JobAnswer>(`/jobs${asked}`, (answer) => ({ rows: (answer as JobList).jobs, next: (answer as JobList).next_cursor }));
  const [selected, setSelected] = useState(new Set<string>());
  const [matching, setMatching] = useState<Known[]>([]);
  const [work, setWork] = useState<BulkWork | null>(null);
  const [fresh, setFresh] = useState(new Set<string>());
  useTitle("Jobs");

  useEffect(() => {
    setSelected(new Set());
    setFresh(new Set());
  }, [asked]);
  useEffect(() => onChange((change) => {
    const known = new Map(pages.rows.value.map((job) => [job.job_id, job]));
    void countNew(change.jobs.filter((job) => job.change === "created" && !known.has(job.job_id)));
    void refresh(new Set([...change.jobs, ...change.runs].map((event) => event.job_id).filter((id) => known.has(id) && shown.has(id))));
  }), [asked]);

  /** Those of them that the filter would show: the server is asked, by name, since an event does not tell enough. */
  async function countNew(made: JobEvent[]): Promise<void> {
    const isIn = async (job: JobEvent): Promise<boolean> => {
      if (!text) return true;
      if (!job.name.toLowerCase().includes(filter.words.toLowerCase())) return false;
      const page = await get<JobList>(`/jobs${query({ ...toQuery(filter, "q"), q: job.name, limit: 100 })}`).catch(() => null);
      return !!page?.jobs.some((each) => each.job_id === job.job_id);
    };
    for (const job of made.slice(0, 200)) if (await isIn(job)) setFresh((all) => new Set([...all, job.job_id]));
  }

  /** Rows in view change in place; their order does not. */
  async function refresh(ids: Set<string>): Promise<void> {
    const found = await Promise.all([...ids].slice(0, 20).map((id) => get<JobAnswer>(`/jobs/${enc(id)}`).catch(() => null)));
    const byId = new Map(found.filter((job) => job !== null).map((job) => [job.job_id, job]));
    if (byId.size) pages.rows.value = pages.rows.value.map((job) => byId.get(job.job_id) ?? job);
    wantStrips([...ids], 2000);
  }

  async function selectMatching(): Promise<void> {
    const found: Known[] = [...pages.rows.value];
    let cursor = pages.next.value;
    while (cursor && found.length < MOST) {
      const page: JobList = await get<JobList>(`/jobs${asked}&limit=1000&cursor=${enc(cursor)}`);
      found.push(...page.jobs.map(({ job_id, name, status }) => ({ job_id, name, status })));
      cursor = page.next_cursor;
    }
    setMatching(found);
    setSelected(new Set(found.map((job) => job.job_id)));
    tell(`${plural(found.length, "job")} selected${cursor ? `; ${MOST.toLocaleString("en")} is the most at once` : ""}.`);
  }

  // Each tab with what else is asked for, since that stays when it is chosen.
  const paths = useMemo(() => {
    const others = toQuery({ ...filter, values: Object.fromEntries(Object.entries(filter.values).filter(([name]) => !QUICK.includes(name))) }, "q");
    const counted = TABS.filter(([, name]) => name === "status" || name === "health" || (!name && Object.keys(others).length > 0));
    return Object.fromEntries(counted.map(([word, name, value]) => [word, `/jobs${query({ ...others, ...(name && { [name]: name === "status" ? statusOf(value) : value }) })}`]));
  }, [text]);
  const counts = useCounts(paths, !pages.isFirst.value && !filter.problems.length, pages.readAt.value);
  const isPicked = (name: string, value: string) => (name ? filter.values[name]?.toLowerCase() === value : !QUICK.some((each) => filter.values[each]));
  const wordsOf = (word: string, name: string, value: string) => {
    const rows = pages.rows.value;
    const shown = name === "status" ? rows.filter((job) => job.status === statusOf(value)).length : name ? (isPicked(name, value) ? rows.length : 0) : rows.filter((job) => job.status !== "CANCELLED").length;
    if (word !== "All" || word in paths) return countWords(counts[word], shown);
    return stats.value && count(Math.max(stats.value.jobs, shown), stats.value.counted_up_to);
  };
  const turn = stripTurn.value;
  void turn;
  const setFilter = (next: string, isSameStep = false) => setParams({ f: next || null }, isSameStep);
  const columns: Column<JobAnswer>[] = [
    { name: "name", title: "Job", sort: "name", cell: (job) => <><a href={`/jobs/${enc(wordOf(job))}`} class="clip">{job.name}</a><div class="sub row">{Object.entries(job.labels).slice(0, 3).map(([key, value]) => <span class="tag" key={key}>{key}:{value}</span>)}</div></> },
    { name: "state", title: "State", cell: (job) => <><Badge status={job.status} kind="job" />{job.pause_reason && <div class="sub clip" title={job.pause_reason}>{job.pause_reason}</div>}</> },
    { name: "when", title: "Schedule", hideNarrow: true, cell: (job) => <><code class="clip">{scheduleText(job.schedule)}</code><div class="sub">{job.timezone}</div></> },
    { name: "next", title: "Next run", sort: "next_fire_time", cell: (job) => job.next_fire_time ? <Time at={job.next_fire_time} zone={job.timezone} /> : <span class="dim">{job.status === "PAUSED" ? (job.paused_until ? <>resumes <Time at={job.paused_until} /></> : "paused") : job.schedule_type === "MANUAL" ? "on request" : "none"}</span> },
    { name: "last", title: "Last result", cell: (job) => job.last_run_status ? <Badge status={job.last_run_status} /> : <span class="dim">never ran</span> },
    { name: "strip", title: "Last runs", hideNarrow: true, cell: (job) => { const runs = stripOf(job.job_id); return runs ? <Strip runs={runs} /> : <span class="dim">…</span>; } },
    { name: "queue", title: "Queue", hideNarrow: true, cell: (job) => <>{job.queue}<div class="sub">{String(job.priority).toLowerCase()}</div></> },
    { name: "updated", title: "Changed", sort: "updated_at", hideNarrow: true, cell: (job) => <Time at={job.updated_at} /> },
    { name: "do", title: "Actions", hideNarrow: true, cell: (job) => <span class="row">{job.status !== "CANCELLED" && <Act operation="runJob" kind="plain" onClick={() => runNow(job)}>Run</Act>}{job.status === "CANCELLED" ? null : job.status === "PAUSED" ? <Act operation="resumeJob" kind="plain" onClick={() => resumeJob(job)}>Resume</Act> : <Act operation="pauseJob" kind="plain" onClick={() => pauseJob(job)} disabled={job.status === "SCHEDULED" ? "" : "Only an active job can be paused."}>Pause</Act>}<button type="button" class="plain" onClick={() => (whyAsked.value = { job: wordOf(job), name: job.name })}>Why?</button></span> },
  ];
  const picked = pickedOf(selected, pages.rows.value, matching);
  return (
    <>
      <div class="page-head"><div><h1>Jobs</h1></div><div class="page-actions"><a class="button" href="/import" title={whyNot("createJobs")}>Import a crontab</a><a class="button primary" href="/jobs/new" title={whyNot("createJob")}>New job</a></div></div>
      <FilterBox text={text} known={JOB_FILTERS} values={VALUES} onChange={setFilter} extra={<Export path={`/jobs${asked}`} field="jobs" name="jobs" />} placeholder="name, status:paused, label:team:ads, type:http, queue:…, due:1h" />
      <div class="row" role="group" aria-label="Quick filters">
        {TABS.map(([word, name, value]) => <button key={word} type="button" class="chip" aria-pressed={isPicked(name, value)} onClick={() => setFilter(withPart(QUICK.reduce((left, each) => withPart(left, each, ""), typedFilter.value), name, value))}>{word}{name !== "due" && <Count words={wordsOf(word, name, value)} />}</button>)}
      </div>
      {filter.problems.length > 0 ? <UnreadFilter /> : <><FreshLine words={fresh.size ? plural(fresh.size, "new job") : ""} onShow={() => { setFresh(new Set()); void pages.reload(); }} />
      <Table label="Jobs" pages={pages} columns={columns} rowKey={(job) => job.job_id} rowName={(job) => job.name} sort={sort} onSort={(next) => setParams({ sort: next })} selected={selected} onSelect={setSelected} rowHeight={50} cardHeight={92}
        onView={(rows) => { shown = new Set(rows.map((job) => job.job_id)); wantStrips([...shown]); }}
        empty={text ? <Empty title="No job matches this filter"><button type="button" onClick={() => setFilter("")}>Clear the filter</button></Empty> : <Empty title="No jobs yet"><a class="button primary" href="/jobs/new">New job</a><Command text="horae demo load" /></Empty>} /></>}
      {selected.size > 0 && (
        <div class="bulk" role="region" aria-label="Selected jobs">
          <strong>{plural(selected.size, "job")}</strong>
          {pages.next.value && selected.size >= pages.rows.value.length && <button type="button" onClick={() => void selectMatching()}>Select all that match</button>}
          {VERBS.map((verb) => {
            const able = picked.filter(verb.can);
            return able.length > 0 && <Act key={verb.word} operation={verb.operation} onClick={() => setWork(workOf(verb, able, picked.length))}>{verb.word} {able.length.toLocaleString("en")}</Act>;
          })}
          {picked.every((job) => job.status === "CANCELLED") && <span class="dim">Deleted jobs stay as they are.</span>}
          <span class="grow" /><button type="button" class="plain" onClick={() => setSelected(new Set())}>Clear</button>
        </div>
      )}
      {work && <BulkDialog work={work} onClose={(isDone) => { setWork(null); if (isDone) { setSelected(new Set()); void pages.reload(); } }} />}
      <WhyDialog />
    </>
  );
}

let shown = new Set<string>();

/** The selected ones as they were read last; those that "all that match" found further down are known by three fields. */
function pickedOf(selected: Set<string>, rows: Known[], matching: Known[]): Known[] {
  const known = new Map([...matching, ...rows].map((job) => [job.job_id, job]));
  return [...selected].map((id) => known.get(id)).filter((job) => job !== undefined);
}

const VERBS: Verb[] = [
  { word: "Pause", operation: "pauseJob", path: "pause", can: (job) => job.status === "SCHEDULED", others: "not active", effect: "No due time starts a run until they are resumed." },
  { word: "Resume", operation: "resumeJob", path: "resume", can: (job) => job.status === "PAUSED", others: "not paused", effect: "Their next due times start runs again." },
  { word: "Run now", operation: "runJob", path: "run", can: (job) => job.status !== "CANCELLED", others: "deleted", effect: "One run of each starts as soon as a worker is free. Schedules do not change." },
  { word: "Delete", operation: "deleteJob", path: "", can: (job) => job.status !== "CANCELLED", others: "deleted already", effect: "No later runs; waiting ones are cancelled. The history stays." },
];

function workOf(verb: Verb, able: Known[], selected: number): BulkWork {
  const write = (job: Known): Write => (verb.path ? { method: "POST", path: `/jobs/${enc(wordOf(job))}/${verb.path}`, body: {} } : { method: "DELETE", path: `/jobs/${enc(wordOf(job))}` });
  const others = selected - able.length;
  return {
    title: verb.word, noun: "job", effect: verb.effect, isDanger: !verb.path, items: able.map((job) => ({ key: job.job_id, label: job.name, write: write(job) })),
    left: others ? `${plural(others, "other")} of the ${selected.toLocaleString("en")} selected ${others === 1 ? "is" : "are"} left out: ${verb.others}.` : "",
  };
}
