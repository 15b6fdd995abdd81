// The values of a change before and after it: a table, or on a narrow screen a list whose notes need no scrolling.
import { formatNumber } from "./format.js";
import { html } from "./html.js";
import { Table, useNarrow } from "./table.js";

const MOST_IN_A_LIST = 500;

function Before({ line }) {
  return html`<span class=${line.after === null ? "before" : ""}>${line.before ?? "–"}</span>`;
}

function After({ line }) {
  return line.after ?? html`<span class="soft">gone</span>`;
}

const COLUMNS = [
  { name: "subject", title: "What", value: (row) => row.subject, isMono: true, width: "minmax(110px, 1.5fr)" },
  {
    name: "before",
    title: "Now",
    value: (row) => row.before,
    cell: (row) => html`<${Before} line=${row} />`,
    width: "minmax(90px, 1fr)",
  },
  {
    name: "after",
    title: "Then",
    value: (row) => row.after,
    cell: (row) => html`<${After} line=${row} />`,
    width: "minmax(90px, 1fr)",
  },
  { name: "note", title: "Note", value: (row) => row.note, width: "minmax(120px, 3.5fr)" },
];

/** Without a column that no row fills; of what is new there is only the value. */
function columnsOf(rows, isNew) {
  const hasNotes = rows.some(({ note }) => note);
  return COLUMNS.filter(({ name }) => !(name === "before" && isNew) && !(name === "note" && !hasNotes)).map((column) =>
    column.name === "after" && isNew ? { ...column, title: "Value", width: "minmax(90px, 3fr)" } : column,
  );
}

/** `lines`: `[{subject, before, after, note}]` of a plan. */
export function ChangeLines({ lines }) {
  const isNarrow = useNarrow();
  const rows = lines.map((line, index) => ({ ...line, index }));
  const isNew = rows.every(({ before }) => before === null);
  if (!isNarrow) {
    return html`<${Table} columns=${columnsOf(rows, isNew)} rows=${rows} rowKey=${(row) => row.index} label="Preview" height="40vh" />`;
  }
  const more = rows.length - MOST_IN_A_LIST;
  return html`<div class="change-lines" role="region" aria-label="Preview" tabindex="0">
    <ul>
      ${rows.slice(0, MOST_IN_A_LIST).map(
        (row) => html`<li key=${row.index}>
          <div class="mono">${row.subject}</div>
          <div>${!isNew && html`<${Before} line=${row} /> → `}<${After} line=${row} /></div>
          ${row.note && html`<div class="soft">${row.note}</div>`}
        </li>`,
      )}
    </ul>
    ${more > 0 && html`<p class="soft">and ${formatNumber(more)} more: a wider window shows them</p>`}
  </div>`;
}
