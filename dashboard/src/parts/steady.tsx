// Lists that stay as they are shown: what changes, changes in place; what is new waits; what is gone stays, marked, until the reader asks.
import { useEffect, useRef, useState } from "preact/hooks";

export type Steady<T> = {
  shown: { item: T; isGone: boolean }[];
  waiting: T[];
  /** The same ones, and would stand otherwise by now. */
  isMoved: boolean;
  /** Take the order as it is now. */
  show: () => void;
  /** Take the order of what is read next: after something that the reader did. */
  settle: (isWanted?: boolean) => void;
};

/** `source` is what the items were made of; `place` is another list when it is another value. `isFilling`: more of the same answer is to come, and goes below. */
export function useSteady<T>(items: T[] | null, keyOf: (item: T) => string, source: unknown, place = "", isFilling = false): Steady<T> {
  const [, again] = useState(0);
  const now = useRef<{ place: string; order: string[] | null; last: Map<string, T>; source: unknown; isSettling: boolean; wasFilling: boolean }>({ place, order: null, last: new Map(), source: null, isSettling: false, wasFilling: false });
  const state = now.current;
  if (state.place !== place) Object.assign(state, { place, order: null, isSettling: false });
  if (state.isSettling && source !== state.source) Object.assign(state, { order: null, isSettling: false });
  state.source = source;
  // Being read anew: what comes next is another list.
  if (!items) state.order = null;
  if (!items) return { shown: [], waiting: [], isMoved: false, show: () => {}, settle: () => {} };
  const found = new Map(items.map((item) => [keyOf(item), item]));
  if (!state.order) {
    state.order = [...found.keys()];
    state.last = new Map();
  }
  const { order } = state;
  // The last part of the answer is of it as well.
  if (isFilling || state.wasFilling) {
    const there = new Set(order);
    order.push(...[...found.keys()].filter((key) => !there.has(key)));
  }
  state.wasFilling = isFilling;
  for (const key of order) if (found.has(key)) state.last.set(key, found.get(key)!);
  const isKnown = new Set(order);
  const left = order.filter((key) => found.has(key));
  const asNow = [...found.keys()].filter((key) => isKnown.has(key));
  return {
    isMoved: left.some((key, i) => key !== asNow[i]),
    shown: order.map((key) => ({ item: state.last.get(key)!, isGone: !found.has(key) })),
    waiting: items.filter((item) => !isKnown.has(keyOf(item))),
    show: () => {
      state.order = null;
      again((n) => n + 1);
    },
    settle: (isWanted = true) => (state.isSettling = isWanted),
  };
}

/** A line that is always there, so that what comes into it moves nothing. */
export function FreshLine({ words, onShow }: { words: string; onShow: () => void }) {
  return <div class="fresh-line" role="status">{words && <button type="button" class="new-pill" onClick={onShow}>{words}, show</button>}</div>;
}

/** In the head of a panel, where it moves nothing: what waits, or that the rows would stand otherwise by now. */
export function HeadPill<T>({ steady, noun }: { steady: Steady<T>; noun: string }) {
  const gone = steady.shown.filter((each) => each.isGone).length;
  const words = steady.waiting.length ? `${steady.waiting.length} new ${noun}${steady.waiting.length > 1 ? "s" : ""}, show` : gone ? `${gone} gone, tidy up` : steady.isMoved ? "In new order, show" : "";
  return words ? <button type="button" class="new-pill" onClick={steady.show}>{words}</button> : null;
}

const coarse = matchMedia("(pointer: coarse)");

/** Whether the reader is at this box, with the pointer or the focus: else its rows may follow what happens. A finger comes without a sign, so with one they never do. */
export function useAttended() {
  const [isAt, setAt] = useState(false);
  const [hasFocus, setFocus] = useState(false);
  return {
    isAttended: isAt || hasFocus || coarse.matches,
    box: { onPointerEnter: () => setAt(true), onPointerLeave: () => setAt(false), onFocusIn: () => setFocus(true), onFocusOut: () => setFocus(false) },
  };
}

/** How many of a long list to put into the page: a screen at once, the rest a little later, below it. */
export function useGrowing(size: number, first = 20, place = ""): number {
  const [grown, setGrown] = useState({ place, n: first });
  const n = grown.place === place ? grown.n : first;
  useEffect(() => {
    if (n >= size) return;
    const timer = setTimeout(() => setGrown({ place, n: n + 60 }), 50);
    return () => clearTimeout(timer);
  }, [n, size, place]);
  return Math.min(n, size);
}
