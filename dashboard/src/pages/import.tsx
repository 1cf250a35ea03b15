// A crontab taken over: what each line means, which of them became jobs, and what is left to do where they came from.
import { useEffect, useMemo, useState } from "preact/hooks";
import { enc, quote, send, tenant, type Write } from "../lib/api";
import { type Entry, readCrontab } from "../lib/crontab";
import { problemOf } from "../lib/load";
import { guardLeaving } from "../lib/route";
import { plural } from "../lib/words";
import type { PreviewAnswer, Problem } from "../types";
import { BulkDialog, type BulkWork } from "../parts/bulk";
import { useTitle } from "../parts/shell";
import { Act, Command, Copy, ProblemBox, tell, Time } from "../parts/ui";
import { Terminal } from "../parts/write";

type Meant = { preview?: PreviewAnswer; fault?: string };
const MOST = 500;
const SHOWN = 3;

/** What the server makes of each time, asked a few at once and kept. */
function useMeaning(entries: Entry[]): Map<string, Meant> {
  const [known, setKnown] = useState(new Map<string, Meant>());
  useEffect(() => {
    const wanted = [...new Set(entries.filter((entry) => entry.job).map((entry) => `${entry.zone} ${entry.schedule}`))].filter((key) => !known.has(key));
    let isOver = false;
    const timer = setTimeout(async () => {
      for (let at = 0; at < wanted.length && !isOver; at += 4) {
        const found = await Promise.all(wanted.slice(at, at + 4).map(async (key): Promise<[string, Meant]> => {
          const [timezone, schedule] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
          try {
            return [key, { preview: await send<PreviewAnswer>({ method: "POST", path: "/schedules/preview", body: { schedule, timezone, count: SHOWN } }) }];
          } catch (error) {
            const problem = problemOf(error);
            return [key, { fault: [problem.errors[0]?.detail ?? problem.detail, problem.errors[0]?.hint].filter(Boolean).join(" ") }];
          }
        }));
        setKnown((all) => new Map([...all, ...found]));
      }
    }, 250);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [entries]);
  return known;
}

type Answer = { created: number; failed: number; results: { index: number; job_id?: string; error?: Problem }[] };
type Taken = { entry: Entry; id: string };
/** `left` became no job, and cron still has to run it. */
type Outcome = { taken: Taken[]; left: { entry: Entry; why: string }[] };
const LEAVE = "Leave? What you pasted is not imported yet and would be lost.";

export function Import() {
  const [text, setText] = useState("");
  const [zone, setZone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  useTitle("Import a crontab", "Jobs");
  const isPending = !!text.trim() && !outcome;
  useEffect(() => {
    guardLeaving(isPending ? () => confirm(LEAVE) : null);
    return () => guardLeaving(null);
  }, [isPending]);
  /** With the settings and comments that stand above the lines that are left: they give them their meaning. */
  const again = () => {
    const gone = new Set(outcome!.taken.map((each) => each.entry.line));
    setText(outcome!.left.length ? text.split("\n").filter((_, i) => !gone.has(i + 1)).join("\n") : "");
    setOutcome(null);
  };
  return (
    <>
      <div class="page-head"><div><p class="crumbs"><a href="/jobs">Jobs</a></p><h1>Import a crontab</h1><p class="dim">Each line becomes a job. Nothing is changed in cron itself.</p></div></div>
      {outcome ? <Done outcome={outcome} again={again} /> : <Table text={text} setText={setText} zone={zone} setZone={setZone} done={setOutcome} />}
    </>
  );
}

function Table({ text, setText, zone, setZone, done }: { text: string; setText: (text: string) => void; zone: string; setZone: (zone: string) => void; done: (outcome: Outcome) => void }) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const entries = useMemo(() => readCrontab(text, zone).slice(0, MOST), [text, zone]);
  const meant = useMeaning(entries);
  const meaning = (entry: Entry) => meant.get(`${entry.zone} ${entry.schedule}`);
  const able = entries.filter((entry) => entry.job && meaning(entry)?.preview);
  const isAsking = entries.some((entry) => entry.job && !meaning(entry));
  const write: Write = { method: "POST", path: "/jobs:batch", body: { jobs: able.map((entry) => entry.job) } };
  async function make(): Promise<void> {
    setBusy(true);
    setProblem(null);
    try {
      const { results, created, failed } = await send<Answer>(write);
      const taken = results.filter((each) => !each.error).map((each) => ({ entry: able[each.index], id: each.job_id ?? "" }));
      const faults = new Map(results.filter((each) => each.error).map((each) => [able[each.index], each.error!.errors?.[0]?.detail ?? each.error!.detail]));
      const left = entries.filter((entry) => !taken.some((each) => each.entry === entry)).map((entry) => ({ entry, why: faults.get(entry) ?? (entry.refusal || meaning(entry)?.fault || "") }));
      tell(`${plural(created, "job")} made${failed ? `, ${failed} not` : ""}.`, undefined, failed ? "bad" : "good");
      done({ taken, left });
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <section class="panel stack" aria-label="The table">
      <label class="field"><span>Paste what <code>crontab -l</code> prints</span><textarea rows={9} value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder={"# nightly backup\n15 2 * * * /usr/local/bin/backup.sh"} spellcheck={false} autofocus /></label>
      <label class="field"><span>Time zone of the table</span><input value={zone} onInput={(event) => setZone(event.currentTarget.value.trim())} placeholder="Europe/Berlin" /></label>
      {entries.length > 0 && (
        <ul class="meant" aria-label="What the lines mean">{entries.map((entry) => {
          const found = meaning(entry);
          const fault = entry.refusal || found?.fault;
          return (
            <li key={entry.line}>
              <div><strong>{entry.job ? String(entry.job.name) : `Line ${entry.line}`}</strong><div class="dim mono clip" title={entry.text}>{entry.text}</div></div>
              <div>{fault ? <span class="tone-failed">{fault}</span> : (found?.preview?.description ?? (entry.job ? "…" : ""))}{[...entry.notes, ...(fault ? [] : (found?.preview?.warnings ?? []))].map((note) => <div class="dim" key={note}>{note}</div>)}</div>
              <div class="meant-next">{!fault && found?.preview?.next.map((each) => <div key={each.at}><Time at={each.at} zone={entry.zone} mode="absolute" seconds={false} /></div>)}</div>
            </li>
          );
        })}</ul>
      )}
      {entries.length === MOST && <p class="dim">The first {MOST} lines; the command line takes all of them.</p>}
      {able.length > 0 && <p class="warning">cron goes on running these lines until you take them out of the crontab; the next step shows which.</p>}
      {problem && <ProblemBox problem={problem} />}
      <div class="row">{able.length > 0 && <><Terminal writes={[write]} /><Copy text={command(text, zone)} label="Copy as CLI" /></>}<span class="grow" /><Act operation="createJobs" kind="primary" onClick={() => void make()} disabled={isBusy ? "On its way." : isAsking ? "The server is still reading the lines." : able.length ? "" : "There is no line that can become a job."}>{isBusy ? "Working…" : `Make ${plural(able.length, "job")}`}</Act></div>
    </section>
  );
}

const where = () => ["--url", location.origin, ...(tenant.value ? ["--tenant", quote(tenant.value)] : [])].join(" ");

/** The table that stands here, given to the command that reads one. */
function command(text: string, zone: string): string {
  let mark = "CRONTAB";
  while (text.split("\n").includes(mark)) mark += "_";
  return [`horae import crontab - --tz ${quote(zone)} ${where()} <<'${mark}'`, text.replace(/\n+$/, ""), mark].join("\n");
}

function Done({ outcome: { taken: made, left }, again }: { outcome: Outcome; again: () => void }) {
  const [undo, setUndo] = useState<BulkWork | null>(null);
  const [gone, setGone] = useState(new Set<string>());
  const taken = made.filter((each) => !gone.has(each.id));
  const lines = taken.map(({ entry }) => `# ${entry.text}`).join("\n");
  const nameOf = ({ entry }: Taken) => String(entry.job!.name);
  const ask = () => setUndo({
    title: "Delete", noun: "job", isDanger: true, freeUpTo: 10, effect: "The import is undone: no later runs; waiting ones are cancelled. The history stays. cron runs the lines that you have not taken out.",
    items: taken.map((each) => ({ key: each.id, label: nameOf(each), write: { method: "DELETE", path: `/jobs/${enc(each.id)}` }, also: async () => setGone((all) => new Set([...all, each.id])) })),
  });
  return (
    <>
      {made.length > 0 && (
        <section class="panel stack" aria-label="What is left to do">
          {taken.length === 0 ? <h2>The import was undone. cron runs the lines as before.</h2> : (
            <>
              <h2>{plural(taken.length, "job")} made. cron still runs the same {taken.length === 1 ? "line" : "lines"}: both will, until you comment {taken.length === 1 ? "it" : "them"} out</h2>
              <p>Open the table with <code>crontab -e</code> and put these in place of the lines as they are:</p>
              <div class="json"><Copy text={lines} label="Copy the lines" /><pre tabIndex={0} aria-label="Lines to comment out">{lines}</pre></div>
              <p class="row"><a class="button primary" href="/jobs?f=label:imported:crontab">See the jobs</a></p>
              <h3>To undo it</h3>
              <p class="row"><Act operation="deleteJob" onClick={ask}>Delete the {plural(taken.length, "job")} made</Act></p>
              <Command text={`horae job delete --yes ${taken.map(nameOf).join(" ")} ${where()}`} />
            </>
          )}
        </section>
      )}
      {left.length > 0 && (
        <section class="panel stack" aria-label="Not imported">
          <h2>{plural(left.length, "line")} not imported: leave {left.length === 1 ? "it" : "them"} with cron</h2>
          <ul class="meant">{left.map(({ entry, why }) => <li key={entry.line}><div class="mono clip" title={entry.text}>{entry.text}</div><div class="tone-failed">{why}</div></li>)}</ul>
        </section>
      )}
      <p class="row"><button type="button" onClick={again}>{left.length ? "Change these lines and import again" : "Import another table"}</button></p>
      {undo && <BulkDialog work={undo} onClose={() => setUndo(null)} />}
    </>
  );
}
