// How many each quick filter would show, up to a hundred: asked one after the other when the list itself is there, and again as things change.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, key, tenant } from "../lib/api";
import { onChange } from "../lib/live";

const MOST = 100;
const FIRST_MS = 300;
const JOBS_REST_MS = 3000;
const RUNS_REST_MS = 15_000;
export type Tally = { n: number; isMore: boolean };

/** `paths` by name; `turn` is another number when the list was read again. A count that is not there yet is undefined. */
export function useCounts(paths: Record<string, string>, isWanted: boolean, turn = 0): Record<string, Tally | undefined> {
  const [known, setKnown] = useState<Record<string, Tally>>({});
  const wanted = Object.values(paths).join(" ");
  const again = useRef((_restMs: number) => {});
  useEffect(() => setKnown({}), [key.value, tenant.value]);
  useEffect(() => {
    if (!isWanted) return;
    const abort = new AbortController();
    let [timer, dueAt, lastAt] = [0, Infinity, 0];
    async function count(): Promise<void> {
      dueAt = Infinity;
      lastAt = Infinity;
      for (const path of new Set(Object.values(paths))) {
        const page = await get<Record<string, unknown>>(`${path}${path.includes("?") ? "&" : "?"}limit=${MOST}`, abort.signal).catch(() => null);
        if (abort.signal.aborted) return;
        const rows = page && Object.values(page).find(Array.isArray);
        if (rows) setKnown((all) => ({ ...all, [path]: { n: rows.length, isMore: !!page.next_cursor } }));
      }
      lastAt = Date.now();
    }
    const soon = (restMs: number) => {
      // While they are being counted, what changes is counted after it.
      const at = Math.max(Date.now() + FIRST_MS, (lastAt === Infinity ? Date.now() : lastAt) + restMs);
      if (at >= dueAt) return;
      dueAt = at;
      clearTimeout(timer);
      timer = window.setTimeout(() => (lastAt === Infinity ? ((dueAt = Infinity), soon(JOBS_REST_MS)) : void count()), at - Date.now());
    };
    again.current = soon;
    soon(0);
    const off = onChange((change) => {
      if (change.jobs.length || change.isGap) soon(JOBS_REST_MS);
      else soon(RUNS_REST_MS);
    });
    return () => {
      again.current = () => {};
      off();
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted, isWanted, key.value, tenant.value]);
  useEffect(() => again.current(JOBS_REST_MS), [turn]);
  return Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, known[path]]));
}

/** Never fewer than stand in the list below it; of a search that stopped without a row, nothing can be said. */
export function countWords(tally: Tally | undefined, shown = 0): string {
  if (!tally || (tally.isMore && !tally.n && !shown)) return "";
  return `${Math.max(tally.n, shown).toLocaleString("en")}${tally.isMore ? "+" : ""}`;
}
