// Small things that every page is made of.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { whyNot } from "../lib/api";
import { writeJson } from "../lib/json";
import type { Loaded } from "../lib/load";
import { freshAt, state as liveState } from "../lib/live";
import { setParams } from "../lib/route";
import { absolute, clock, ms, now, relative, zoneMode, zoneOf } from "../lib/time";
import { jobState, reasonWords, runState } from "../lib/words";
import type { Problem } from "../types";
import { Icon } from "./icons";

export function Badge({ status, reason, extra, kind = "run" }: { status: string; reason?: string | null; extra?: string; kind?: "run" | "job" }) {
  const state = kind === "run" ? runState(status, reason) : jobState(status);
  return (
    <span class={`badge tone-${state.tone}`}>
      <Icon shape={state.shape} />
      <span>{state.word}{extra ? ` ${extra}` : ""}</span>
    </span>
  );
}

/** Relative or absolute; the other one on hover and focus. */
export function Time({ at, zone, mode = "relative", seconds = true }: { at: string | number | null | undefined; zone?: string | null; mode?: "relative" | "absolute" | "both" | "clock"; seconds?: boolean }) {
  const value = typeof at === "number" ? at : ms(at);
  if (!at || Number.isNaN(value)) return <span class="dim">–</span>;
  void zoneMode.value;
  const full = absolute(value, zoneOf(zone), seconds);
  const near = relative(value, now.value);
  const text = mode === "relative" ? near : mode === "clock" ? clock(value, zoneOf(zone), seconds) : full;
  return (
    <time dateTime={new Date(value).toISOString()} title={mode === "relative" ? full : near}>
      {text}{mode === "both" && <span class="dim"> ({near})</span>}
    </time>
  );
}

export function ProblemBox({ problem, retry }: { problem: Problem; retry?: () => void }) {
  // What the server says to programs about headers is of no use to a person.
  if (problem.status === 412) return <div class="problem" role="alert"><strong><Icon shape="cross" /> Somebody else saved this meanwhile</strong><p>Yours is not saved, and nothing that you wrote is lost.</p></div>;
  const isDenied = problem.status === 403;
  return (
    <div class={`problem ${isDenied ? "denied" : ""}`} role="alert">
      <strong><Icon shape={isDenied ? "stop" : "cross"} /> {problem.title}</strong>
      <p>{problem.detail}</p>
      {problem.errors.map((each) => (
        <p key={each.pointer} class="dim">
          {each.detail !== problem.detail && <>{each.detail} </>}{each.hint}
        </p>
      ))}
      <p class="row">
        {retry && <button type="button" onClick={retry}>Try again</button>}
        {problem.request_id && <span class="dim mono">{problem.request_id}</span>}
      </p>
    </div>
  );
}

export function Skeleton({ rows = 4 }: { rows?: number }) {
  return <div class="skeleton" aria-hidden="true">{Array.from({ length: rows }, (_, i) => <div key={i} />)}</div>;
}

/** A panel that fails alone: its own waiting, its own error, its own age. */
export function Panel<T>({ title, from, children, actions, rows, id, wide }: {
  title: ComponentChildren; from?: Loaded<T>; children: (data: T) => ComponentChildren; actions?: ComponentChildren; rows?: number; id?: string; wide?: boolean;
}) {
  const head = useId();
  const data = from?.data.value ?? null;
  const problem = from?.problem.value ?? null;
  return (
    <section class={`panel ${wide ? "wide" : ""}`} aria-labelledby={head} aria-busy={!!from?.isLoading.value && !data} id={id}>
      <header class="panel-head">
        <h2 id={head}>{title}</h2>
        {problem && data !== null && <span class="stale" role="alert" title={problem.detail}>{problem.title}: data from <Time at={from?.readAt.value} mode="clock" /> <button type="button" class="plain small" onClick={from?.reload}>Try again</button></span>}
        <div class="panel-actions">{actions}</div>
      </header>
      {problem && data === null && <ProblemBox problem={problem} retry={from?.reload} />}
      {data !== null ? children(data) : !problem && <Skeleton rows={rows} />}
    </section>
  );
}

/** Beside the name of a quick filter; its place is kept, so that the others do not move when it comes. */
export function Count({ words }: { words: string | null | undefined }) {
  return <span class="count">{words && <><span class="visually-hidden">, </span>{words}</>}</span>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children}</div>;
}

export function StaleBand({ isDown }: { isDown: boolean }) {
  if (liveState.value !== "reconnecting") return null;
  return (
    <div class="band" role="status">
      {isDown ? "The server does not answer: nothing can be changed until it is back." : "Reconnecting."} What you see is from <Time at={freshAt.value} mode="clock" />.
    </div>
  );
}

export const said = signal("");
/** One place from which screen readers are told. */
export function announce(text: string): void {
  said.value = text;
}

const note = signal<{ text: string; link?: { href: string; text: string }; tone: "good" | "bad" } | null>(null);
let noteTimer = 0;
export function tell(text: string, link?: { href: string; text: string }, tone: "good" | "bad" = "good"): void {
  note.value = { text, link, tone };
  announce(text);
  clearTimeout(noteTimer);
  noteTimer = window.setTimeout(() => (note.value = null), 8000);
}

export function Notes() {
  const shown = note.value;
  if (!shown) return null;
  return (
    <div class={`note tone-${shown.tone === "good" ? "good" : "dead"}`}>
      <Icon shape={shown.tone === "good" ? "tick" : "cross"} /> <span>{shown.text}</span>
      {shown.link && <a href={shown.link.href}>{shown.link.text}</a>}
      <button type="button" class="plain" aria-label="Close this message" onClick={() => (note.value = null)}>×</button>
    </div>
  );
}

/** Works on plain HTTP too, where the clipboard interface does not exist. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = () => void copyText(text).then(() => {
    setDone(true);
    announce("Copied");
    setTimeout(() => setDone(false), 1500);
  });
  return <button type="button" class="plain small" onClick={copy}>{isDone ? "Copied ✓" : label}</button>;
}

export function Command({ text }: { text: string }) {
  return <div class="command"><code>{text}</code><Copy text={text} /></div>;
}

/** A button of a write: dead with a word why when the caller may not. */
export function Act({ operation, onClick, children, kind = "", title, disabled }: {
  operation: string; onClick: () => void; children: ComponentChildren; kind?: string; title?: string; disabled?: string;
}) {
  const why = whyNot(operation) || disabled || "";
  return (
    <button type="button" class={kind} aria-disabled={!!why} title={why || title} onClick={() => (why ? tell(why, undefined, "bad") : onClick())}>
      {children}
    </button>
  );
}

export function Dialog({ title, onClose, children, wide, palette }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean; palette?: boolean }) {
  const box = useRef<HTMLDialogElement>(null);
  const head = useId();
  // Before the next key: an effect waits for the frame, and what is typed until then would be read as keys of the page.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const element = box.current!;
    element.showModal();
    return () => {
      // While it is open nothing behind it takes the focus.
      element.close();
      // What opened it may be gone with the work it did.
      (before?.isConnected && before !== document.body ? before : document.getElementById("main"))?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog ref={box} class={palette ? "palette" : wide ? "wide" : ""} aria-labelledby={head} onCancel={(event) => { event.preventDefault(); onClose(); }} onClick={(event) => event.target === box.current && onClose()}>
      <div class="dialog-body">
        <h2 id={head}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export function Reason({ code }: { code: string | null | undefined }) {
  return code ? <span title={code}>{reasonWords(code)}</span> : null;
}

export function Tabs({ tabs, at, onPick }: { tabs: [string, string][]; at: string; onPick: (name: string) => void }) {
  const move = (event: KeyboardEvent) => {
    const index = tabs.findIndex(([name]) => name === at);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    onPick(tabs[(index + step + tabs.length) % tabs.length][0]);
    ((event.currentTarget as Element).querySelectorAll("button")[(index + step + tabs.length) % tabs.length] as HTMLElement).focus();
  };
  const box = useRef<HTMLDivElement>(null);
  // A name in the address that is none of them is the first one.
  useLayoutEffect(() => { if (!tabs.some(([name]) => name === at)) setParams({ tab: null }, true); }, [at]);
  // On a phone the chosen one may stand beyond the edge.
  useLayoutEffect(() => box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" }), [at]);
  return (
    <div class="tabs" role="tablist" ref={box} onKeyDown={move}>
      {tabs.map(([name, label]) => (
        <button key={name} type="button" role="tab" aria-selected={name === at} tabIndex={name === at ? 0 : -1} onClick={() => onPick(name)}>{label}</button>
      ))}
    </div>
  );
}

export function Json({ value }: { value: unknown }) {
  const text = writeJson(value, 2);
  return <div class="json"><Copy text={text} /><pre tabIndex={0}>{text}</pre></div>;
}
