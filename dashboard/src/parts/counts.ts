// How many each quick filter would show, up to a hundred: asked one after the other when the list itself is there.
import { useEffect, useState } from "preact/hooks";
import { get, key, tenant } from "../lib/api";

const MOST = 100;
const KEPT_MS = 60_000;
const known = new Map<string, { at: number; words: string }>();

/** `paths` by name. A count that is not there yet is not shown. */
export function useCounts(paths: Record<string, string>, isWanted: boolean): Record<string, string> {
  const [, again] = useState(0);
  const wanted = Object.values(paths).join(" ");
  const keyOf = (path: string) => `${key.value} ${tenant.value} ${path}`;
  useEffect(() => {
    if (!isWanted) return;
    const abort = new AbortController();
    async function count(): Promise<void> {
      for (const path of new Set(Object.values(paths))) {
        if (Date.now() - (known.get(keyOf(path))?.at ?? 0) < KEPT_MS) continue;
        const page = await get<Record<string, unknown>>(`${path}${path.includes("?") ? "&" : "?"}limit=${MOST}`, abort.signal).catch(() => null);
        if (abort.signal.aborted) return;
        const rows = page && Object.values(page).find(Array.isArray);
        if (!rows) continue;
        known.set(keyOf(path), { at: Date.now(), words: `${rows.length}${page.next_cursor ? "+" : ""}` });
        again((n) => n + 1);
      }
    }
    const timer = setTimeout(() => void count(), 300);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted, isWanted, key.value, tenant.value]);
  return Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, known.get(keyOf(path))?.words ?? ""]));
}
