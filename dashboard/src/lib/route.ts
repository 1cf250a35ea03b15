// The address holds the whole state of a page, so that a view can be shared and gone back to.
import { computed, signal } from "@preact/signals";

const here = () => location.pathname + location.search + location.hash;
export const url = signal(here());
export const path = computed(() => url.value.split(/[?#]/)[0]);
export const search = computed(() => new URLSearchParams(url.value.split("#")[0].split("?")[1] ?? ""));

let guard: (() => boolean) | null = null;
/** Which entry of the history this is, so that a step away can be taken back. */
let at = 0;

/** Asked before the page is left; false stays. */
export function guardLeaving(ask: (() => boolean) | null): void {
  guard = ask;
}

export function go(to: string, replace = false): void {
  if (guard && !replace && !guard()) return;
  if (!replace) guard = null;
  write(to, replace);
  if (!replace) scrollTo(0, 0);
}

function write(to: string, replace: boolean): void {
  if (!replace) at += 1;
  history[replace ? "replaceState" : "pushState"]({ at }, "", to);
  url.value = here();
}

/** Each change is a step that can be gone back, unless it goes on with the last one, as typing does. */
export function setParams(changes: Record<string, string | null>, replace = false): void {
  const next = new URLSearchParams(search.value);
  for (const [name, value] of Object.entries(changes)) value ? next.set(name, value) : next.delete(name);
  const text = next.toString();
  const to = path.value + (text ? `?${text}` : "");
  if (to !== url.value.split("#")[0]) write(to, replace);
}

export function param(name: string, fallback = ""): string {
  return search.value.get(name) ?? fallback;
}

const placeOf = (state: unknown): number | undefined => (state as { at?: number } | null)?.at;

/** The browser is elsewhere already: to stay is to go back there. */
function moved(to: number | undefined): void {
  const isLeft = location.pathname + location.search !== url.value.split("#")[0];
  if (isLeft && guard && !guard()) {
    history.go(at - (to ?? at + 1));
    return;
  }
  if (isLeft) guard = null;
  at = to ?? at + 1;
  if (to === undefined) history.replaceState({ at }, "");
  url.value = here();
}

export function startRouting(): void {
  at = placeOf(history.state) ?? 0;
  history.replaceState({ at }, "");
  addEventListener("popstate", () => moved(placeOf(history.state)));
  addEventListener("beforeunload", (event) => {
    if (guard) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
    if (/^\/(api|v1|openapi|metrics|healthz|readyz)/.test(link.pathname) || link.getAttribute("href")?.startsWith("#")) return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}
