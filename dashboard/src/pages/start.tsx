// The overview of a server without jobs: three doors, each also as a command.
import { useEffect, useMemo, useState } from "preact/hooks";
import { send, type Write } from "../lib/api";
import { type Entry, readCrontab } from "../lib/crontab";
import { problemOf } from "../lib/load";
import { go } from "../lib/route";
import { plural } from "../lib/words";
import type { PreviewAnswer, Problem } from "../types";
import { loadDemo } from "../parts/demo";
import { Act, Command, Dialog, Empty, ProblemBox, tell, Time } from "../parts/ui";
import { Terminal } from "../parts/write";

export function Start() {
  const [isImporting, setImporting] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const demo = () => {
    setBusy(true);
    setProblem(null);
    loadDemo().then(() => tell("Demo jobs were made. One click on this page removes them."), (error) => setProblem(problemOf(error))).finally(() => setBusy(false));
  };
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <Empty title="No jobs yet. Three ways to begin:">
        <div class="doors">
          <div class="door"><h2>Bring your crontab</h2><p>Paste it, see what each line means and when it runs next, then take it over.</p><Act operation="createJobs" kind="primary" onClick={() => setImporting(true)}>Import a crontab</Act><Command text={`crontab -l | horae import crontab - --url ${location.origin}`} /></div>
          <div class="door"><h2>Make a job</h2><p>Type when, and see in words and dates what it means.</p><a class="button primary" href="/jobs/new">New job</a><Command text={`horae job create hello --schedule '* * * * *' --command date --url ${location.origin}`} /></div>
          <div class="door"><h2>Look around first</h2><p>A few made-up jobs, labelled demo, that do nothing and go away with one click.</p><Act operation="createJobs" kind="primary" onClick={demo} disabled={isBusy ? "On its way." : ""}>{isBusy ? "Loading…" : "Load demo data"}</Act>{problem && <ProblemBox problem={problem} />}<p class="dim">Thousands of them, with a past: stop horae, run this, start it again.</p><Command text="horae demo load" /></div>
        </div>
      </Empty>
      {isImporting && <Import onClose={() => setImporting(false)} />}
    </>
  );
}

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

type Made = { created: number; failed: number; results: { index: number; job_id?: string; error?: Problem }[] };

function Import({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [zone, setZone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [faults, setFaults] = useState(new Map<number, string>());
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
      const made = await send<Made>(write);
      setFaults(new Map(made.results.filter((each) => each.error).map((each) => [able[each.index].line, each.error!.errors?.[0]?.detail ?? each.error!.detail])));
      tell(`${plural(made.created, "job")} made${made.failed ? `, ${made.failed} not` : ""}.`, undefined, made.failed ? "bad" : "good");
      if (!made.failed) {
        onClose();
        go("/jobs?f=label:imported:crontab");
      }
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog title="Import a crontab" wide onClose={onClose}>
      <div class="stack">
        <label class="field"><span>Paste what <code>crontab -l</code> prints</span><textarea rows={7} value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder={"# nightly backup\n15 2 * * * /usr/local/bin/backup.sh"} spellcheck={false} autofocus /></label>
        <label class="field"><span>Time zone of the table</span><input value={zone} onInput={(event) => setZone(event.currentTarget.value.trim())} placeholder="Europe/Berlin" /></label>
        {entries.length > 0 && (
          <ul class="meant scroll" tabIndex={0} aria-label="What the lines mean">{entries.map((entry) => {
            const found = meaning(entry);
            const fault = entry.refusal || found?.fault || faults.get(entry.line);
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
        {problem && <ProblemBox problem={problem} />}
        <div class="row dialog-foot">{able.length > 0 && <Terminal writes={[write]} />}<span class="grow" /><button type="button" onClick={onClose}>Close</button><button type="button" class="primary" disabled={!able.length || isAsking || isBusy} onClick={() => void make()}>{isBusy ? "Working…" : `Make ${plural(able.length, "job")}`}</button></div>
      </div>
    </Dialog>
  );
}
