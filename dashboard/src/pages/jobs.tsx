// Every job: found by filter, sorted, with its last runs; and what is done to many at once.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, get, query, whyNot } from "../lib/api";
import { JOB_FILTERS, parse, toQuery, withPart } from "../lib/filter";
import { onChange } from "../lib/live";
import { param, setParams } from "../lib/route";
import { plural, scheduleText } from "../lib/words";
import type { JobAnswer, JobList } from "../types";
import { pauseJob, resumeJob, runNow, WhyDialog, whyAsked } from "../parts/actions";
import { type BulkVerb, BulkDialog } from "../parts/bulk";
import { Export } from "../parts/export";
import { FilterBox, typedFilter } from "../parts/filterbox";
import { Strip, stripOf, stripTurn, wantStrips } from "../parts/strip";
import { useTitle } from "../parts/shell";
import { type Column, Table, usePages } from "../parts/table";
import { Act, Badge, Command, Empty, Time, tell } from "../parts/ui";

const TABS: [string, string, string][] = [["All", "", ""], ["Failing", "health", "failing"], ["Late", "health", "late"], ["Never ran", "health", "never_run"], ["Active", "status", "active"], ["Paused", "status", "paused"], ["Due in 1 h", "due", "1h"], ["Completed", "status", "completed"], ["Deleted", "status", "deleted"]];
const QUICK = ["status", "due", "health"];
const VALUES = { status: ["active", "paused", "completed", "deleted"], health: ["failing", "late", "never_run"], type: ["http", "shell", "python", "custom", "noop"], priority: ["HIGH", "MEDIUM", "LOW"], due: ["1h", "24h", "today", "7d"], label: ["team:"] };
const MOST = 10_000;

export function Jobs() {
  const text = param("f");
  const filter = parse(text, JOB_FILTERS);
  const sort = param("sort", filter.values.due ? "next_fire_time" : "name");
  // Once a filter: "within an hour" would else be another question every minute, and lose the place and what is selected.
  const asked = useMemo(() => query({ ...toQuery(filter, "q"), sort }), [text, sort]);
  const pages = usePages<JobAnswer>(`/jobs${asked}`, (answer) => ({ rows: (answer as JobList).jobs, next: (answer as JobList).next_cursor }));
  const [selected, setSelected] = useState(new Set<string>());
  const [verb, setVerb] = useState<BulkVerb | null>(null);
  const [fresh, setFresh] = useState(0);
  useTitle("Jobs");

  useEffect(() => {
    setSelected(new Set());
    setFresh(0);
  }, [asked]);
  useEffect(() => onChange((change) => {
    const known = new Map(pages.rows.value.map((job) => [job.job_id, job]));
    setFresh((n) => n + new Set(change.jobs.filter((job) => job.change === "created" && !known.has(job.job_id)).map((job) => job.job_id)).size);
    void refresh(new Set([...change.jobs, ...change.runs].map((event) => event.job_id).filter((id) => known.has(id) && shown.has(id))));
  }), [asked]);

  /** Rows in view change in place; their order does not. */
  async function refresh(ids: Set<string>): Promise<void> {
    const found = await Promise.all([...ids].slice(0, 20).map((id) => get<JobAnswer>(`/jobs/${enc(id)}`).catch(() => null)));
    const byId = new Map(found.filter((job) => job !== null).map((job) => [job.job_id, job]));
    if (byId.size) pages.rows.value = pages.rows.value.map((job) => byId.get(job.job_id) ?? job);
    wantStrips([...ids], 2000);
  }

  async function selectMatching(): Promise<void> {
    const names = new Set(pages.rows.value.map((job) => job.name));
    let cursor = pages.next.value;
    while (cursor && names.size < MOST) {
      const page: JobList = await get<JobList>(`/jobs${asked}&limit=1000&cursor=${enc(cursor)}`);
      for (const job of page.jobs) names.add(job.name);
      cursor = page.next_cursor;
    }
    setSelected(names);
    tell(`${plural(names.size, "job")} selected${cursor ? `; ${MOST.toLocaleString("en")} is the most at once` : ""}.`);
  }

  const turn = stripTurn.value;
  void turn;
  const setFilter = (next: string) => setParams({ f: next || null });
  const columns: Column<JobAnswer>[] = [
    { name: "name", title: "Job", sort: "name", cell: (job) => <><a href={`/jobs/${enc(job.name)}`} class="clip">{job.name}</a><div class="sub row">{Object.entries(job.labels).slice(0, 3).map(([key, value]) => <span class="tag" key={key}>{key}:{value}</span>)}</div></> },
    { name: "state", title: "State", cell: (job) => <><Badge status={job.status} kind="job" />{job.pause_reason && <div class="sub clip" title={job.pause_reason}>{job.pause_reason}</div>}</> },
    { name: "when", title: "Schedule", hideNarrow: true, cell: (job) => <><code class="clip">{scheduleText(job.schedule)}</code><div class="sub">{job.timezone}</div></> },
    { name: "next", title: "Next run", sort: "next_fire_time", cell: (job) => job.next_fire_time ? <Time at={job.next_fire_time} zone={job.timezone} /> : <span class="dim">{job.status === "PAUSED" ? (job.paused_until ? <>resumes <Time at={job.paused_until} /></> : "paused") : job.schedule_type === "MANUAL" ? "on request" : "none"}</span> },
    { name: "last", title: "Last result", cell: (job) => job.last_run_status ? <Badge status={job.last_run_status} /> : <span class="dim">never ran</span> },
    { name: "strip", title: "Last runs", hideNarrow: true, cell: (job) => { const runs = stripOf(job.job_id); return runs ? <Strip runs={runs} /> : <span class="dim">…</span>; } },
    { name: "queue", title: "Queue", hideNarrow: true, cell: (job) => <>{job.queue}<div class="sub">{String(job.priority).toLowerCase()}</div></> },
    { name: "updated", title: "Changed", sort: "updated_at", hideNarrow: true, cell: (job) => <Time at={job.updated_at} /> },
    { name: "do", title: "Actions", hideNarrow: true, cell: (job) => <span class="row"><Act operation="runJob" kind="plain" onClick={() => runNow(job)}>Run</Act>{job.status === "PAUSED" ? <Act operation="resumeJob" kind="plain" onClick={() => resumeJob(job)}>Resume</Act> : <Act operation="pauseJob" kind="plain" onClick={() => pauseJob(job)} disabled={job.status === "SCHEDULED" ? "" : "Only an active job can be paused."}>Pause</Act>}<button type="button" class="plain" onClick={() => (whyAsked.value = { job: job.name })}>Why?</button></span> },
  ];
  const picked = pages.rows.value.filter((job) => selected.has(job.name));
  const active = picked.filter((job) => job.status === "SCHEDULED").length;
  const paused = picked.filter((job) => job.status === "PAUSED").length;
  return (
    <>
      <div class="page-head"><div><h1>Jobs</h1></div><div class="page-actions"><a class="button primary" href="/jobs/new" title={whyNot("createJob")}>New job</a></div></div>
      <FilterBox text={text} known={JOB_FILTERS} values={VALUES} onChange={setFilter} extra={<Export path={`/jobs${asked}`} field="jobs" name="jobs" />} placeholder="name, status:paused, label:team:ads, type:http, queue:…, due:1h" />
      <div class="row" role="group" aria-label="Quick filters">
        {TABS.map(([word, name, value]) => <button key={word} type="button" class="chip" aria-pressed={name ? filter.values[name]?.toLowerCase() === value : !QUICK.some((each) => filter.values[each])} onClick={() => setFilter(withPart(QUICK.reduce((left, each) => withPart(left, each, ""), typedFilter.value), name, value))}>{word}</button>)}
      </div>
      {fresh > 0 && <button type="button" class="new-pill" onClick={() => { setFresh(0); void pages.reload(); }}>{plural(fresh, "new job")}, show</button>}
      <Table label="Jobs" pages={pages} columns={columns} rowKey={(job) => job.name} sort={sort} onSort={(next) => setParams({ sort: next })} selected={selected} onSelect={setSelected} rowHeight={50} cardHeight={92}
        onView={(rows) => { shown = new Set(rows.map((job) => job.job_id)); wantStrips([...shown]); }}
        empty={text ? <Empty title="No job matches this filter"><button type="button" onClick={() => setFilter("")}>Clear the filter</button></Empty> : <Empty title="No jobs yet"><a class="button primary" href="/jobs/new">New job</a><Command text="horae demo load" /></Empty>} />
      {selected.size > 0 && (
        <div class="bulk" role="region" aria-label="Selected jobs">
          <strong>{plural(selected.size, "job")}</strong>
          {pages.next.value && selected.size >= pages.rows.value.length && <button type="button" onClick={() => void selectMatching()}>Select all that match</button>}
          <Act operation="pauseJob" onClick={() => setVerb("pause")}>Pause{selected.size === picked.length ? ` ${active}` : ""}</Act>
          <Act operation="resumeJob" onClick={() => setVerb("resume")}>Resume{selected.size === picked.length ? ` ${paused}` : ""}</Act>
          <Act operation="runJob" onClick={() => setVerb("run")}>Run now</Act>
          <Act operation="deleteJob" onClick={() => setVerb("delete")}>Delete</Act>
          <span class="grow" /><button type="button" class="plain" onClick={() => setSelected(new Set())}>Clear</button>
        </div>
      )}
      {verb && <BulkDialog verb={verb} names={eligible(verb, selected, pages.rows.value)} selected={selected.size} onClose={(isDone) => { setVerb(null); if (isDone) { setSelected(new Set()); void pages.reload(); } }} />}
      <WhyDialog />
    </>
  );
}

let shown = new Set<string>();

/** Those that the verb can do something to; of jobs that are not read, the server will say. */
function eligible(verb: BulkVerb, selected: Set<string>, rows: JobAnswer[]): string[] {
  const state = new Map(rows.map((job) => [job.name, job.status]));
  const wanted = { pause: "SCHEDULED", resume: "PAUSED", run: "", delete: "" }[verb];
  return [...selected].filter((name) => !wanted || !state.has(name) || state.get(name) === wanted);
}
