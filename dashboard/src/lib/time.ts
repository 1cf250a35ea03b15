// Times as people read them: relative where it decides, absolute one glance away, the zone always printed.
import { computed, signal } from "@preact/signals";

/** So late may a run start, and be on time. */
export const TARGET_MS = 1000;

export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

export type ZoneMode = "job" | "mine" | "utc";
const ZONE = "horae.zone";
export const zoneMode = signal<ZoneMode>((localStorage.getItem(ZONE) as ZoneMode) || "mine");
export const myZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
export const ZONE_WORDS: Record<ZoneMode, string> = { mine: "My zone", job: "Job’s zone", utc: "UTC" };

export function setZone(mode: ZoneMode): void {
  zoneMode.value = mode;
  localStorage.setItem(ZONE, mode);
}

export function zoneOf(jobZone?: string | null): string {
  if (zoneMode.value === "utc") return "UTC";
  return zoneMode.value === "job" && jobZone ? jobZone : myZone;
}

export const zoneShort = computed(() => (zoneMode.value === "utc" ? "UTC" : zoneMode.value === "job" ? "Job’s zone" : zoneName(Date.now(), myZone)));

type Parts = Record<string, string>;
const formats = new Map<string, Intl.DateTimeFormat>();

function partsOf(at: number, zone: string): Parts {
  let format = formats.get(zone);
  if (!format) {
    const options: Intl.DateTimeFormatOptions = {
      timeZone: zone, weekday: "short", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit",
      minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
    };
    try {
      format = new Intl.DateTimeFormat("en-GB", options);
    } catch {
      format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" });
    }
    formats.set(zone, format);
  }
  return Object.fromEntries(format.formatToParts(at).map((part) => [part.type, part.value]));
}

export const zoneName = (at: number, zone: string) => partsOf(at, zone).timeZoneName ?? zone;

/** Mon 2026-11-16 09:00:00 CET */
export function absolute(at: number, zone: string, withSeconds = true): string {
  const p = partsOf(at, zone);
  return `${p.weekday} ${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}${withSeconds ? `:${p.second}` : ""} ${p.timeZoneName}`;
}

export function clock(at: number, zone: string, withSeconds = true): string {
  const p = partsOf(at, zone);
  return `${p.hour}:${p.minute}${withSeconds ? `:${p.second}` : ""}`;
}

export function day(at: number, zone: string): string {
  const p = partsOf(at, zone);
  return `${p.year}-${p.month}-${p.day}`;
}

export function weekday(at: number, zone: string): string {
  return partsOf(at, zone).weekday;
}

const WALL = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?$/;

/** The instant of `2026-11-16 09:00` in the zone, or of a time that says its own; NaN where it is none. */
export function instant(text: string, zone: string): number {
  const match = WALL.exec(text);
  if (!match) return /(Z|[+-]\d\d:?\d\d)$/i.test(text) ? Date.parse(text.replace(" ", "T")) : NaN;
  const [year, month, date, hour, minute, second] = match.slice(1).map((part) => Number(part ?? 0));
  const wall = Date.UTC(year, month - 1, date, hour, minute, second);
  // The first of the two guesses may lie on the other side of a change of the clocks.
  const ahead = (at: number) => Date.parse(`${stamp(at, zone).replace(" ", "T")}Z`) - at;
  const guess = wall - ahead(wall);
  return wall - ahead(guess);
}

/** 2026-11-16 09:00:00 */
export function stamp(at: number, zone: string): string {
  return `${day(at, zone)} ${clock(at, zone)}`;
}

/** 1 h 5 m; two units at most. */
export function span(ms: number): string {
  const sign = ms < 0 ? "−" : "";
  const value = Math.abs(ms);
  if (value < 1000) return `${sign}${Math.round(value)} ms`;
  if (value < 10_000) return `${sign}${(Math.round(value / 100) / 10).toString()} s`;
  const seconds = Math.round(value / 1000);
  if (seconds < 60) return `${sign}${seconds} s`;
  const units: [number, string][] = [[86_400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const index = units.findIndex(([size]) => seconds >= size);
  const [size, name] = units[index];
  const whole = Math.floor(seconds / size);
  const next = units[index + 1];
  const part = next && whole < 10 ? Math.floor((seconds % size) / next[0]) : 0;
  return `${sign}${whole} ${name}${part ? ` ${part} ${next[1]}` : ""}`;
}

export function relative(at: number, from: number): string {
  const gap = at - from;
  if (Math.abs(gap) < 1500) return "now";
  const words = span(Math.round(Math.abs(gap) / 1000) * 1000);
  return gap > 0 ? `in ${words}` : `${words} ago`;
}

export const ms = (text: string | null | undefined): number => (text ? Date.parse(text) : NaN);
