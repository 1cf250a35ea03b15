// One thing done to many: what it will touch, then how far it is, with a way to stop.
import { useRef, useState } from "preact/hooks";
import { send, type Write } from "../lib/api";
import { problemOf } from "../lib/load";
import { plural } from "../lib/words";
import { Dialog } from "./ui";
import { Terminal } from "./write";

/** `also`: what goes along once the write is done. */
export type BulkItem = { key: string; label: string; write: Write; also?: () => Promise<unknown> };
export type BulkWork = {
  title: string;
  /** What they are, in the singular. */
  noun: string;
  effect: string;
  items: BulkItem[];
  /** Of those that were selected and are left out: how many, and why. */
  left?: string;
  isDanger?: boolean;
  /** Up to so many, what is dangerous needs no number typed: the names can be read at a glance. */
  freeUpTo?: number;
};
const AT_ONCE = 4;

/** The set is fixed when the dialog opens: rows that change while it works do not change what it works on. */
export function BulkDialog({ work: given, onClose }: { work: BulkWork; onClose: (isDone: boolean) => void }) {
  const [work] = useState(given);
  const { title, noun, items } = work;
  const [done, setDone] = useState(0);
  const [errors, setErrors] = useState<string[]>([]);
  const [phase, setPhase] = useState<"ask" | "working" | "over">("ask");
  const [typed, setTyped] = useState("");
  const stop = useRef(false);
  const mustType = !!work.isDanger && items.length > (work.freeUpTo ?? 0);
  const isReady = !mustType || typed.trim() === String(items.length);

  async function start(): Promise<void> {
    setPhase("working");
    const waiting = [...items];
    const one = async (): Promise<void> => {
      for (let item = waiting.shift(); item && !stop.current; item = waiting.shift()) {
        try {
          await send(item.write);
          await item.also?.();
        } catch (error) {
          const line = `${item.label}: ${problemOf(error).detail}`;
          setErrors((all) => [...all, line]);
        }
        setDone((n) => n + 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    setPhase("over");
  }

  const left = items.length - done;
  const end = phase !== "over" ? "" : left ? `. Stopped: ${left} left as ${left === 1 ? "it was" : "they were"}.` : ". Done.";
  return (
    <Dialog title={`${title}: ${plural(items.length, noun)}`} onClose={() => { stop.current = true; onClose(phase !== "ask"); }}>
      <p>{work.effect}</p>
      {work.left && <p class="dim">{work.left}</p>}
      <ul class="picks" tabIndex={0} aria-label={`${noun[0].toUpperCase()}${noun.slice(1)}s that will be touched`}>{items.slice(0, 50).map((item) => <li key={item.key}>{item.label}</li>)}{items.length > 50 && <li class="dim">and {items.length - 50} more</li>}</ul>
      {mustType && phase === "ask" && <label class="field"><span>To go on, type the number of {noun}s: <strong>{items.length}</strong></span><input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" /></label>}
      {phase !== "ask" && <p role="status"><progress value={done} max={items.length} aria-label="Progress" /> {done} of {items.length}{errors.length ? `, ${errors.length} refused` : ""}{end}</p>}
      {errors.length > 0 && <ul class="picks" tabIndex={0} aria-label="Refused">{errors.slice(0, 50).map((text) => <li key={text}>{text}</li>)}</ul>}
      <div class="row dialog-foot">
        <Terminal writes={items.slice(0, 1000).map((item) => item.write)} /><span class="grow" />
        {phase === "working" ? <button type="button" onClick={() => (stop.current = true)}>Stop</button> : <button type="button" onClick={() => onClose(phase === "over")}>Close</button>}
        {phase === "ask" && <button type="button" class={work.isDanger ? "danger" : "primary"} disabled={!isReady || !items.length} onClick={() => void start()}>{title} {items.length}</button>}
      </div>
    </Dialog>
  );
}
