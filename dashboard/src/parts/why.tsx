// Why a job did, did not, will or will not run at an instant: the server's own answer.
import { useState } from "preact/hooks";
import { enc } from "../lib/api";
import { writeJson } from "../lib/json";
import { useLoad } from "../lib/load";
import { absolute, instant, ms, stamp, zoneName, zoneOf } from "../lib/time";
import { plural, reasonWords, runState } from "../lib/words";
import type { Explanation, JobAnswer } from "../types";
import { Icon } from "./icons";
import { ProblemBox, Skeleton } from "./ui";

const VERDICTS: Record<string, [string, "tick" | "skip" | "clock" | "broken" | "ring" | "stop", string]> = {
  ran: ["It ran", "tick", "good"], running: ["It is running", "ring", "running"], waiting: ["It waits", "clock", "queued"], skipped: ["It was skipped", "skip", "quiet"],
  missed: ["It was missed", "broken", "missed"], will_run: ["It will run", "clock", "running"], will_not_run: ["It will not run", "stop", "retrying"],
};

export function Why({ job, at }: { job: string; at?: string }) {
  const [asked, setAsked] = useState(at ?? "");
  const about = useLoad<JobAnswer>(`/jobs/${enc(job)}`);
  const zone = zoneOf(about.data.value?.timezone);
  const [written, setTyped] = useState<string | null>(null);
  const typed = written ?? (asked ? stamp(ms(asked), zone) : "");
  const [fault, setFault] = useState("");
  const loaded = useLoad<Explanation>(`/jobs/${enc(job)}/explain${asked ? `?at=${enc(asked)}` : ""}`, { when: (change) => change.runs.length > 0, restMs: 3000 });
  const answer = loaded.data.value;
  const submit = (event: Event) => {
    event.preventDefault();
    // As it was given, to the microsecond, unless something else was written.
    if (written === null) return loaded.reload();
    const value = typed.trim();
    const found = instant(value, zone);
    if (value && Number.isNaN(found)) return setFault(`“${value}” is not a time. Write it like ${stamp(Date.now(), zone).slice(0, 16)}.`);
    setFault("");
    setAsked(value ? new Date(found).toISOString() : "");
  };
  const verdict = answer ? (VERDICTS[answer.verdict] ?? [answer.verdict, "clock", "quiet"]) : null;
  return (
    <div class="stack">
      <form class="row" onSubmit={submit}>
        <label class="field grow"><span>At which time? <span class="dim">{zone}, {zoneName(asked ? ms(asked) : Date.now(), zone)}</span></span><input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} placeholder={`empty: now. Or ${stamp(Date.now(), zone).slice(0, 16)}`} /></label>
        <button>Ask</button>
      </form>
      {fault && <p class="tone-failed" role="alert">{fault}</p>}
      {loaded.problem.value && <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />}
      {!answer && !loaded.problem.value && <Skeleton rows={3} />}
      {answer && verdict && (
        <div class="stack" role="status">
          <p class={`sentence tone-${verdict[2]}`}><Icon shape={verdict[1]} /> <strong>{verdict[0]}{asked ? ` at ${absolute(ms(asked), zone)}` : ""}</strong></p>
          <p>{inZone(answer.text, zone)}</p>
          {typeof answer.reason === "string" && <p class="dim">{reasonWords(answer.reason)} (<code>{answer.reason}</code>)</p>}
          {answer.facts.length > 0 && <ul>{answer.facts.map((fact, i) => <li key={i}>{inZone(factText(fact), zone)}</li>)}</ul>}
        </div>
      )}
    </div>
  );
}

/** The server writes instants in UTC; here they stand in the zone of the switch. */
function inZone(text: string, zone: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (at) => absolute(ms(at), zone));
}

type Fact = { fact?: string; value?: unknown } & Record<string, unknown>;
const text = (value: unknown): string => (typeof value === "object" ? writeJson(value) : String(value));
const FACTS: Record<string, (fact: Fact) => string> = {
  version_in_force: (fact) => `The job was at version ${text(fact.value)}, since ${text(fact.since)}.`,
  next_undecided: (fact) => (fact.value === null ? "No due time is left to decide." : `The next due time that is not decided yet is ${text(fact.value)}.`),
  schedulers_alive: (fact) => `${plural(Number(fact.value), "scheduler")} alive.`,
  workers_alive: (fact) => `${plural(Number(fact.value), "worker")} alive.`,
  workers_able: (fact) => `${plural(Number(fact.value), "worker")} able to run it.`,
  paused: (fact) => `Paused from ${text(fact.from)}${fact.until ? ` until ${text(fact.until)}` : ""}.`,
  run: (fact) => `Run ${text(fact.value)}: ${runState(text(fact.status)).word.toLowerCase()}, attempt ${text(fact.attempt)}.`,
};

function factText(fact: unknown): string {
  if (!fact || typeof fact !== "object") return String(fact);
  const record = fact as Fact;
  const known = FACTS[record.fact ?? ""];
  if (known) return known(record);
  return Object.entries(record).map(([name, value]) => (name === "fact" ? text(value).replaceAll("_", " ") : `${name.replaceAll("_", " ")}: ${text(value)}`)).join(" · ");
}
