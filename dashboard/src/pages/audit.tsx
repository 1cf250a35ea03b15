// Who did what, when, from where: before and after.
import { query } from "../lib/api";
import { parse, split } from "../lib/filter";
import { onChange } from "../lib/live";
import { param, setParams } from "../lib/route";
import type { AuditCheck, AuditEntry, AuditList } from "../types";
import { Export } from "../parts/export";
import { FilterBox } from "../parts/filterbox";
import { useTitle } from "../parts/shell";
import { FreshLine } from "../parts/steady";
import { type Column, Table, usePages } from "../parts/table";
import { Dialog, Empty, Json, tell, Time } from "../parts/ui";
import { useEffect, useState } from "preact/hooks";
import { get } from "../lib/api";
import { problemOf } from "../lib/load";
import { plural } from "../lib/words";

const FILTERS = ["actor", "action", "target", "key", "since", "until"];

/** Jobs are kept by their ids; a name says more. */
function nameOf(entry: AuditEntry): string {
  const named = (value: unknown) => (value && typeof value === "object" && "name" in value ? String(value.name) : "");
  return named(entry.after) || named(entry.before) || entry.target;
}

export function Audit() {
  const text = param("f");
  const filter = parse(text, FILTERS);
  const asked = query({ ...filter.values, ...(split(text).length && filter.words ? { target: filter.words } : {}) });
  const pages = usePages<AuditEntry>(`/audit${asked}`, (answer) => ({ rows: (answer as AuditList).entries, next: (answer as AuditList).next_cursor }));
  const [opened, setOpened] = useState<AuditEntry | null>(null);
  const [fresh, setFresh] = useState(0);
  useEffect(() => setFresh(0), [asked]);
  useEffect(() => {
    let timer = 0;
    // The newest page is asked how many of it are not shown yet, some time after something changed.
    const count = () => {
      timer = 0;
      get<AuditList>(`/audit${asked}${asked ? "&" : "?"}limit=100`).then(({ entries }) => {
        if (!pages.rows.value.length && entries.length) return void pages.reload();
        const known = new Set(pages.rows.value.map((entry) => entry.id));
        setFresh(entries.filter((entry) => !known.has(entry.id)).length);
      }, () => {});
    };
    const off = onChange((change) => {
      if (change.jobs.length || change.isGap) timer ||= window.setTimeout(count, 1000);
    });
    return () => {
      clearTimeout(timer);
      off();
    };
  }, [asked]);
  useTitle("Audit");
  const columns: Column<AuditEntry>[] = [
    { name: "at", title: "When", cell: (entry) => <Time at={entry.at} mode="absolute" /> },
    { name: "actor", title: "Who", cell: (entry) => entry.actor },
    { name: "action", title: "Did", cell: (entry) => <code>{entry.action}</code> },
    { name: "target", title: "To", cell: (entry) => <span class="clip" title={entry.target}>{nameOf(entry)}</span> },
    { name: "from", title: "From", hideNarrow: true, cell: (entry) => entry.address ?? "–" },
    { name: "more", title: "Before and after", cell: (entry) => <button type="button" class="plain" onClick={() => setOpened(entry)}>Show</button> },
  ];
  const check = () => void get<AuditCheck>("/audit/verify").then((found) => tell(found.ok ? `The chain holds: ${plural(found.rows, "entry").replace("entrys", "entries")}${found.unsealed ? `, ${found.unsealed} not sealed yet` : ""}.` : `The chain is broken in ${plural(found.breaks.length, "place")}, first at number ${found.breaks[0]?.seq}.`, undefined, found.ok ? "good" : "bad"), (error) => tell(problemOf(error).detail, undefined, "bad"));
  return (
    <>
      <div class="page-head"><div><h1>Audit</h1><p class="dim">Every change, chained so that none can be taken out unseen.</p></div><div class="page-actions"><button type="button" onClick={check}>Check the chain</button></div></div>
      <FilterBox text={text} known={FILTERS} values={{}} extra={<Export path={`/audit${asked}`} field="entries" name="audit" />} onChange={(next, isSameStep) => setParams({ f: next || null }, isSameStep)} placeholder="actor:…, action:job.changed, target:…, since:2026-11-01T00:00:00Z" />
      <FreshLine words={fresh ? (fresh >= 100 ? "100 or more new entries" : fresh === 1 ? "1 new entry" : `${fresh} new entries`) : ""} onShow={() => { setFresh(0); void pages.reload(); scrollTo(0, 0); }} />
      <Table label="Audit" pages={pages} columns={columns} rowKey={(entry) => String(entry.id)} empty={<Empty title={text ? "Nothing matches" : "Nothing was changed yet"} />} rowHeight={40} cardHeight={92} />
      {opened && <Dialog wide title={`${opened.action} · ${opened.target}`} onClose={() => setOpened(null)}><p class="dim">{opened.actor}, <Time at={opened.at} mode="both" />, request {opened.request_id ?? "–"}</p><h3>Before</h3><Json value={opened.before} /><h3>After</h3><Json value={opened.after} /></Dialog>}
    </>
  );
}
