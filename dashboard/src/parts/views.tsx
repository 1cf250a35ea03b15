// Views that somebody saved: a name for the state of a list's address, kept in this browser for this tenant.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { tenant } from "../lib/api";
import { go, path, search } from "../lib/route";
import { Dialog } from "./ui";

type View = { name: string; query: string };
const turn = signal(0);
const keyOf = (page: string) => `horae.views.${tenant.value || "default"}.${page}`;

function read(page: string): View[] {
  void turn.value;
  try {
    return JSON.parse(localStorage.getItem(keyOf(page)) ?? "[]") as View[];
  } catch {
    return [];
  }
}

function write(page: string, views: View[]): void {
  localStorage.setItem(keyOf(page), JSON.stringify(views));
  turn.value += 1;
}

/** The whole address is the view: filter, order and grouping. */
export function SavedViews() {
  const page = path.value;
  const now = search.value.size ? `?${search.value}` : "";
  const views = read(page);
  const [isOpen, setOpen] = useState(false);
  const isKnown = views.some((view) => view.query === now);
  if (!views.length && !now) return null;
  return (
    <span class="row views" role="group" aria-label="Saved views">
      {views.map((view) => (
        <span class="row view" key={view.name}>
          <button type="button" class="chip" aria-pressed={view.query === now} onClick={() => go(page + view.query)}>{view.name}</button>
          {view.query === now && <button type="button" class="plain small" aria-label={`Forget the view ${view.name}`} title="Forget this view" onClick={() => write(page, views.filter((each) => each !== view))}>×</button>}
        </span>
      ))}
      {now && !isKnown && <button type="button" class="plain small" onClick={() => setOpen(true)}>Save this view</button>}
      {isOpen && (
        <Dialog title="Save this view" onClose={() => setOpen(false)}>
          <form class="stack" onSubmit={(event) => {
            event.preventDefault();
            const name = (new FormData(event.currentTarget).get("name") as string).trim();
            if (name) write(page, [...views.filter((view) => view.name !== name), { name, query: now }]);
            setOpen(false);
          }}>
            <label class="field"><span>Name</span><input name="name" required maxLength={40} autocomplete="off" autofocus /></label>
            <p class="dim">Kept in this browser. To share it, share the address: it holds the whole view.</p>
            <div class="row"><button class="primary">Save</button></div>
          </form>
        </Dialog>
      )}
    </span>
  );
}
