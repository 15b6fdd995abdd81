// Rows as CSV or JSON: to the clipboard, or to a file.
import { html } from "./html.js";
import { toast } from "./toasts.js";

function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = Array.isArray(value) || typeof value === "object" ? JSON.stringify(value) : String(value);
  // A spreadsheet runs what begins so: a topic's or a record's text stays text
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** `columns`: `[{name, value}]`, where `value` takes a row. */
export function toCsv(rows, columns) {
  const lines = [columns.map((column) => csvCell(column.name)).join(",")];
  for (const row of rows) lines.push(columns.map((column) => csvCell(column.value(row))).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

export function toJson(rows, columns) {
  const objects = rows.map((row) => Object.fromEntries(columns.map((column) => [column.name, column.value(row)])));
  return `${JSON.stringify(objects, null, 1)}\n`;
}

export function save(fileName, text, mediaType) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: mediaType }));
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function copy(text, what = "text") {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied the ${what}.`);
  } catch {
    toast(`The browser does not allow to copy; export the ${what} as a file.`, "bad");
  }
}

/** Buttons for all rows of a list. */
export function Exports({ name, rows, columns }) {
  return html`<div class="exports" role="group" aria-label="Export">
    <button class="button quiet small" title="Copy as CSV" onClick=${() => copy(toCsv(rows(), columns), "rows")}>
      Copy
    </button>
    <button
      class="button quiet small"
      title="Save as CSV"
      onClick=${() => save(`${name}.csv`, toCsv(rows(), columns), "text/csv")}
    >
      CSV
    </button>
    <button
      class="button quiet small"
      title="Save as JSON"
      onClick=${() => save(`${name}.json`, toJson(rows(), columns), "application/json")}
    >
      JSON
    </button>
  </div>`;
}
