// Every run, newest due time first; skipped and missed ones among them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, get, query, type Write } from "../lib/api";
import { parse, RUN_FILTERS, STATUS, toQuery, withPart } from "../lib/filter";
import { param, setParams } from "../lib/route";
import { absolute, ms, zoneOf } from "../lib/time";
import { fingerprint, plural, REASONS } from "../lib/words";
import type { Run, RunList } from "../types";
import { BulkDialog, type BulkWork } from "../parts/bulk";
import { countWords, useCounts } from "../parts/counts";
import { Export } from "../parts/export";
import { FilterBox, typedFilter, UnreadFilter } from "../parts/filterbox";
import { useNamed } from "../parts/named";
import { RunTable } from "../parts/runtable";
import { useTitle } from "../parts/shell";
import { HeadPill, useSteady } from "../parts/steady";
import { Act, Badge, Count, Empty, ProblemBox, Skeleton, Time } from "../parts/ui";
import { useLoad } from "../lib/load";

const TABS: [string, string][] = [["All", ""], ["Running", "running"], ["Queued", "queued"], ["Retrying", "retrying"], ["Dead", "dead"], ["Skipped", "skipped"], ["Succeeded", "succeeded"], ["Cancelled", "cancelled"], ["Scheduled", "pending"]];
const VALUES = { status: ["running", "queued", "retrying", "dead", "skipped", "succeeded", "cancelled", "pending", "unknown"], priority: ["HIGH", "MEDIUM", "LOW"], due: ["1h", "24h", "today", "7d", "30d"], reason: Object.keys(REASONS) };
const WINDOW = "7d";

export function Runs() {
  const text = param("f");
  const filter = parse(text, RUN_FILTERS);
  const named = useNamed(filter.values.job ? "" : filter.words);
  if (named.id) filter.values.job = named.id;
  const isGrouped = param("group") === "error";
  // Bounded unless the reader says otherwise, and said on the page.
  const isBounded = !filter.values.due && param("all") !== "1";
  const values = isBounded ? { ...filter.values, due: WINDOW } : filter.values;
  // What is due within seconds is staged already, and would fill the first screen: it has a tab of its own.
  const until = filter.values.status?.toLowerCase() === "pending" ? {} : { due_before: "now" };
  const asked = useMemo(() => query({ ...toQuery({ ...filter, words: "", values }, "job"), ...until }), [text, isBounded, named.id]);
  const isUnread = filter.problems.length > 0;
  const [selected, setSelected] = useState(new Set<string>());
  const [rows, setRows] = useState<Run[]>([]);
  useTitle(filter.values.status ? `${filter.values.status} runs` : "Runs");
  useEffect(() => setSelected(new Set()), [asked]);
  // Each tab with what else is asked for, since that stays when it is chosen.
  const paths = useMemo(() => {
    const others = toQuery({ ...filter, words: "", values: { ...values, status: "" } }, "job");
    return Object.fromEntries(TABS.filter(([, value]) => value && value !== "succeeded").map(([word, value]) => [word, `/runs${query({ ...others, status: STATUS[value] ?? value.toUpperCase() })}`]));
  }, [text, isBounded, named.id]);
  const counts = useCounts(paths, rows.length > 0 && isBounded);
  const setFilter = (next: string, isSameStep = false) => setParams({ f: next || null }, isSameStep);
  const picked = rows.filter((run) => selected.has(run.run_id));
  return (
    <>
      <div class="page-head"><div><h1>Runs</h1><p class="dim">{isBounded ? <>Due in the last 7 days. <button type="button" class="plain small" onClick={() => setParams({ all: "1" })}>Look further back</button></> : filter.values.due ? `Due: ${filter.values.due}.` : <>All that are kept. <button type="button" class="plain small" onClick={() => setParams({ all: null })}>Only the last 7 days</button></>}</p></div>
        <div class="page-actions"><button type="button" aria-pressed={isGrouped} onClick={() => setParams({ group: isGrouped ? null : "error" })}>{isGrouped ? "As a list" : "Group by error"}</button></div></div>
      <FilterBox text={text} known={RUN_FILTERS} values={VALUES} onChange={setFilter} extra={<Export path={`/runs${asked}`} field="runs" name="runs" />} placeholder="part of a job’s name, status:dead, job:…, reason:timeout, queue:…, worker:…, due:24h" />
      <div class="row" role="group" aria-label="Quick filters">{TABS.map(([word, value]) => <button key={word} type="button" class="chip" aria-pressed={(filter.values.status ?? "").toLowerCase() === value} onClick={() => setFilter(withPart(typedFilter.value, "status", value))}>{word}{isBounded && word in counts && <Count words={countWords(counts[word])} />}</button>)}</div>
      {isUnread ? <UnreadFilter /> : named.instead ? named.instead : isGrouped ? <Groups asked={asked} /> : (
        <RunTable path={`/runs${asked}`} selected={selected} onSelect={setSelected} onRows={setRows}
          empty={text ? <Empty title="No run matches this filter"><button type="button" onClick={() => setFilter("")}>Clear the filter</button></Empty> : <Empty title="No runs yet"><a href="/jobs">Look at the jobs, or run one now</a></Empty>} />
      )}
      {picked.length > 0 && !isUnread && <Bulk runs={picked} onDone={() => setSelected(new Set())} />}
    </>
  );
}

type Verb = { word: string; operation: string; effect: string; others: string; isDanger?: boolean; can: (run: Run) => boolean; write: (run: Run) => Write };
const VERBS: Verb[] = [
  { word: "Retry", operation: "retryRun", effect: "One more attempt of each: same id, same due time.", others: "not dead, cancelled or unknown", can: (run) => ["FAILED", "CANCELLED", "UNKNOWN"].includes(run.status), write: (run) => ({ method: "POST", path: `/runs/${run.run_id}/retry`, body: {} }) },
  { word: "Replay", operation: "replayRun", effect: "A new run for each, with the same payload and the job as it is now. The old ones leave the dead letters.", others: "not dead", can: (run) => run.status === "FAILED", write: (run) => ({ method: "POST", path: `/dead-letters/${run.run_id}/replay`, body: {} }) },
  { word: "Cancel", operation: "cancelRun", effect: "Waiting ones will not start, and workers are told to stop the others; what those have done so far is not undone.", others: "over already", isDanger: true, can: (run) => ["PENDING", "QUEUED", "RUNNING", "RETRYING"].includes(run.status), write: (run) => ({ method: "POST", path: `/runs/${run.run_id}/cancel`, body: {} }) },
];

function workOf(verb: Verb, runs: Run[]): BulkWork {
  const able = runs.filter(verb.can);
  const others = runs.length - able.length;
  return {
    title: verb.word, noun: "run", effect: verb.effect, isDanger: verb.isDanger, items: able.map((run) => ({ key: run.run_id, label: `${run.job_name}, due ${absolute(ms(run.scheduled_for), zoneOf())}`, write: verb.write(run) })),
    left: others ? `${plural(others, "other")} of the ${runs.length} selected ${others === 1 ? "is" : "are"} left out: ${verb.others}.` : "",
  };
}

function Bulk({ runs, onDone }: { runs: Run[]; onDone: () => void }) {
  const [work, setWork] = useState<BulkWork | null>(null);
  return (
    <div class="bulk" role="region" aria-label="Selected runs">
      <strong>{plural(runs.length, "run")}</strong>
      {VERBS.map((verb) => {
        const able = runs.filter(verb.can).length;
        return able > 0 && <Act key={verb.word} operation={verb.operation} onClick={() => setWork(workOf(verb, runs))}>{`${verb.word} ${able}${able < runs.length ? ` of ${runs.length}` : ""}`}</Act>;
      })}
      <span class="grow" /><button type="button" class="plain" onClick={onDone}>Clear</button>
      {work && <BulkDialog work={work} onClose={(isDone) => { setWork(null); if (isDone) onDone(); }} />}
    </div>
  );
}

function Groups({ asked }: { asked: string }) {
  const loaded = useLoad<RunList>(`/runs${asked}${asked ? "&" : "?"}limit=1000${asked.includes("status=") ? "" : "&status=FAILED"}`, { when: (change) => change.runs.some((run) => run.status === "FAILED"), restMs: 5000 }, (path, signal) => get<RunList>(path, signal));
  const groups = new Map<string, Run[]>();
  for (const run of loaded.data.value?.runs ?? []) {
    const key = fingerprint(run.error_message, run.reason);
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  const steady = useSteady(loaded.data.value && [...groups].sort((a, b) => b[1].length - a[1].length), ([key]) => key, loaded.data.value, asked);
  if (loaded.problem.value && !loaded.data.value) return <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />;
  if (!loaded.data.value) return <Skeleton rows={6} />;
  if (!steady.shown.length && !steady.waiting.length) return <Empty title="No error here" />;
  return (
    <section class="panel">
      <div class="panel-head"><h2>By error</h2><div class="panel-actions"><HeadPill steady={steady} noun="error" /></div></div>
      <table class="small-table">
        <thead><tr><th scope="col">Error</th><th scope="col" class="right">Runs</th><th scope="col">Jobs</th><th scope="col">Last</th><th scope="col">Newest</th></tr></thead>
        <tbody>{steady.shown.map(({ item: [key, runs] }) => <tr key={key}><th scope="row">{key}</th><td class="right">{runs.length}</td><td>{[...new Map(runs.map((run) => [run.job_id, run.job_name]))].slice(0, 3).map(([id, name]) => <a key={id} href={`/runs?f=${enc(`job:${id} status:dead`)}`}>{name} </a>)}</td><td><Time at={runs[0].scheduled_for} /></td><td><a href={`/runs/${runs[0].run_id}`}><Badge status={runs[0].status} reason={runs[0].reason} /></a></td></tr>)}</tbody>
      </table>
      <p class="dim">Of the newest {loaded.data.value.runs.length} failed runs.</p>
    </section>
  );
}
