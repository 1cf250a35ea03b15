// Dead runs by cause: those of the last day at once, the whole set when it has been counted, however large it is.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, query } from "../lib/api";
import { type Change, onChange } from "../lib/live";
import { type Loaded, useLoad } from "../lib/load";
import type { DeadGroups, Problem } from "../types";

const DAY = 86_400_000;
const MANY = 10_000;
export type Group = DeadGroups["groups"][number];
export const groupKey = (group: Group) => `${group.job_id} ${group.error}`;
const ofDay = (group: Group) => group.by_age.hour + group.by_age.day;

export type Found = { groups: Group[] | null; isWhole: boolean; whole: DeadGroups | null; problem: Problem | null; source: unknown; reload: () => void };

/** `asked` null: nothing is read. Those of the last day stand first, then the largest: so the second answer adds below the first. */
export function useDeadGroups(asked: Record<string, string> | null, limit: number): Found {
  const isOneRead = !!asked && ("due_after" in asked || "due_before" in asked);
  const when = (change: Change) => change.runs.some((run) => run.status === "FAILED" || run.status === "QUEUED");
  const text = asked ? query({ ...asked, limit }) : "";
  const readRecent = (_: string, signal: AbortSignal) => get<DeadGroups>(`/dead-letters:groups${query({ ...asked, limit, due_after: new Date(Date.now() - DAY).toISOString() })}`, signal);
  const recent = useLoad<DeadGroups>(asked && !isOneRead ? `recent${text}` : "", { when, restMs: 4000, everyMs: 60_000 }, readRecent);
  const isNext = isOneRead || !!(recent.data.value ?? recent.problem.value);
  const known: { current?: Loaded<DeadGroups> } = useMemo(() => ({}), []);
  const isLarge = (known.current?.data.value?.run_count ?? 0) > MANY;
  const whole = useLoad<DeadGroups>(asked && isNext ? `/dead-letters:groups${text}` : "", { when, restMs: isLarge ? 30_000 : 4000, everyMs: 60_000 });
  known.current = whole;
  const [first, second] = [isOneRead ? null : recent.data.value, whole.data.value];
  const groups = useMemo(() => (second && !first ? second.groups : first && (second || first.groups.length) ? merged(first, second) : null), [first, second]);
  return {
    groups, isWhole: !!(second ?? whole.problem.value), whole: second, problem: whole.problem.value ?? recent.problem.value, source: groups,
    reload: () => { if (!isOneRead) recent.reload(); whole.reload(); },
  };
}

/** The last day as the first answer has it, what is older as the second has it. */
function merged(recent: DeadGroups, whole: DeadGroups | null): Group[] {
  const isComplete = recent.group_count <= recent.groups.length;
  const found = new Map(recent.groups.map((group) => [groupKey(group), group]));
  for (const old of whole?.groups ?? []) {
    const fresh = found.get(groupKey(old));
    const older = old.by_age.week + old.by_age.older;
    if (fresh) found.set(groupKey(old), { ...fresh, runs: fresh.runs + older, first_due: older ? old.first_due : fresh.first_due, by_age: { ...fresh.by_age, week: old.by_age.week, older: old.by_age.older } });
    else if (!isComplete) found.set(groupKey(old), old);
    else if (older) found.set(groupKey(old), { ...old, runs: older, by_age: { ...old.by_age, hour: 0, day: 0 } });
  }
  return [...found.values()].sort((a, b) => ofDay(b) - ofDay(a) || b.runs - a.runs || (a.last_due < b.last_due ? 1 : -1));
}

const ASKED_AT_ONCE = 6;
const KEPT_MS = 60_000;

/** Of each of these jobs its largest cause, and how many there are: asked job by job, since among all groups theirs may be the smallest. `turn`: what they were read with. */
export function useCauses(ids: string[], turn: unknown): Map<string, DeadGroups> {
  const [known, setKnown] = useState(new Map<string, DeadGroups>());
  const readAt = useRef(new Map<string, number>());
  useEffect(() => onChange((change) => {
    if (change.isGap) readAt.current.clear();
    for (const run of change.runs) if (run.status !== "RUNNING") readAt.current.delete(run.job_id);
  }), []);
  useEffect(() => {
    const abort = new AbortController();
    const wanted = ids.filter((id) => Date.now() - (readAt.current.get(id) ?? 0) > KEPT_MS);
    async function read(): Promise<void> {
      for (let id = wanted.shift(); id && !abort.signal.aborted; id = wanted.shift()) {
        const [of, at] = [id, Date.now()];
        const found = await get<DeadGroups>(`/dead-letters:groups${query({ job: of, limit: 1 })}`, abort.signal).catch(() => null);
        if (!found || abort.signal.aborted) continue;
        readAt.current.set(of, at);
        setKnown((all) => new Map(all).set(of, found));
      }
    }
    for (let i = 0; i < ASKED_AT_ONCE; i += 1) void read();
    return () => abort.abort();
  }, [ids.join(" "), turn]);
  return known;
}
