// Lists that stay as they are shown: what changes, changes in place; what is new waits; what is gone stays, marked, until the reader asks.
import { useRef, useState } from "preact/hooks";

export type Steady<T> = {
  shown: { item: T; isGone: boolean }[];
  waiting: T[];
  /** Take the order as it is now. */
  show: () => void;
  /** Take the order of what is read next: after something that the reader did. */
  settle: () => void;
};

/** `source` is what the items were made of; `place` is another list when it is another value. */
export function useSteady<T>(items: T[] | null, keyOf: (item: T) => string, source: unknown, place = ""): Steady<T> {
  const [, again] = useState(0);
  const now = useRef<{ place: string; order: string[] | null; last: Map<string, T>; source: unknown; isSettling: boolean }>({ place, order: null, last: new Map(), source: null, isSettling: false });
  const state = now.current;
  if (state.place !== place) Object.assign(state, { place, order: null, isSettling: false });
  if (state.isSettling && source !== state.source) Object.assign(state, { order: null, isSettling: false });
  state.source = source;
  // Being read anew: what comes next is another list.
  if (!items) state.order = null;
  if (!items) return { shown: [], waiting: [], show: () => {}, settle: () => {} };
  const found = new Map(items.map((item) => [keyOf(item), item]));
  if (!state.order) {
    state.order = [...found.keys()];
    state.last = new Map();
  }
  const { order } = state;
  for (const key of order) if (found.has(key)) state.last.set(key, found.get(key)!);
  const isKnown = new Set(order);
  return {
    shown: order.map((key) => ({ item: state.last.get(key)!, isGone: !found.has(key) })),
    waiting: items.filter((item) => !isKnown.has(keyOf(item))),
    show: () => {
      state.order = null;
      again((n) => n + 1);
    },
    settle: () => (state.isSettling = true),
  };
}

/** A line that is always there, so that what comes into it moves nothing. */
export function FreshLine({ words, onShow }: { words: string; onShow: () => void }) {
  return <div class="fresh-line" role="status">{words && <button type="button" class="new-pill" onClick={onShow}>{words}, show</button>}</div>;
}
