// The filter language: `status:failed queue:billing label:team:ads some words`. One text, in the address and in the box.
export type Filter = { values: Record<string, string>; words: string; problems: string[] };
export type Chip = { text: string; name: string; value: string };

export const JOB_FILTERS = ["status", "health", "label", "type", "queue", "priority", "due"];
export const RUN_FILTERS = ["status", "job", "queue", "priority", "reason", "worker", "due"];
export const DEAD_FILTERS = ["job", "queue", "priority", "reason", "due"];

export const STATUS: Record<string, string> = { dead: "FAILED", active: "SCHEDULED", deleted: "CANCELLED" };

// Of jobs: what stands in the health of a job, though people ask for it as a status.
const HEALTH: Record<string, string> = { dead: "failing", failed: "failing", failing: "failing", late: "late", never_run: "never_run" };

export function split(text: string): string[] {
  return text.match(/(?:[^\s"]+:"[^"]*"|"[^"]*"|\S)+/g) ?? [];
}

export function parse(text: string, known: string[]): Filter {
  const filter: Filter = { values: {}, words: "", problems: [] };
  const words: string[] = [];
  for (const part of split(text)) {
    const at = part.indexOf(":");
    const name = part.slice(0, at).toLowerCase();
    if (at < 1 || part.startsWith('"')) words.push(part.replaceAll('"', ""));
    else if (!known.includes(name)) filter.problems.push(`“${name}:” is not a filter here. There are ${known.map((each) => `${each}:`).join(" ")}`);
    else if (name in filter.values) filter.problems.push(`“${name}:” stands here twice; a list is narrowed to one of them. Take one away.`);
    else filter.values[name] = part.slice(at + 1).replaceAll('"', "");
  }
  filter.words = words.join(" ");
  return filter;
}

export function chips(text: string, known: string[]): Chip[] {
  return split(text)
    .filter((part) => known.includes(part.split(":")[0].toLowerCase()) && part.includes(":"))
    .map((part) => ({ text: part, name: part.split(":")[0].toLowerCase(), value: part.slice(part.indexOf(":") + 1).replaceAll('"', "") }));
}

/** With this part set, or gone when the value is empty. */
export function withPart(text: string, name: string, value: string): string {
  const kept = split(text).filter((part) => !part.toLowerCase().startsWith(`${name}:`));
  if (value) kept.push(/\s/.test(value) ? `${name}:"${value}"` : `${name}:${value}`);
  return kept.join(" ");
}

/** In the words of the API. */
export function toQuery(filter: Filter, textName: string): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(filter.values)) {
    if (name === "due") Object.assign(query, dueRange(value, textName === "q"));
    else if (name === "status" && textName === "q" && value.toLowerCase() in HEALTH) query.health = HEALTH[value.toLowerCase()];
    else if (name === "status") query.status = STATUS[value.toLowerCase()] ?? value.toUpperCase();
    else if (name === "priority") query.priority = value.toUpperCase();
    else query[name] = value;
  }
  if (filter.words) query[textName] = filter.words;
  return query;
}

/** `1h`, `24h`, `7d`: that long back for runs, that long ahead for jobs. `today` as well. */
function dueRange(value: string, isAhead: boolean): Record<string, string> {
  const match = /^(\d+)([mhd])$/.exec(value);
  const size = { m: 60_000, h: 3_600_000, d: 86_400_000 };
  const start = new Date();
  let length = 0;
  if (match) length = Number(match[1]) * size[match[2] as "m"];
  else if (value === "today") {
    const midnight = new Date(start.getFullYear(), start.getMonth(), start.getDate() + (isAhead ? 1 : 0));
    return isAhead ? { due_before: midnight.toISOString() } : { due_after: midnight.toISOString() };
  } else return isAhead ? { due_before: value } : { due_after: value };
  return isAhead
    ? { due_before: new Date(start.getTime() + length).toISOString() }
    : { due_after: new Date(start.getTime() - length).toISOString() };
}
