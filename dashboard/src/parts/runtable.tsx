// A list of runs, for all jobs or one: rows change in place, new ones wait behind a pill.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { enc, get } from "../lib/api";
import { onChange } from "../lib/live";
import { ms, now, span } from "../lib/time";
import { fingerprint, plural, reasonWords } from "../lib/words";
import type { Run, RunList } from "../types";
import { type Column, Table, usePages } from "./table";
import { Badge, Time } from "./ui";

const LATE_MS = 1000;

type Props = { path: string; isArray?: boolean; jobId?: string; zone?: string; empty: ComponentChildren; isLive?: boolean; selected?: Set<string>; onSelect?: (keys: Set<string>) => void; onRows?: (rows: Run[]) => void };

export function RunTable({ path, isArray, jobId, zone, empty, selected, onSelect, onRows }: Props) {
  const pages = usePages<Run>(path, (answer) => isArray ? { rows: answer as Run[], next: null } : { rows: (answer as RunList).runs, next: (answer as RunList).next_cursor }, isArray ? 500 : 100);
  const [fresh, setFresh] = useState(new Set<string>());
  useEffect(() => setFresh(new Set()), [path]);
  useEffect(() => onRows?.(pages.rows.value), [pages.rows.value]);
  useEffect(() => onChange((change) => {
    if (change.isGap) return void pages.reload();
    const known = new Set(pages.rows.value.map((run) => run.run_id));
    const mine = change.runs.filter((run) => !jobId || run.job_id === jobId);
    const added = mine.filter((run) => !known.has(run.run_id)).map((run) => run.run_id);
    if (added.length) {
      // An empty page, or one that nobody has scrolled or touched, may simply show them.
      if (!pages.rows.value.length) void pages.reload();
      else setFresh((all) => new Set([...all, ...added]));
    }
    const ids = [...new Set(mine.map((run) => run.run_id).filter((id) => known.has(id)))].slice(0, 20);
    if (!ids.length) return;
    void Promise.all(ids.map((id) => get<Run>(`/runs/${enc(id)}`).catch(() => null))).then((found) => {
      const byId = new Map(found.filter((run) => run !== null).map((run) => [run.run_id, run]));
      pages.rows.value = pages.rows.value.map((run) => byId.get(run.run_id) ?? run);
    });
  }), [path, jobId]);

  const columns: Column<Run>[] = [
    { name: "state", title: "State", cell: (run) => <a href={`/runs/${run.run_id}`}><Badge status={run.status} reason={run.reason} extra={run.status === "RETRYING" ? `${run.attempt_number}/${run.max_attempts}` : run.skipped_count ? `×${run.skipped_count}` : ""} /></a> },
    ...(jobId ? [] : [{ name: "job", title: "Job", cell: (run: Run) => <a href={`/jobs/${enc(run.job_name)}`} class="clip">{run.job_name}</a> }]),
    { name: "due", title: "Due", cell: (run) => <><Time at={run.scheduled_for} zone={zone} />{run.lateness_ms !== null && run.lateness_ms > LATE_MS && <div class="late">{span(run.lateness_ms)} late</div>}</> },
    { name: "took", title: "Took", cell: (run) => run.duration_ms !== null ? span(run.duration_ms) : run.start_time && run.status === "RUNNING" ? <span class="tone-running">{span(Math.max(0, now.value - ms(run.start_time)))}</span> : <span class="dim">–</span> },
    { name: "attempt", title: "Attempt", hideNarrow: true, cell: (run) => run.start_time ? `${run.attempt_number} of ${run.max_attempts}` : <span class="dim">–</span> },
    { name: "trigger", title: "By", hideNarrow: true, cell: (run) => run.trigger },
    { name: "queue", title: "Queue", hideNarrow: true, cell: (run) => <>{run.queue}<div class="sub">{run.priority.toLowerCase()}</div></> },
    { name: "version", title: "Version", hideNarrow: true, cell: (run) => `v${run.job_version}` },
    { name: "why", title: "Reason", cell: (run) => <span class="clip dim" title={run.error_message ?? reasonWords(run.reason)}>{run.error_message ? fingerprint(run.error_message, run.reason) : reasonWords(run.reason)}</span> },
  ];
  return (
    <>
      {fresh.size > 0 && <button type="button" class="new-pill" onClick={() => { setFresh(new Set()); void pages.reload(); scrollTo(0, 0); }}>{plural(fresh.size, "new run")}, show</button>}
      <Table label="Runs" pages={pages} columns={columns} rowKey={(run) => run.run_id} empty={empty} rowHeight={46} cardHeight={88} selected={selected} onSelect={onSelect} />
    </>
  );
}
