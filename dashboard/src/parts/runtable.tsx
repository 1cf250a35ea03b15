// A list of runs, for all jobs or one: rows change in place, new ones wait behind a pill.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { enc, get } from "../lib/api";
import { onChange, type RunEvent } from "../lib/live";
import { ms, now, span } from "../lib/time";
import { fingerprint, plain, plural, reasonWords } from "../lib/words";
import type { Run, RunList } from "../types";
import { Deleted } from "./named";
import { FreshLine } from "./steady";
import { type Column, Table, usePages } from "./table";
import { Badge, Time } from "./ui";

const LATE_MS = 1000;
const REST_MS = 1000;
const PAGE = 100;

type Props = { path: string; jobId?: string; zone?: string; empty: ComponentChildren; isLive?: boolean; selected?: Set<string>; onSelect?: (keys: Set<string>) => void; onRows?: (rows: Run[]) => void };

export function RunTable({ path, jobId, zone, empty, selected, onSelect, onRows }: Props) {
  const pages = usePages<Run>(path, (answer) => ({ rows: (answer as RunList).runs, next: (answer as RunList).next_cursor, backTo: (answer as RunList).searched_back_to }), PAGE);
  const [fresh, setFresh] = useState(0);
  const timer = useRef(0);
  useEffect(() => {
    setFresh(0);
    return () => {
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [path]);
  useEffect(() => onRows?.(pages.rows.value), [pages.rows.value]);
  useEffect(() => onChange((change) => {
    if (change.isGap) count();
    const known = new Set(pages.rows.value.map((run) => run.run_id));
    const mine = change.runs.filter((run) => !jobId || run.job_id === jobId);
    if (mine.some((run) => !known.has(run.run_id) && mayBeIn(run, path))) count();
    const ids = [...new Set(mine.map((run) => run.run_id).filter((id) => known.has(id)))].slice(0, 20);
    if (!ids.length) return;
    void Promise.all(ids.map((id) => get<Run>(`/runs/${enc(id)}`).catch(() => null))).then((found) => {
      const byId = new Map(found.filter((run) => run !== null).map((run) => [run.run_id, run]));
      pages.rows.value = pages.rows.value.map((run) => byId.get(run.run_id) ?? run);
    });
  }), [path, jobId]);

  /** An event does not tell all that a filter asks for: the list itself is asked how many are new, some time after the first of them. */
  function count(): void {
    timer.current ||= window.setTimeout(() => {
      timer.current = 0;
      const { rows } = pages;
      get<RunList>(`${path}${path.includes("?") ? "&" : "?"}limit=${PAGE}`).then((page) => {
        // An empty list has nothing that could move.
        if (!rows.value.length && page.runs.length) return void pages.reload();
        const known = new Set(rows.value.map((run) => run.run_id));
        const byId = new Map(page.runs.map((run) => [run.run_id, run]));
        rows.value = rows.value.map((run) => byId.get(run.run_id) ?? run);
        setFresh(page.runs.filter((run) => !known.has(run.run_id)).length);
      }, () => {});
    }, REST_MS);
  }

  const columns: Column<Run>[] = [
    { name: "state", title: "State", cell: (run) => <a href={`/runs/${run.run_id}`}><Badge status={run.status} reason={run.reason} extra={run.status === "RETRYING" ? `${run.attempt_number}/${run.max_attempts}` : run.skipped_count ? `×${run.skipped_count}` : ""} /></a> },
    ...(jobId ? [] : [{ name: "job", title: "Job", cell: (run: Run) => <a href={`/jobs/${enc(run.job_id)}`} class="clip">{run.job_name}</a> }]),
    { name: "due", title: "Due", cell: (run) => <><Time at={run.scheduled_for} zone={zone} />{run.lateness_ms !== null && run.lateness_ms > LATE_MS && <div class="late">{span(run.lateness_ms)} late</div>}</> },
    { name: "took", title: "Took", cell: (run) => run.duration_ms !== null ? span(run.duration_ms) : run.start_time && run.status === "RUNNING" ? <span class="tone-running">{span(Math.max(0, now.value - ms(run.start_time)))}</span> : <span class="dim">–</span> },
    { name: "attempt", title: "Attempt", hideNarrow: true, cell: (run) => run.start_time ? `${run.attempt_number} of ${run.max_attempts}` : <span class="dim">–</span> },
    { name: "trigger", title: "By", hideNarrow: true, cell: (run) => run.trigger },
    { name: "queue", title: "Queue", hideNarrow: true, cell: (run) => <>{run.queue}<div class="sub">{run.priority.toLowerCase()}</div></> },
    { name: "version", title: "Version", hideNarrow: true, cell: (run) => `v${run.job_version}` },
    { name: "why", title: "Reason", cell: (run) => <span class="clip dim" title={run.error_message ? plain(run.error_message) : reasonWords(run.reason)}>{run.error_message ? fingerprint(run.error_message, run.reason) : reasonWords(run.reason)}</span> },
  ];
  return (
    <>
      <FreshLine words={fresh ? `${fresh >= PAGE ? `${PAGE} or more new runs` : plural(fresh, "new run")}` : ""} onShow={() => { setFresh(0); void pages.reload(); scrollTo(0, 0); }} />
      {pages.problem.value && <Deleted name={new URLSearchParams(path.split("?")[1]).get("job") ?? ""} problem={pages.problem.value} />}
      <Table label="Runs" pages={pages} columns={columns} rowKey={(run) => run.run_id} empty={empty} rowHeight={46} cardHeight={88} selected={selected} onSelect={onSelect} />
    </>
  );
}

/** What the event tells of the status and the due time is enough to leave out most of those that the filter leaves out. */
function mayBeIn(run: RunEvent, path: string): boolean {
  const asked = new URLSearchParams(path.split("?")[1]);
  const status = asked.get("status");
  if (status && status !== run.status) return false;
  return !asked.get("due_before") || ms(run.scheduled_for) < Date.now() + 60_000;
}
