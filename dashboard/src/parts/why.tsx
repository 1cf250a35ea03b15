// Why a job did, did not, will or will not run at an instant: the server's own answer.
import { useState } from "preact/hooks";
import { enc } from "../lib/api";
import { useLoad } from "../lib/load";
import { absolute, ms, zoneOf } from "../lib/time";
import { reasonWords } from "../lib/words";
import type { Explanation } from "../types";
import { Icon } from "./icons";
import { ProblemBox, Skeleton } from "./ui";

const VERDICTS: Record<string, [string, "tick" | "skip" | "clock" | "broken" | "ring" | "stop", string]> = {
  ran: ["It ran", "tick", "good"], running: ["It is running", "ring", "running"], waiting: ["It waits", "clock", "queued"], skipped: ["It was skipped", "skip", "quiet"],
  missed: ["It was missed", "broken", "missed"], will_run: ["It will run", "clock", "running"], will_not_run: ["It will not run", "stop", "retrying"],
};

export function Why({ job, at }: { job: string; at?: string }) {
  const [asked, setAsked] = useState(at ?? "");
  const [typed, setTyped] = useState(asked ? asked.replace(/\.\d+Z$/, "Z") : "");
  const [fault, setFault] = useState("");
  const loaded = useLoad<Explanation>(`/jobs/${enc(job)}/explain${asked ? `?at=${enc(asked)}` : ""}`, { when: (change) => change.runs.length > 0, restMs: 3000 });
  const answer = loaded.data.value;
  const submit = (event: Event) => {
    event.preventDefault();
    const value = typed.trim();
    if (value && Number.isNaN(Date.parse(value))) return setFault(`“${value}” is not a time. Write it like 2026-11-16T09:00:00Z.`);
    setFault("");
    setAsked(value ? new Date(value).toISOString() : "");
  };
  const verdict = answer ? (VERDICTS[answer.verdict] ?? [answer.verdict, "clock", "quiet"]) : null;
  return (
    <div class="stack">
      <form class="row" onSubmit={submit}>
        <label class="field grow"><span>At which time?</span><input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} placeholder="empty: now. Or 2026-11-16T09:00:00Z" /></label>
        <button>Ask</button>
      </form>
      {fault && <p class="tone-failed" role="alert">{fault}</p>}
      {loaded.problem.value && <ProblemBox problem={loaded.problem.value} retry={loaded.reload} />}
      {!answer && !loaded.problem.value && <Skeleton rows={3} />}
      {answer && verdict && (
        <div class="stack" role="status">
          <p class={`sentence tone-${verdict[2]}`}><Icon shape={verdict[1]} /> <strong>{verdict[0]}{asked ? ` at ${absolute(ms(asked), zoneOf())}` : ""}</strong></p>
          <p>{answer.text}</p>
          {typeof answer.reason === "string" && <p class="dim">{reasonWords(answer.reason)} (<code>{answer.reason}</code>)</p>}
          {answer.facts.length > 0 && <ul>{answer.facts.map((fact, i) => <li key={i}>{typeof fact === "string" ? fact : factText(fact)}</li>)}</ul>}
        </div>
      )}
    </div>
  );
}

function factText(fact: unknown): string {
  if (fact && typeof fact === "object") {
    const record = fact as Record<string, unknown>;
    if (typeof record.text === "string") return record.text;
    return Object.entries(record).map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`).join(" · ");
  }
  return String(fact);
}
