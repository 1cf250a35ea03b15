// One box that goes anywhere: pages, jobs by name, runs by id, and what can be done here.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { enc, get } from "../lib/api";
import { togglePause } from "../lib/live";
import { go } from "../lib/route";
import type { JobList } from "../types";
import { isHelpOpen } from "./keys";
import { PAGES } from "./shell";
import { nextTheme } from "./theme";
import { Dialog } from "./ui";

export const isPaletteOpen = signal(false);
type Entry = { text: string; hint: string; run: () => void };

const ACTIONS: Entry[] = [
  { text: "New job", hint: "n", run: () => go("/jobs/new") },
  { text: "Pause or resume live updates", hint: "Space", run: togglePause },
  { text: "Change the theme", hint: "t", run: nextTheme },
  { text: "Show the keyboard keys", hint: "?", run: () => (isHelpOpen.value = true) },
];

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
      get<JobList>(`/jobs?limit=8&q=${enc(text.trim())}`, abort.signal)
        .then((found) => setAnswer({ text, jobs: found.jobs.map((job) => ({ text: job.name, hint: "job", run: () => go(`/jobs/${enc(job.name)}`) })) }))
        .catch(() => !abort.signal.aborted && setAnswer({ text, jobs: [] }));
    }, 120);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);

  const isRunId = /^[0-9a-f]{8}-[0-9a-f-]{20,}$/.test(word);
  const fixed: Entry[] = [...PAGES.map(([href, name, key]) => ({ text: name, hint: `g ${key}`, run: () => go(href) })), ...ACTIONS];
  const isAnswered = !word || answer.text === text;
  const jobs = !word ? [] : isAnswered ? answer.jobs : answer.jobs.filter((job) => job.text.toLowerCase().includes(word));
  const sure = [
    ...(isRunId ? [{ text: `Run ${word}`, hint: "run", run: () => go(`/runs/${word}`) }] : []),
    ...fixed.filter((entry) => entry.text.toLowerCase().includes(word)),
  ];
  const found = [...sure, ...jobs];
  const pick = (entry: Entry | undefined) => {
    if (!entry) return;
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
      <input role="combobox" aria-label="Find a job, a run, a page or an action" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found.length ? `palette-${at}` : undefined} autofocus placeholder="Job name, run id, page or action" value={text} onInput={(event) => type(event.currentTarget.value)} onKeyDown={press} />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, i) => <li key={entry.hint + entry.text} id={`palette-${i}`} role="option" aria-selected={i === at} onClick={() => pick(entry)} onMouseMove={() => setAt(i)}><span>{entry.text}</span><kbd>{entry.hint}</kbd></li>)}
        {!found.length && <li role="option" aria-selected={false}>{isAnswered ? `Nothing has “${text}” in its name.` : "Looking…"}</li>}
      </ul>
    </Dialog>
  );
}
