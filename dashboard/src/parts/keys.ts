// Keys of the whole page. A page's own keys are sent as events; none works while something is typed.
import { signal } from "@preact/signals";
import { togglePause } from "../lib/live";
import { go } from "../lib/route";
import { setZone, zoneMode } from "../lib/time";
import { isPaletteOpen } from "./palette";
import { nextTheme } from "./theme";
import { announce } from "./ui";

export const isHelpOpen = signal(false);
const OFF = "horae.keys";
export const areKeysOn = signal(localStorage.getItem(OFF) !== "off");
export function setKeys(isOn: boolean): void {
  areKeysOn.value = isOn;
  localStorage.setItem(OFF, isOn ? "on" : "off");
}

export const KEYS: [string, string][] = [
  ["Ctrl K", "find a job, a run, a page, an action"], ["/", "filter"], ["g o, g j, g r …", "Overview, Jobs, Runs, Queues (q), Workers (w), Dead letters (d), Forecast (f), Alerts (a), Audit (u), Settings (s)"],
  ["j  k  Enter", "next row, previous row, open"], ["x  Shift X", "select, select a range"], ["n", "new job"], ["e", "edit the job"], ["y", "Why?"],
  ["p", "pause or resume the job, or the queue"], ["Shift R", "run the job now"], ["Space", "pause or resume live updates"], ["t", "theme"], ["z", "time zone"],
  ["f  w  Shift F", "in a log: follow, wrap, full screen"], ["?", "this list"], ["Esc", "close"],
];

const GO: Record<string, string> = { o: "/", j: "/jobs", r: "/runs", q: "/queues", w: "/workers", d: "/dead-letters", f: "/forecast", a: "/alerts", u: "/audit", s: "/settings" };
let wentG = 0;

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      isPaletteOpen.value = true;
      return;
    }
    const target = event.target as HTMLElement;
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !/^(checkbox|radio)$/.test((target as HTMLInputElement).type);
    if (!areKeysOn.value || isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (wentG && Date.now() - wentG < 1200) {
      wentG = 0;
      if (GO[event.key]) {
        event.preventDefault();
        go(GO[event.key]);
      }
      return;
    }
    if (press(event, target)) event.preventDefault();
  });
}

function row(word: string): true {
  dispatchEvent(new CustomEvent("horae:row", { detail: word }));
  return true;
}

function press(event: KeyboardEvent, target: HTMLElement): boolean {
  switch (event.key) {
    case "g": wentG = Date.now(); return true;
    case "/": {
      const box = document.querySelector<HTMLInputElement>("[data-filter]");
      box?.focus();
      return !!box;
    }
    case "?": isHelpOpen.value = true; return true;
    case "j": return row("down");
    case "k": return row("up");
    case "x": return row("pick");
    case "X": return row("pickRange");
    case "n": go("/jobs/new"); return true;
    case "t": nextTheme(); return true;
    case "z": {
      const next = { mine: "job", job: "utc", utc: "mine" } as const;
      setZone(next[zoneMode.value]);
      announce(`Time zone: ${zoneMode.value}`);
      return true;
    }
    case " ":
      if (target.closest("button, a, summary, input, label, [tabindex='0']")) return false;
      togglePause();
      return true;
    default: {
      const button = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(event.key)}"] button, button[data-key="${CSS.escape(event.key)}"], a[data-key="${CSS.escape(event.key)}"]`);
      button?.click();
      return !!button;
    }
  }
}
