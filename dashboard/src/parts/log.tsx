// The log of a run: only the lines in view exist, so that fifty megabytes scroll like one screen.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { enc, headers, open } from "../lib/api";
import { frames } from "../lib/feed";
import { problemOf } from "../lib/load";
import { param, setParams } from "../lib/route";
import { plain } from "../lib/words";
import type { Problem, RunWithAttempts } from "../types";
import { download } from "./export";
import { announce, copyText, ProblemBox } from "./ui";

const LINE = 18;
// A box is no taller than 33.5 million pixels in any browser; a longer log is scrolled to scale.
const TALLEST = 30_000_000;

/** Lines in one growing list; the page is told at most once a frame. */
class Text {
  lines: string[] = [];
  turn = signal(0);
  bytes = 0;
  #rest = "";
  #frame = 0;
  add(text: string): void {
    this.bytes += text.length;
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop() ?? "";
    for (const part of parts) this.lines.push(part);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.turn.value += 1;
    });
  }
  end(): void {
    if (this.#rest) this.add("\n");
  }
}

/** What the worker wrote where it cut the output of an attempt, and at its end: how much more there was. */
function cutOf(lines: string[]): string {
  const at = lines.findLastIndex((line) => /^\[(output truncated|horae: output above \d+ characters is not kept)\]$/.test(line));
  if (at < 0) return "";
  const more = /^\[(\d+) more (bytes|characters) were not kept\]$/.exec(lines[at + 1] ?? "");
  const size = (n: number) => (n >= 1_048_576 ? `${(n / 1_048_576).toFixed(1)} MiB` : n >= 1024 ? `${(n / 1024).toFixed(0)} KiB` : `${n} bytes`);
  return `This log is cut: of each attempt the first MiB is kept${more ? `, and ${size(Number(more[1]))} more were not` : "; what came after it was not"}.`;
}

/** The line that the address names; 0 where it names none. */
const lineNamed = (): number => Number(/^#L(\d+)/.exec(location.hash)?.[1] ?? 0);

export function Log({ run, isOver }: { run: RunWithAttempts; isOver: boolean }) {
  const attempt = param("attempt");
  const text = useMemo(() => new Text(), [run.run_id, attempt]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [phase, setPhase] = useState<"reading" | "following" | "over">("reading");
  const [isFollowing, setFollowing] = useState(!lineNamed());
  const [isWrapped, setWrapped] = useState(false);
  const [isFull, setFull] = useState(false);
  const [word, setWord] = useState("");
  const [hit, setHit] = useState(0);
  const [tries, setTries] = useState(0);
  const [place, setPlace] = useState({ top: 0, height: 440 });
  // The place in the whole log that belongs to a place of the bar, which is too coarse to tell it.
  const exact = useRef({ bar: 0, top: 0 });
  const box = useRef<HTMLDivElement>(null);
  const path = `/runs/${enc(run.run_id)}/logs`;

  useEffect(() => {
    const abort = new AbortController();
    setProblem(null);
    setPhase("reading");
    // What a run said last tells how it ended.
    setFollowing(!lineNamed());
    const only = attempt ? `attempt=${enc(attempt)}` : "";
    async function read(): Promise<void> {
      if (isOver) {
        const answer = await open(`${path}${only ? `?${only}` : ""}`, { signal: abort.signal });
        const reader = answer.body!.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
        for (let part = await reader.read(); !part.done; part = await reader.read()) text.add(part.value);
      } else {
        setPhase("following");
        let last = "";
        for (let isEnded = false; !isEnded && !abort.signal.aborted; ) {
          const answer = await open(`${path}?follow=true${only ? `&${only}` : ""}`, { signal: abort.signal, headers: last ? headers({ "Last-Event-ID": last }) : {} });
          for await (const frame of frames(answer.body!)) {
            if (frame.id) last = frame.id;
            if (frame.event === "log") text.add((JSON.parse(frame.data) as { text: string }).text);
            if (frame.event === "end") isEnded = true;
          }
          if (!isEnded) await new Promise((resolve) => setTimeout(resolve, 2000));
        }
      }
      text.end();
      setPhase("over");
    }
    read().catch((error) => !abort.signal.aborted && setProblem(problemOf(error)));
    return () => abort.abort();
    // A run that ends while it is followed tells so itself.
  }, [text, tries]);

  const turn = text.turn.value;
  const lines = text.lines;
  const whole = lines.length * LINE;
  const tall = Math.min(whole, TALLEST);
  const isScaled = whole > tall;
  const scale = isScaled ? (whole - place.height) / (tall - place.height) : 1;
  const goTo = (top: number) => {
    const element = box.current!;
    const wanted = Math.max(0, Math.min(top, whole - element.clientHeight));
    element.scrollTop = wanted / scale;
    exact.current = { bar: element.scrollTop, top: wanted };
    setPlace({ top: wanted, height: element.clientHeight });
  };
  useEffect(() => {
    const element = box.current;
    if (element && isFollowing) element.scrollTop = element.scrollHeight;
  }, [turn, isFollowing]);
  useEffect(() => {
    const line = lineNamed();
    if (line && box.current && lines.length >= line) {
      setFollowing(false);
      goTo((line - 4) * LINE);
    }
  }, [phase]);

  const hits = useMemo(() => {
    if (!word) return [];
    const low = word.toLowerCase();
    const found: number[] = [];
    for (let i = 0; i < lines.length && found.length < 10_000; i += 1) if (lines[i].toLowerCase().includes(low)) found.push(i);
    return found;
  }, [word, turn]);
  const step = (by: number) => {
    if (!hits.length) return;
    const next = (hit + by + hits.length) % hits.length;
    setHit(next);
    setFollowing(false);
    if (box.current) goTo((hits[next] - 5) * LINE);
    announce(`Match ${next + 1} of ${hits.length}`);
  };
  const scrolled = () => {
    const element = box.current!;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < LINE * 2;
    if (isAtEnd !== isFollowing && phase !== "over") setFollowing(isAtEnd);
    const { bar, top } = exact.current;
    setPlace({ top: isScaled && element.scrollTop === bar ? top : element.scrollTop * scale, height: element.clientHeight });
  };
  /** To scale, one turn of the wheel would leave out screens of lines: small steps are made by the line. */
  const stepped = (by: number, event: Event) => {
    if (!isScaled || isWrapped || !by) return;
    event.preventDefault();
    setFollowing(false);
    goTo(place.top + by);
  };
  const keyed = (event: KeyboardEvent) => stepped({ ArrowDown: LINE, ArrowUp: -LINE, PageDown: place.height - LINE, PageUp: LINE - place.height }[event.key] ?? 0, event);
  const from = isWrapped ? Math.max(0, lines.length - 2000) : Math.max(0, Math.floor(place.top / LINE) - 20);
  const to = isWrapped ? lines.length : Math.min(lines.length, Math.ceil((place.top + place.height) / LINE) + 20);
  const shift = isScaled ? (exact.current.top === place.top ? exact.current.bar : place.top / scale) : 0;
  const here = lineNamed();
  const cut = useMemo(() => cutOf(lines), [turn, phase]);
  const attempts = run.attempts.map((each) => each.attempt_number);
  return (
    <section class={`panel ${isFull ? "full" : ""}`} aria-label="Log">
      <div class="log-tools">
        {attempts.length > 1 && <select aria-label="Attempt" value={attempt} onChange={(event) => setParams({ attempt: event.currentTarget.value || null })}><option value="">All attempts</option>{attempts.map((n) => <option key={n} value={n}>Attempt {n}</option>)}</select>}
        <input type="search" aria-label="Find in the log" placeholder="Find" value={word} onInput={(event) => { setWord(event.currentTarget.value); setHit(0); }} onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)} />
        {word && <span class="dim" role="status">{hits.length ? `${hit + 1} of ${hits.length}` : "not found"}</span>}
        {word && <><button type="button" onClick={() => step(-1)} aria-label="Previous match">↑</button><button type="button" onClick={() => step(1)} aria-label="Next match">↓</button></>}
        <span class="grow" />
        <label><input type="checkbox" checked={isWrapped} onChange={() => setWrapped(!isWrapped)} />wrap</label>
        {!isOver && <label><input type="checkbox" checked={isFollowing} onChange={() => setFollowing(!isFollowing)} />follow</label>}
        <button type="button" class="visually-hidden" tabIndex={-1} aria-hidden="true" data-key="w" onClick={() => setWrapped(!isWrapped)} />
        <button type="button" class="visually-hidden" tabIndex={-1} aria-hidden="true" data-key="f" onClick={() => setFollowing(!isFollowing)} />
        <button type="button" onClick={() => void copyText(lines.join("\n")).then(() => announce("Copied"))}>Copy</button>
        <button type="button" onClick={() => download(lines.join("\n"), `${run.run_id}.log`, "text/plain")}>Download</button>
        <button type="button" data-key="F" aria-pressed={isFull} onClick={() => setFull(!isFull)}>{isFull ? "Smaller" : "Full screen"}</button>
      </div>
      {problem && <ProblemBox problem={problem} retry={() => setTries(tries + 1)} />}
      {cut && <p class="warning" role="status">{cut} “Find” looks through all that is kept.</p>}
      {lines.length === 0 && phase === "over" ? <p class="dim">No output{run.status === "SKIPPED" ? ": it did not start" : ". This run wrote nothing, or its log is no longer kept"}.</p> : (
        <div class={`log ${isWrapped ? "wrapped" : ""} ${phase === "over" && lines.length < 22 ? "short" : ""}`} ref={box} onScroll={scrolled} onWheel={(event) => stepped(event.deltaY * (event.deltaMode ? LINE : 1), event)} onKeyDown={keyed} role="log" aria-live="off" aria-label="Output" tabIndex={0}>
          {lines.length === 0 && !problem && <p class="dim">{phase === "following" ? "No output yet." : "Reading…"}</p>}
          {isWrapped && from > 0 && <p class="dim">The last 2,000 lines; switch wrapping off for all of them.</p>}
          <div class="log-inner" style={isWrapped ? {} : { height: `${tall}px` }}>
            {lines.slice(from, to).map((line, i) => {
              const n = from + i;
              return <div key={n} class={`line ${word && line.toLowerCase().includes(word.toLowerCase()) ? "hit" : ""} ${here === n + 1 ? "here" : ""}`} style={isWrapped ? {} : { top: `${n * LINE - (isScaled ? place.top - shift : 0)}px` }}><a class="no" href={`#L${n + 1}`} tabIndex={-1} aria-hidden="true">{n + 1}</a><span>{plain(line).slice(0, isWrapped ? undefined : 4000)}</span></div>;
            })}
          </div>
        </div>
      )}
      <p class="dim">{lines.length.toLocaleString("en")} lines{phase === "following" ? ", following" : phase === "reading" ? ", reading…" : ""}</p>
    </section>
  );
}

