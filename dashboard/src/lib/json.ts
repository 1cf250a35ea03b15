// JSON whose numbers keep their digits: a double holds some sixteen of them, and ids of other systems have more.

/** A number as it was written. */
export class Exact {
  constructor(readonly text: string) {}
  toString(): string {
    return this.text;
  }
  /** For whoever only shows it. */
  toJSON(): string {
    return this.text;
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const MARK = "\u0000exact:";

const isSafe = (token: string) => !/^-?\d+$/.test(token) || Number.isSafeInteger(Number(token));
const isAsWritten = (token: string) => String(Number(token)) === token;

/** What the server says: only whole numbers that a double cannot hold are kept apart, so that all others can be reckoned with. */
export function readJson(text: string): unknown {
  return /\d{16}/.test(text) ? keep(text, isSafe) : JSON.parse(text);
}

/** What people typed or will edit: 1.0 stays 1.0. */
export function readExactly(text: string): unknown {
  JSON.parse(text); // marked numbers would hide its mistakes
  return keep(text, isAsWritten);
}

export function writeJson(value: unknown, indent = 0, pad = ""): string {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = pad + " ".repeat(indent);
  const colon = indent ? ": " : ":";
  const isList = Array.isArray(value);
  const parts = isList ? value.map((each) => writeJson(each, indent, inner)) : Object.entries(value).filter(([, each]) => each !== undefined).map(([name, each]) => JSON.stringify(name) + colon + writeJson(each, indent, inner));
  const [start, end] = isList ? "[]" : "{}";
  if (!parts.length || !indent) return start + parts.join(",") + end;
  return `${start}\n${inner}${parts.join(`,\n${inner}`)}\n${pad}${end}`;
}

/** Whatever the order of the fields. */
export function isSame(one: unknown, other: unknown): boolean {
  return writeJson(sorted(one)) === writeJson(sorted(other));
}

function keep(text: string, isKept: (token: string) => boolean): unknown {
  const marked = text.replace(TOKEN, (token) => (token[0] === '"' || isKept(token) ? token : JSON.stringify(MARK + token)));
  return JSON.parse(marked, (_, value: unknown) => (typeof value === "string" && value.startsWith(MARK) ? new Exact(value.slice(MARK.length)) : value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!value || typeof value !== "object" || value instanceof Exact) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, sorted(each)]));
}
