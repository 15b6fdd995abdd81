// A table that draws only the rows in sight. Arrows move through the rows, Enter opens one, a click on a head sorts.
import { Exports } from "./export.js";
import { formatNumber, isKnown, KINDS, UNKNOWN } from "./format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { setQuery, useRoute } from "./route.js";

const ROW_PX = 32;
const HEAD_PX = 35;
const SPARE_ROWS = 6;
const SETTLED_MS = 120;
const NARROW = matchMedia("(max-width: 760px)");
const collator = new Intl.Collator("en", { numeric: true });

/** True on a narrow screen. */
export function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const changed = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

/** A field for the filter, which stands in the address as `filter`; `/` moves the focus there, Esc empties it. */
export function Filter({ label = "Filter", name = "filter" }) {
  const { query } = useRoute();
  const pressed = (event) => {
    if (event.key !== "Escape") return;
    if (event.target.value === "") event.target.blur();
    else setQuery({ [name]: null });
  };
  return html`<input
    class="input"
    type="search"
    data-filter
    aria-label=${label}
    placeholder="${label}  ( / )"
    value=${query[name] ?? ""}
    onInput=${(event) => setQuery({ [name]: event.target.value })}
    onKeyDown=${pressed}
  />`;
}

// The text of each row, by the columns: a letter more in the filter makes none of 10,000 texts again
const searchTexts = new WeakMap();

/** Rows that have all words of the filter in a text column. */
export function filterRows(rows, columns, filter) {
  const words = (filter ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const searched = columns.filter((column) => column.isSearched ?? !KINDS[column.kind ?? "text"].isNumber);
  const texts = searchTexts.get(columns) ?? new WeakMap();
  searchTexts.set(columns, texts);
  return rows.filter((row) => {
    let text = texts.get(row);
    if (text === undefined) {
      text = searched.map((column) => column.value(row) ?? "").join("\n").toLowerCase();
      texts.set(row, text);
    }
    return words.every((word) => text.includes(word));
  });
}

/** Unknown values come last in both directions. */
export function sortRows(rows, column, direction) {
  if (!column) return rows;
  const sign = direction === "descending" ? -1 : 1;
  const value = column.sortValue ?? column.value;
  return rows
    .map((row, index) => [row, value(row), index])
    .sort(([, a, i], [, b, j]) => {
      if (!isKnown(a) || !isKnown(b)) return Number(!isKnown(a)) - Number(!isKnown(b)) || i - j;
      const order = typeof a === "string" ? collator.compare(a, b) : a - b;
      return sign * order || i - j;
    })
    .map(([row]) => row);
}

function Cell({ column, row }) {
  const { show, exact = show, isNumber } = KINDS[column.kind ?? "text"];
  const value = column.value(row);
  const reason = column.reason?.(row);
  const title = isKnown(value) ? column.title_of?.(row) ?? exact(value) : reason;
  const shown = column.cell ? column.cell(row) : isKnown(value) ? show(value) : UNKNOWN;
  const isUnknown = !isKnown(value) && reason && !column.cell;
  return html`<div class="table-cell ${isNumber ? "number" : ""} ${column.isMono ? "mono" : ""}" role="gridcell" title=${title}>
    ${isUnknown ? html`<span class="unknown">${shown}</span>` : shown}
  </div>`;
}

function Head({ columns, template, sort, onSort }) {
  return html`<div class="table-head" role="row" aria-rowindex="1" style=${template}>
    ${columns.map((column) => {
      const { isNumber } = KINDS[column.kind ?? "text"];
      const isSorted = sort.name === column.name;
      return html`<div
        key=${column.name}
        class="table-cell ${isNumber ? "number" : ""}"
        role="columnheader"
        aria-sort=${isSorted ? sort.direction : null}
        title=${column.hint}
      >
        ${column.isUnsorted
          ? html`<span class="label">${column.title}</span>`
          : html`<button onClick=${() => onSort(column.name)}>${column.title}</button>`}
      </div>`;
    })}
  </div>`;
}

/** The rows in sight of a scrolled element, as `[first, end]`; `onVisible` hears of them once scrolling rests. */
function useWindow(element, count, onVisible, rows) {
  const [range, setRange] = useState([0, 40]);
  useLayoutEffect(() => {
    const measure = () => {
      const { scrollTop, clientHeight } = element.current;
      const first = Math.max(0, Math.floor(scrollTop / ROW_PX) - SPARE_ROWS);
      const end = Math.min(count, Math.ceil((scrollTop + clientHeight) / ROW_PX) + SPARE_ROWS);
      setRange((before) => (before[0] === first && before[1] === end ? before : [first, end]));
    };
    measure();
    element.current.addEventListener("scroll", measure, { passive: true });
    const resizes = new ResizeObserver(measure); // of the window, and of a dialog that opens
    resizes.observe(element.current);
    return () => {
      element.current?.removeEventListener("scroll", measure);
      resizes.disconnect();
    };
  }, [count]);
  useEffect(() => {
    if (!onVisible) return undefined;
    const timer = setTimeout(() => onVisible(rows.slice(...range)), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [range[0], range[1], rows, onVisible]);
  return range;
}

/**
 * `columns`: `[{name, title, value(row), kind, cell(row), width, reason(row), hint, isWideOnly, isUnsorted, isMono,
 * sortValue(row), isSearched}]`. `kind` is one of KINDS; `width` a length of CSS, such as "minmax(160px, 2fr)" or "90px";
 * `isWideOnly`: left out on narrow screens; `isAction`: left out of exports.
 * `rowKey(row)`; `onOpen(row)`: Enter or a click; `onVisible(rows)`: the rows in sight, for what is asked for them alone;
 * keep this function the same between renders. `sort`: `{name, direction}` at first. `height`: of the table, in CSS.
 */
export function Table({ columns, rows, rowKey, onOpen, onVisible, label, sort: first, height = "min(68vh, 900px)" }) {
  const isNarrow = useNarrow();
  const shown = columns.filter((column) => !(isNarrow && column.isWideOnly));
  const [sort, setSort] = useState(first ?? { name: null, direction: "ascending" });
  const [active, setActive] = useState(-1);
  const element = useRef(null);
  const by = columns.find((column) => column.name === sort.name);
  const sorted = useMemo(() => sortRows(rows, by, sort.direction), [rows, sort.name, sort.direction]);
  const [start, end] = useWindow(element, sorted.length, onVisible, sorted);
  const template = { gridTemplateColumns: shown.map((column) => column.width ?? "minmax(110px, 1fr)").join(" ") };
  const onSort = (name) =>
    setSort((before) => ({
      name,
      direction: before.name === name && before.direction === "ascending" ? "descending" : "ascending",
    }));
  const move = (index) => {
    const next = Math.max(0, Math.min(sorted.length - 1, index));
    setActive(next);
    const top = next * ROW_PX;
    const { scrollTop, clientHeight } = element.current;
    if (top < scrollTop) element.current.scrollTop = top;
    else if (top + ROW_PX + HEAD_PX > scrollTop + clientHeight) element.current.scrollTop = top + ROW_PX + HEAD_PX - clientHeight;
  };
  const pressed = (event) => {
    if (event.target !== element.current || !sorted.length) return;
    const page = Math.max(1, Math.floor(element.current.clientHeight / ROW_PX) - 2);
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page };
    const target = { ...steps, Home: 0, End: sorted.length - 1 }[event.key];
    if (target !== undefined) move(target);
    else if (event.key === "Enter" && onOpen && sorted[active]) onOpen(sorted[active]);
    else return;
    event.preventDefault();
  };
  const clicked = (event, row, index) => {
    setActive(index);
    if (onOpen && !event.target.closest("a, button, input") && !String(getSelection())) onOpen(row);
  };
  const id = (index) => `${label.replace(/\W+/g, "-")}-row-${index}`;
  return html`<div
    class="table"
    ref=${element}
    role="grid"
    tabindex="0"
    aria-label=${label}
    aria-rowcount=${sorted.length + 1}
    aria-activedescendant=${active >= start && active < end ? id(active) : null}
    onKeyDown=${pressed}
    style=${{ maxHeight: height }}
  >
    <div class="table-inner">
      <${Head} columns=${shown} template=${template} sort=${sort} onSort=${onSort} />
      <div class="table-body" role="rowgroup" style=${{ height: `${sorted.length * ROW_PX}px` }}>
        ${sorted.slice(start, end).map((row, offset) => {
          const index = start + offset;
          return html`<div
            key=${rowKey(row)}
            id=${id(index)}
            class="table-row ${onOpen ? "opens" : ""}"
            role="row"
            aria-rowindex=${index + 2}
            aria-selected=${String(index === active)}
            style=${{ ...template, height: `${ROW_PX}px`, top: `${index * ROW_PX}px` }}
            onClick=${(event) => clicked(event, row, index)}
          >
            ${shown.map((column) => html`<${Cell} key=${column.name} column=${column} row=${row} />`)}
          </div>`;
        })}
      </div>
    </div>
  </div>`;
}

/** A table with a filter, the count of rows, and exports: the usual list of a page. `children`: more tools. */
export function List({ name, columns, rows, filterLabel, empty, children, ...rest }) {
  const { query } = useRoute();
  const kept = useMemo(() => filterRows(rows, columns, query.filter), [rows, query.filter]);
  const count = kept.length === rows.length ? formatNumber(rows.length) : `${formatNumber(kept.length)} of ${formatNumber(rows.length)}`;
  const noun = rows.length === 1 ? name.replace(/ies$/, "y").replace(/s$/, "") : name;
  return html`<div class="table-tools">
      <${Filter} label=${filterLabel ?? "Filter"} />
      ${children}
      <span class="count" role="status">${count} ${noun}</span>
      <${Exports} name=${name} rows=${() => kept} columns=${columns.filter((column) => !column.isAction)} />
    </div>
    ${kept.length ? html`<${Table} columns=${columns} rows=${kept} label=${name} ...${rest} />` : rows.length ? html`<div class="empty"><strong>Nothing matches the filter</strong><button class="button small" onClick=${() => setQuery({ filter: null })}>Clear the filter</button></div>` : empty}`;
}
