// The rows behind the current filter, all of them up to a limit, as a file.
import { useState } from "preact/hooks";
import { enc, get } from "../lib/api";
import { writeJson } from "../lib/json";
import { problemOf } from "../lib/load";
import { plural } from "../lib/words";
import { tell } from "./ui";

export const MOST_ROWS = 100_000;
type Row = Record<string, unknown>;
type Kind = "CSV" | "JSON";

/** `path` is the list without limit and cursor; `field` is where its rows are. */
export function Export({ path, field, name }: { path: string; field: string; name: string }) {
  const [busy, setBusy] = useState("");
  async function save(kind: Kind): Promise<void> {
    setBusy("Reading…");
    try {
      const rows: Row[] = [];
      let cursor: string | null = "";
      while (cursor !== null && rows.length < MOST_ROWS) {
        const page: Row = await get<Row>(`${path}${path.includes("?") ? "&" : "?"}limit=1000${cursor ? `&cursor=${enc(cursor)}` : ""}`);
        rows.push(...(page[field] as Row[]));
        cursor = page.next_cursor as string | null;
        setBusy(`${rows.length.toLocaleString("en")} read…`);
      }
      download(kind === "CSV" ? csv(rows) : writeJson(rows, 2), `${name}.${kind.toLowerCase()}`, kind === "CSV" ? "text/csv" : "application/json");
      tell(`${plural(rows.length, "row")} saved as ${name}.${kind.toLowerCase()}${cursor ? `; there are more than ${MOST_ROWS.toLocaleString("en")}, narrow the filter for the rest` : ""}.`);
    } catch (error) {
      tell(problemOf(error).detail, undefined, "bad");
    } finally {
      setBusy("");
    }
  }
  return (
    <span class="row export" role="group" aria-label="Save this list">
      {busy ? <span class="dim" role="status">{busy}</span> : (["CSV", "JSON"] as Kind[]).map((kind) => <button key={kind} type="button" class="plain small" title={`Save all rows of this filter as ${kind}`} aria-label={`Save as ${kind}`} onClick={() => void save(kind)}>{kind}</button>)}
    </span>
  );
}

export function csv(rows: Row[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((cells) => cells.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  let text = typeof value === "object" ? writeJson(value) : String(value);
  // A spreadsheet would take these for formulas.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function download(text: string, name: string, kind: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
