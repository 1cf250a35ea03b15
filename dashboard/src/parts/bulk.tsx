// One thing done to many jobs: what it will touch, then how far it is, with a way to stop.
import { useRef, useState } from "preact/hooks";
import { enc, send, type Write } from "../lib/api";
import { problemOf } from "../lib/load";
import { plural } from "../lib/words";
import { Dialog } from "./ui";
import { Terminal } from "./write";

export type BulkVerb = "pause" | "resume" | "run" | "delete";
const WORDS: Record<BulkVerb, [string, string]> = {
  pause: ["Pause", "No due time starts a run until they are resumed."], resume: ["Resume", "Their next due times start runs again."],
  run: ["Run now", "One run of each starts as soon as a worker is free. Schedules do not change."], delete: ["Delete", "No later runs; waiting ones are cancelled. The history stays."],
};
const AT_ONCE = 4;

const writeOf = (verb: BulkVerb, name: string): Write => verb === "delete" ? { method: "DELETE", path: `/jobs/${enc(name)}` } : { method: "POST", path: `/jobs/${enc(name)}/${verb}`, body: {} };

export function BulkDialog({ verb, names, selected, onClose }: { verb: BulkVerb; names: string[]; selected: number; onClose: (isDone: boolean) => void }) {
  const [done, setDone] = useState(0);
  const [errors, setErrors] = useState<string[]>([]);
  const [phase, setPhase] = useState<"ask" | "working" | "over">("ask");
  const [typed, setTyped] = useState("");
  const stop = useRef(false);
  const [title, effect] = WORDS[verb];
  const isReady = verb !== "delete" || typed.trim() === String(names.length);

  async function work(): Promise<void> {
    setPhase("working");
    const waiting = [...names];
    const one = async (): Promise<void> => {
      for (let name = waiting.shift(); name !== undefined && !stop.current; name = waiting.shift()) {
        try {
          await send(writeOf(verb, name));
        } catch (error) {
          const problem = problemOf(error);
          setErrors((all) => [...all, `${name}: ${problem.detail}`]);
        }
        setDone((n) => n + 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    setPhase("over");
  }

  const writes = names.slice(0, 1000).map((name) => writeOf(verb, name));
  return (
    <Dialog title={`${title}: ${plural(names.length, "job")}`} onClose={() => { stop.current = true; onClose(phase !== "ask"); }}>
      <p>{effect}</p>
      {selected > names.length && <p class="dim">{plural(selected - names.length, "other")} of the {selected} selected cannot be {verb === "pause" ? "paused: not active" : "resumed: not paused"}.</p>}
      <ul class="picks" tabIndex={0} aria-label="Jobs that will be touched">{names.slice(0, 50).map((name) => <li key={name}>{name}</li>)}{names.length > 50 && <li class="dim">and {names.length - 50} more</li>}</ul>
      {verb === "delete" && phase === "ask" && <label class="field"><span>To go on, type the number of jobs: <strong>{names.length}</strong></span><input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" /></label>}
      {phase !== "ask" && <p role="status"><progress value={done} max={names.length} aria-label="Progress" /> {done} of {names.length}{errors.length ? `, ${errors.length} refused` : ""}{phase === "over" ? ". Done." : ""}</p>}
      {errors.length > 0 && <ul class="picks" tabIndex={0} aria-label="Refused">{errors.slice(0, 50).map((text) => <li key={text}>{text}</li>)}</ul>}
      <div class="row dialog-foot">
        <Terminal writes={writes} /><span class="grow" />
        {phase === "working" ? <button type="button" onClick={() => (stop.current = true)}>Stop</button> : <button type="button" onClick={() => onClose(phase === "over")}>Close</button>}
        {phase === "ask" && <button type="button" class={verb === "delete" ? "danger" : "primary"} disabled={!isReady || !names.length} onClick={() => void work()}>{title} {names.length}</button>}
      </div>
    </Dialog>
  );
}
