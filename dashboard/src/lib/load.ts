// Data of a panel: what was read last, whether it is being read again, and what went wrong.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Problem } from "../types";
import { ApiError, get, key, tenant } from "./api";
import { type Change, isPaused, onChange } from "./live";

export type Loaded<T> = {
  data: Signal<T | null>;
  problem: Signal<Problem | null>;
  isLoading: Signal<boolean>;
  readAt: Signal<number>;
  reload: () => void;
};

export type Options = {
  /** Read again when this says so; at most once in `restMs`. */
  when?: (change: Change) => boolean;
  restMs?: number;
  everyMs?: number;
};

/** `path` empty: nothing is read. */
export function useLoad<T>(path: string, options: Options = {}, read: (path: string, signal: AbortSignal) => Promise<T> = get<T>): Loaded<T> {
  const made = useMemo(
    () => ({ data: signal<T | null>(null), problem: signal<Problem | null>(null), isLoading: signal(!!path), readAt: signal(0) }),
    [],
  );
  const now = useRef({ options, read, reload: () => {} });
  now.current.options = options;
  now.current.read = read;

  useEffect(() => {
    if (!path) return;
    let abort = new AbortController();
    let timer = 0;
    let lastAt = 0;
    let isOver = false;
    made.data.value = null;
    made.problem.value = null;

    /** Unless the reader asked, nothing that is shown changes while the page is paused. */
    const isHeld = (isAsked: boolean) => !isAsked && made.data.value !== null && isPaused.value;

    async function load(isAsked = false): Promise<void> {
      clearTimeout(timer);
      timer = 0;
      abort.abort();
      abort = new AbortController();
      const mine = abort.signal;
      made.isLoading.value = true;
      lastAt = Date.now();
      try {
        const found = await now.current.read(path, mine);
        if (mine.aborted) return;
        if (isHeld(isAsked)) return soon(2000);
        made.data.value = found;
        made.problem.value = null;
        made.readAt.value = Date.now();
      } catch (error) {
        if (mine.aborted) return;
        if (isHeld(isAsked)) return soon(2000);
        made.problem.value = problemOf(error);
        if (made.problem.value.status === 0 || made.problem.value.status === 503) soon(3000);
      } finally {
        if (!mine.aborted) {
          made.isLoading.value = false;
          const every = now.current.options.everyMs;
          if (every && !isOver) soon(every);
        }
      }
    }

    function soon(delay: number): void {
      if (isOver) return;
      const due = Math.max(delay, lastAt + (now.current.options.restMs ?? 1000) - Date.now());
      if (timer && delay >= (now.current.options.everyMs ?? Infinity)) return;
      clearTimeout(timer);
      timer = window.setTimeout(() => {
        timer = 0;
        if (document.hidden || isHeld(false)) soon(2000);
        else void load();
      }, due);
    }

    now.current.reload = () => void load(true);
    void load();
    const off = onChange((change) => {
      if (change.isGap || now.current.options.when?.(change)) soon(0);
    });
    return () => {
      isOver = true;
      abort.abort();
      clearTimeout(timer);
      off();
    };
  }, [path, key.value, tenant.value]);

  return { ...made, reload: () => now.current.reload() };
}

export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return { type: "about:blank", title: "This page made a mistake", status: -1, detail: String(error), code: "page", errors: [], request_id: "" };
}
