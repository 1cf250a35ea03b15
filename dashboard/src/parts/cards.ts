// On a phone the rows of a table are cards; each cell then says what its column is called.
import { isNarrow } from "./table";

function label(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.small-table")) {
    const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
    table.classList.toggle("cards", isNarrow.value && names.length > 0 && !table.closest(".chart, dialog"));
    if (!table.classList.contains("cards")) continue;
    for (const row of table.tBodies[0]?.rows ?? []) [...row.cells].forEach((cell, i) => cell.dataset.title !== names[i] && (cell.dataset.title = names[i]));
  }
}

export function startCards(): void {
  let frame = 0;
  const soon = () => (frame ||= requestAnimationFrame(() => {
    frame = 0;
    label();
  }));
  new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
  isNarrow.subscribe(soon);
}
