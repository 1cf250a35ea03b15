// The filter box: one text with completion, its parts as chips, the whole of it in the address.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { chips, parse, withPart } from "../lib/filter";
import { param } from "../lib/route";
import { Empty } from "./ui";
import { SavedViews } from "./views";

/** Instead of rows: none of them may pretend to match what was not understood. */
export function UnreadFilter() {
  return <Empty title="This filter cannot be read, so nothing is listed"><p>What is wrong with it stands under the box.</p></Empty>;
}

type Props = { text: string; known: string[]; values: Record<string, string[]>; onChange: (text: string, isSameStep: boolean) => void; placeholder: string; extra?: preact.ComponentChildren };

/** What stands in the box, which the address follows a moment later: whoever adds to the filter adds to this. */
export const typedFilter = signal("");

export function FilterBox({ text, known, values, onChange, placeholder, extra }: Props) {
  const typed = typedFilter.value;
  const setTyped = (next: string) => (typedFilter.value = next);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  // What is typed in one go is one step of the history; a chip or a completion is one of its own.
  const isTyping = useRef(false);
  const change = (next: string, isTyped = false) => {
    onChange(next, isTyped && isTyping.current);
    isTyping.current = isTyped;
  };
  useEffect(() => void setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return;
    // Whoever changed the address meanwhile has added to what is typed here, and this box may not know of it yet. Nor of
    // the last letter, when the page is slow.
    const timer = setTimeout(() => param("f") === text && change(typedFilter.value.trim(), true), 300);
    return () => clearTimeout(timer);
  }, [typed]);

  const last = typed.split(/\s+/).at(-1) ?? "";
  const [name, value] = last.includes(":") ? [last.split(":")[0], last.slice(last.indexOf(":") + 1)] : ["", ""];
  const offered = name
    ? (values[name] ?? []).filter((each) => each.toLowerCase().startsWith(value.toLowerCase())).map((each) => `${name}:${each}`)
    : known.filter((each) => each.startsWith(last.toLowerCase())).map((each) => `${each}:`);
  const isOffering = isOpen && offered.length > 0 && !(offered.length === 1 && offered[0] === last);
  const take = (word: string) => {
    const next = typed.slice(0, typed.length - last.length) + word;
    setTyped(next);
    setAt(-1);
    if (!word.endsWith(":")) change(next.trim());
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") return setOpen(false);
    if (event.key === "Enter") {
      if (isOffering && at >= 0) take(offered[at]);
      else change(typed.trim(), true);
      if (at < 0) setOpen(false);
    } else if (event.key === "ArrowDown" && isOffering) setAt(Math.min(at + 1, offered.length - 1));
    else if (event.key === "ArrowUp" && isOffering) setAt(Math.max(at - 1, -1));
    else return;
    event.preventDefault();
  };
  const problems = parse(typed, known).problems;
  return (
    <div class="filter" role="search">
      <div class="filter-box">
        <input data-filter type="text" role="combobox" aria-label="Filter" aria-expanded={isOffering} aria-controls="filter-offers" aria-activedescendant={at >= 0 ? `offer-${at}` : undefined} spellcheck={false} autocomplete="off" placeholder={placeholder} value={typed}
          onInput={(event) => { setTyped(event.currentTarget.value); setOpen(true); setAt(-1); }} onFocus={() => setOpen(true)} onBlur={() => { isTyping.current = false; setTimeout(() => setOpen(false), 150); }} onKeyDown={press} />
        {extra}
        <div id="filter-offers" role="listbox" aria-label="Filters" class={isOffering ? "suggest" : ""} hidden={!isOffering}>
          {isOffering && offered.slice(0, 10).map((word, i) => <button key={word} id={`offer-${i}`} type="button" role="option" tabIndex={-1} aria-selected={i === at} onMouseDown={(event) => { event.preventDefault(); take(word); }}>{word}</button>)}
        </div>
      </div>
      <div class="row filter-tools"><SavedViews /></div>
      {problems.map((problem) => <p key={problem} class="tone-failed" role="alert">{problem}</p>)}
      {chips(text, known).length > 0 && (
        <div class="row">
          {chips(text, known).map((chip) => <button key={chip.text} type="button" class="chip" title="Take this filter away" onClick={() => change(withPart(text, chip.name, ""))}>{chip.text} <span aria-hidden="true">×</span><span class="visually-hidden">: take away</span></button>)}
          <button type="button" class="plain small" onClick={() => change("")}>Clear</button>
        </div>
      )}
    </div>
  );
}
