// A real table of any length: only the rows in view exist, pages come by cursor, and nothing moves by itself.
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get, key as apiKey, tenant } from "../lib/api";
import { problemOf } from "../lib/load";
import type { Problem } from "../types";
import { Empty, ProblemBox, Time } from "./ui";

/** So much of the window is under the bar and the head of the table. */
const HEAD = 90;
const narrow = matchMedia("(max-width: 720px)");
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

export type Column<T> = {
  name: string; title: string; cell: (row: T) => ComponentChildren; sort?: string; width?: string; hideNarrow?: boolean; align?: "right";
};

/** Where a list was left: which row stood how far from the top, and how many had been read. */
type Place = { key: string; offset: number; count: number };
const places = new Map<string, Place>();
const here = () => location.pathname + location.search;
const MOST_AT_ONCE = 1000;

// The list that is gone back to may begin some time later, when what stands above it has been read.
const BACK_MS = 60_000;
let back = { to: "", at: 0 };
addEventListener("popstate", () => (back = { to: here(), at: Date.now() }));

function placeGoneBackTo(): Place | null {
  if (back.to !== here() || Date.now() - back.at > BACK_MS) return null;
  back.to = "";
  return places.get(here()) ?? null;
}

export type Page<T> = { rows: T[]; next: string | null; backTo?: string | null };

/** So long a search goes on by itself without a row; then the reader says whether it is worth more. */
const PATIENCE_MS = 600;

/** Pages of a list, one after the other; `path` is without cursor. */
export function usePages<T>(path: string, read: (answer: unknown) => Page<T>, size = 100) {
  const made = useMemo(() => ({
    rows: signal<T[]>([]), next: signal<string | null>(null), problem: signal<Problem | null>(null), isLoading: signal(true), isFirst: signal(true), readAt: signal(0), backTo: signal<string | null>(null), isResting: signal(false),
  }), []);
  const began = useRef(0);
  const turn = useRef(0);
  const place = useRef<Place | null>(useMemo(placeGoneBackTo, []));
  const busy = useRef(false);

  async function load(cursor: string | null): Promise<void> {
    if (busy.current && cursor) return;
    const mine = cursor ? turn.current : ++turn.current;
    if (!cursor) began.current = Date.now();
    made.isResting.value = false;
    busy.current = true;
    made.isLoading.value = true;
    try {
      const wanted = cursor || !place.current ? 0 : place.current.count + size;
      const ask = async (from: string | null, limit: number) => read(await get(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}${from ? `&cursor=${encodeURIComponent(from)}` : ""}`));
      let page = await ask(cursor, Math.min(MOST_AT_ONCE, Math.max(size, wanted)));
      while (page.next && page.rows.length < wanted && mine === turn.current) {
        const more = await ask(page.next, MOST_AT_ONCE);
        page = { rows: [...page.rows, ...more.rows], next: more.next };
      }
      if (mine !== turn.current) return;
      made.rows.value = cursor ? [...made.rows.value, ...page.rows] : page.rows;
      made.next.value = page.next;
      made.backTo.value = page.backTo ?? null;
      made.isResting.value = !made.rows.value.length && !!page.next && Date.now() - began.current > PATIENCE_MS;
      made.problem.value = null;
      made.readAt.value = Date.now();
    } catch (error) {
      if (mine !== turn.current) return;
      made.problem.value = problemOf(error);
    } finally {
      if (mine === turn.current) {
        busy.current = false;
        made.isLoading.value = false;
        made.isFirst.value = false;
      }
    }
  }

  useEffect(() => {
    made.isFirst.value = true;
    made.rows.value = [];
    void load(null);
  }, [path, apiKey.value, tenant.value]);

  return { ...made, place, reload: () => load(null), more: () => made.next.value && load(made.next.value), goOn: () => { began.current = Date.now(); return made.next.value && load(made.next.value); } };
}

type TableProps<T> = {
  label: string;
  pages: ReturnType<typeof usePages<T>>;
  columns: Column<T>[];
  rowKey: (row: T) => string;
  /** What a row is called; its key where nothing is given. */
  rowName?: (row: T) => string;
  sort?: string;
  onSort?: (sort: string) => void;
  selected?: Set<string>;
  onSelect?: (keys: Set<string>) => void;
  empty: ComponentChildren;
  rowHeight?: number;
  cardHeight?: number;
  onView?: (rows: T[]) => void;
};

export function Table<T>(props: TableProps<T>) {
  const { pages, columns, rowKey, selected, onSelect } = props;
  const rows = pages.rows.value;
  const height = isNarrow.value ? (props.cardHeight ?? 96) : (props.rowHeight ?? 44);
  const body = useRef<HTMLTableSectionElement>(null);
  const view = useSignal({ from: 0, to: 40 });
  const at = useSignal(-1);
  const lastPicked = useRef(-1);

  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / height) - 12);
      const to = Math.ceil((innerHeight - top) / height) + 12;
      if (from !== view.value.from || to !== view.value.to) view.value = { from, to };
      if (to > pages.rows.value.length - 20 && pages.next.value && !pages.isLoading.value && !pages.problem.value && !pages.isResting.value) pages.more();
    };
    const remember = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const index = Math.max(0, Math.ceil((HEAD - top) / height));
      const row = pages.rows.value[index];
      if (row && scrollY > 0) places.set(here(), { key: rowKey(row), offset: top + index * height, count: pages.rows.value.length });
      else places.delete(here());
    };
    const ask = () => {
      frame ||= requestAnimationFrame(() => {
        look();
        if (!pages.place.current) remember();
      });
    };
    const place = pages.place.current;
    if (place && rows.length) {
      pages.place.current = null;
      const index = rows.findIndex((row) => rowKey(row) === place.key);
      if (index >= 0) scrollBy(0, body.current!.getBoundingClientRect().top + index * height - place.offset);
    }
    look();
    addEventListener("scroll", ask, { passive: true });
    addEventListener("resize", ask);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", ask);
      removeEventListener("resize", ask);
    };
    // A search may give a page without rows and say where to go on.
  }, [height, rows.length, pages.next.value]);

  const from = Math.min(view.value.from, Math.max(0, rows.length - 1));
  const to = Math.min(rows.length, view.value.to);
  const shown = rows.slice(from, to);
  useEffect(() => props.onView?.(shown), [from, to, rows]);

  useEffect(() => {
    const press = (event: Event) => {
      const word = (event as CustomEvent<string>).detail;
      if (word === "down" || word === "up") {
        const next = Math.max(0, Math.min(rows.length - 1, at.value + (word === "down" ? 1 : -1)));
        at.value = next;
        const top = (body.current?.getBoundingClientRect().top ?? 0) + next * height;
        if (top < 120) scrollBy(0, top - 120);
        else if (top + height > innerHeight - 20) scrollBy(0, top + height - innerHeight + 20);
        requestAnimationFrame(() => (body.current?.querySelector(`[data-row="${next}"] a`) as HTMLElement | null)?.focus({ preventScroll: true }));
      } else if (word === "pick" && at.value >= 0) pick(at.value, false);
      else if (word === "pickRange" && at.value >= 0) pick(at.value, true);
    };
    addEventListener("horae:row", press);
    return () => removeEventListener("horae:row", press);
  });

  function pick(index: number, isRange: boolean): void {
    if (!onSelect || !selected) return;
    const next = new Set(selected);
    const isOn = !selected.has(rowKey(rows[index]));
    const start = isRange && lastPicked.current >= 0 ? lastPicked.current : index;
    for (let i = Math.min(start, index); i <= Math.max(start, index); i += 1) isOn ? next.add(rowKey(rows[i])) : next.delete(rowKey(rows[i]));
    lastPicked.current = index;
    onSelect(next);
  }

  if (pages.problem.value && !rows.length) return <ProblemBox problem={pages.problem.value} retry={() => void pages.reload()} />;
  if (!rows.length && !pages.isFirst.value && !pages.isLoading.value && !pages.next.value) return <>{props.empty}</>;
  if (pages.isResting.value) return <Empty title="Nothing found so far"><p>{pages.backTo.value && <>Looked at everything back to <Time at={pages.backTo.value} mode="both" seconds={false} />. </>}There is more behind it.</p><button type="button" class="primary" onClick={() => void pages.goOn()}>Search further back</button></Empty>;
  const isWaiting = !rows.length;
  return (
    <>
      <table class={`list ${pages.isLoading.value && rows.length ? "dimmed" : ""}`} aria-label={props.label} aria-rowcount={pages.next.value ? -1 : rows.length + 1} aria-busy={isWaiting}>
        <thead>
          <tr>
            {onSelect && (
              <th scope="col" class="pick">
                <input type="checkbox" aria-label="Select all loaded rows" checked={!!selected?.size && selected.size >= rows.length}
                  onChange={(event) => onSelect(event.currentTarget.checked ? new Set(rows.map(rowKey)) : new Set())} />
              </th>
            )}
            {columns.map((column) => {
              const isOn = !!column.sort && props.sort?.replace("-", "") === column.sort;
              const isDown = isOn && props.sort?.startsWith("-");
              return (
                <th key={column.name} scope="col" class={`col-${column.name} ${column.align ?? ""}`} aria-sort={isOn ? (isDown ? "descending" : "ascending") : undefined}>
                  {column.sort && props.onSort ? (
                    <button type="button" class="plain" onClick={() => props.onSort?.(isOn && !isDown ? `-${column.sort}` : (column.sort as string))}>
                      {column.title}<span aria-hidden="true">{isOn ? (isDown ? " ↓" : " ↑") : " ↕"}</span>
                    </button>
                  ) : column.title}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody ref={body}>
          {isWaiting && Array.from({ length: 8 }, (_, i) => <tr key={i} class="ghost" style={{ height: `${height}px` }}><td colSpan={columns.length + (onSelect ? 1 : 0)}><div /></td></tr>)}
          {from > 0 && <tr class="space" style={{ height: `${from * height}px` }} aria-hidden="true"><td /></tr>}
          {shown.map((row, i) => {
            const index = from + i;
            const id = rowKey(row);
            return (
              <tr key={id} data-row={index} aria-rowindex={index + 2} class={`${at.value === index ? "at" : ""} ${selected?.has(id) ? "picked" : ""}`} style={{ height: `${height}px` }}>
                {onSelect && (
                  <td class="pick">
                    <input type="checkbox" aria-label={`Select ${props.rowName?.(row) ?? id}`} checked={!!selected?.has(id)} onClick={(event) => pick(index, event.shiftKey)} />
                  </td>
                )}
                {columns.map((column) => <td key={column.name} data-title={column.title} class={`col-${column.name} ${column.align ?? ""} ${column.hideNarrow ? "hide-narrow" : ""}`}>{column.cell(row)}</td>)}
              </tr>
            );
          })}
          {to < rows.length && <tr class="space" style={{ height: `${(rows.length - to) * height}px` }} aria-hidden="true"><td /></tr>}
        </tbody>
      </table>
      {pages.problem.value && rows.length > 0 && <ProblemBox problem={pages.problem.value} retry={() => void pages.more()} />}
      {pages.next.value && !pages.problem.value && <p class="dim more" role="status">{!rows.length ? "Searching further back…" : pages.isLoading.value ? "Reading more…" : `${rows.length.toLocaleString("en")} read; more as you scroll.`}</p>}
    </>
  );
}
