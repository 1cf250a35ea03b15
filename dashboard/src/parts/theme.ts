// System, light or dark; follows the system live.
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export const THEMES: Theme[] = ["system", "light", "dark"];
export const theme = signal<Theme>((localStorage.getItem("horae.theme") as Theme) || "system");
/** Counts up when colours change, for what is drawn and not styled. */
export const themeTurn = signal(0);

export function setTheme(next: Theme): void {
  theme.value = next;
  if (next === "system") {
    localStorage.removeItem("horae.theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("horae.theme", next);
    document.documentElement.dataset.theme = next;
  }
  themeTurn.value += 1;
}

export function nextTheme(): void {
  setTheme(theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system");
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (themeTurn.value += 1));
