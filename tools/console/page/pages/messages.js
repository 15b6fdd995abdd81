// The messages of a topic: a search whose address can be sent, its progress, and the found rows.
import { resourceAddress } from "../components/api.js";
import { exactTime, formatBytes, formatDuration, formatNumber, formatTime, isKnown } from "../components/format.js";
import { html, useState } from "../components/html.js";
import { Badge, Empty, Failure, PageHead, Progress } from "../components/notices.js";
import { useStream } from "../components/resource.js";
import { address, setQuery } from "../components/route.js";
import { Table, useNarrow } from "../components/table.js";
import { Visible, visibleText } from "../components/visible.js";
import { SearchForm, searchOf } from "./message_form.js";
import { MessagePanel } from "./message_panel.js";
import { ProduceButton } from "./message_writer.js";

const MOST_HELD = 5000; // rows in the browser; the first ones make room
const MOST_EXPORTED = 100000;
const EMPTY = { rows: [], dropped: 0, all: null, rest: null, total: null, bytes: 0, seconds: 0, progress: null, reason: null, problems: [] };

export default function MessagesPage({ values, query }) {
  const { topic } = values;
  const search = searchOf(topic, query);
  const key = JSON.stringify(search);
  return html`<${PageHead}
      title=${topic}
      path=${[["Topics", address("/topics")]]}
      actions=${html`<a class="button" href=${address("/topics", topic)}>Topic</a> <${ProduceButton} topic=${topic} />`}
    >
      <span class="soft">messages</span>
    <//>
    <${SearchForm} key=${`form ${key}`} topic=${topic} query=${query} />
    <${Results} key=${key} topic=${topic} search=${search} query=${query} />`;
}

// ------------------------------------------------------------------------------------------------------- the search

function withRows(before, rows, isLive) {
  const all = isLive ? [...rows.toReversed(), ...before.rows] : [...before.rows, ...rows];
  const kept = isLive ? all.slice(0, MOST_HELD) : all.slice(-MOST_HELD);
  return { ...before, rows: kept, dropped: before.dropped + all.length - kept.length };
}

function after(before, event, isLive) {
  if (event.event === "start") {
    const problems = event.problems;
    return { ...before, all: before.all ?? event.ranges, total: before.total ?? event.offsets_total, problems, reason: null };
  }
  if (event.event === "rows") return withRows(before, event.rows, isLive);
  if (event.event !== "progress" && event.event !== "end") return before;
  return { ...before, progress: event, rest: event.rest, reason: event.reason ?? null, problems: event.problems ?? before.problems };
}

/** Begins the next page: what the pages before have read is kept. */
function nextPage(before) {
  const { bytes_scanned: bytes = 0, seconds = 0 } = before.progress ?? {};
  return { ...before, bytes: before.bytes + bytes, seconds: before.seconds + seconds, progress: null, reason: null };
}

function useSearch(search) {
  const isLive = search.start === "live";
  const [run, setRun] = useState({ turn: 1, ranges: null });
  const [state, setState] = useState(EMPTY);
  const [isStopped, setStopped] = useState(false);
  const parameters = { ...search, ranges: run.ranges, turn: run.turn };
  const { isOpen, error, stop } = useStream("messages", parameters, (event) => setState((before) => after(before, event, isLive)));
  return {
    ...state,
    isLive,
    isOpen,
    isStopped,
    error,
    stop: () => {
      stop();
      setStopped(true);
    },
    next: () => {
      setStopped(false);
      setState(nextPage);
      setRun(({ turn }) => ({ turn: turn + 1, ranges: isLive ? null : state.rest }));
    },
    again: () => {
      setStopped(false);
      setState(EMPTY);
      setRun(({ turn }) => ({ turn: turn + 1, ranges: null }));
    },
  };
}

function parseRanges(text) {
  const parts = (text ?? "").split(",").filter(Boolean).map((part) => part.split(/[:-]/));
  return new Map(parts.map(([number, start, end]) => [number, { start, end }]));
}

/** The ranges that the shown pages have read: offsets stay texts, as they may be larger than exact numbers. */
export function readRanges(all, rest, isBackward) {
  const left = parseRanges(rest);
  return [...parseRanges(all)]
    .map(([number, { start, end }]) => {
      const after = left.get(number);
      if (!after) return [number, start, end];
      return isBackward ? [number, after.end, end] : [number, start, after.start];
    })
    .filter(([, start, end]) => start !== end)
    .map(([number, start, end]) => `${number}:${start}-${end}`)
    .join(",");
}

// ------------------------------------------------------------------------------------------------------ the results

function Results({ topic, search, query }) {
  const found = useSearch(search);
  const isNarrow = useNarrow();
  const columns = isNarrow ? NARROW_COLUMNS : query.at ? BESIDE_COLUMNS : COLUMNS;
  const open = (row) => setQuery({ at: rowKey(row) });
  return html`<${State} found=${found} search=${search} />
    ${found.error && html`<${Failure} error=${found.error} retry=${found.again} />`}
    ${found.problems.map((problem) => html`<div class="notice warn" key=${problem}>${problem}</div>`)}
    <div class="messages ${query.at ? "with-panel" : ""}">
      <div class="messages-rows">
        ${found.rows.length > 0
          ? html`<${Table}
              label="messages"
              columns=${columns}
              rows=${found.rows}
              rowKey=${rowKey}
              onOpen=${open}
              height="min(70vh, 1000px)"
            />`
          : !found.isOpen && !found.error && html`<${Nothing} found=${found} search=${search} />`}
        <${Foot} found=${found} search=${search} />
      </div>
      ${query.at &&
      html`<${MessagePanel} key="panel" topic=${topic} at=${query.at} search=${search} rows=${found.rows} rowKey=${rowKey} />`}
    </div>`;
}

function rowKey(row) {
  return `${row.partition}:${row.offset}`;
}

/** What the search does or has done, in one line. */
function State({ found, search }) {
  const { progress, isOpen, isLive, total } = found;
  const left = progress && !isLive ? progress.offsets_total - progress.offsets_scanned : null;
  const scanned = isKnown(total) && isKnown(left) ? total - left : 0;
  const secondsLeft = isOpen && scanned > 0 && progress.seconds > 1 ? (progress.seconds / progress.offsets_scanned) * left : null;
  const isWide = isOpen && !isLive && total > 0;
  return html`<div class="messages-state">
    <div class="row">
      <span role="status"><${Sentence} found=${found} /></span>
      <span class="soft">${figuresOf(found, scanned)}</span>
      <div class="row actions">
        ${isOpen && html`<button class="button small" onClick=${found.stop}>Stop</button>`}
        ${!isOpen && html`<button class="button small" onClick=${found.again}>Search again</button>`}
        <${Export} found=${found} search=${search} />
      </div>
    </div>
    ${isWide && html`<${Progress} label="Searched" done=${scanned} total=${total} secondsLeft=${secondsLeft} />`}
    ${isWide && isFiltered(search) && html`<${Partitions} progress=${progress} />`}
  </div>`;
}

function isFiltered(search) {
  return Boolean(search.text || search.key || search.header || search.jmespath);
}

function Sentence({ found }) {
  const { isOpen, isLive, isStopped, reason, rows } = found;
  const count = `${formatNumber(rows.length + found.dropped)} ${rows.length + found.dropped === 1 ? "message" : "messages"}`;
  if (isOpen) return isLive ? html`<strong>Live</strong>: ${count}` : html`Searching: ${count} so far`;
  if (isStopped) return `Stopped: ${count}`;
  if (reason === "all") return `${count}; everything was searched`;
  if (reason === "time") return `${count} so far; the time of this page is over`;
  return reason === "limit" ? `${count} shown; there may be more` : count;
}

function figuresOf({ progress, total, bytes, seconds, isLive, dropped }, scanned) {
  if (!progress) return "";
  const read = bytes + progress.bytes_scanned;
  const all = progress.bytes_total_estimate; // an estimate, which the end may exceed
  const of = isKnown(all) && scanned < total && progress.bytes_scanned < all ? ` of about ${formatBytes(bytes + all)}` : "";
  const parts = [
    isLive ? `${formatNumber(progress.records_scanned)} records read` : `${formatNumber(scanned)} of ${formatNumber(total)} offsets`,
    `${formatBytes(read)}${of}`,
    formatDuration((seconds + progress.seconds) * 1000),
  ];
  if (progress.rows_skipped) parts.push(`${formatNumber(progress.rows_skipped)} matched and were not shown: they come too fast`);
  if (progress.offsets_skipped) parts.push(`${formatNumber(progress.offsets_skipped)} offsets were passed over to keep up`);
  if (progress.expressions_failed) parts.push(`the expression fails for ${formatNumber(progress.expressions_failed)} values`);
  if (dropped) parts.push(`the first ${formatNumber(dropped)} rows made room`);
  return parts.join(" · ");
}

/** The offsets that are left, by partition. */
function Partitions({ progress }) {
  if (!progress?.partitions.length) return null;
  return html`<details>
    <summary>Offsets left by partition</summary>
    <div class="messages-partitions mono">
      ${progress.partitions.map(
        ([number, start, end]) => html`<span key=${number}>${number}: ${formatNumber(start)} – ${formatNumber(end)}</span>`,
      )}
    </div>
  </details>`;
}

/** Files of what was read so far, made by the console again: the whole values, without the page's bounds. */
function Export({ found, search }) {
  const ranges = found.all && !found.isLive ? readRanges(found.all, found.rest, search.start === "newest") : "";
  if (!ranges || !found.rows.length) return null;
  const target = (format) => resourceAddress("messages_export", { ...search, limit: MOST_EXPORTED, ranges, format });
  const hint = `What this page has found, at most ${formatNumber(MOST_EXPORTED)} messages`;
  return html`<span class="row" role="group" aria-label="Export" title=${hint}>
    <span class="soft">Export</span>
    ${[
      ["jsonl", "JSON lines"],
      ["csv", "CSV"],
      ["values", "Values (tar)"],
    ].map(([format, text]) => html`<a class="button quiet small" key=${format} href=${target(format)} download>${text}</a>`)}
  </span>`;
}

function Foot({ found, search }) {
  if (found.isOpen || found.isLive || !found.rest) return null;
  const text = found.reason === "limit" ? `Next ${search.limit ?? 100}` : "Go on";
  return html`<div class="row messages-foot">
    <button class="button primary" onClick=${found.next}>${text}</button>
    <span class="soft">${search.start === "newest" ? "older messages" : "later messages"}</span>
  </div>`;
}

function Nothing({ found, search }) {
  if (found.isStopped || found.reason === "time") return null;
  if (found.isLive) return html`<${Empty} title="No message has come">Start it again to wait for the next ones.<//>`;
  if (found.total === 0) {
    return html`<${Empty} title="There are no messages here">
      The chosen partitions have none from this place on; choose another start, or wait for them with “Live”.
    <//>`;
  }
  return isFiltered(search)
    ? html`<${Empty} title="No message matches">
        All ${formatNumber(found.total)} offsets were searched. A text is searched as it is written, upper and lower case
        too; <code>/(?i)text/</code> searches both.
      <//>`
    : html`<${Empty} title="There are no messages in this range">Compaction or retention has removed them.<//>`;
}

// ------------------------------------------------------------------------------------------------------ the columns

function Flags({ row }) {
  if (row.kind === "unreadable") return html`<${Badge} kind="bad" title=${row.problem}>unreadable<//> `;
  return html`${row.transaction === "aborted" && html`<${Badge} kind="bad" title="Its transaction was aborted">aborted<//> `}
  ${row.transaction === "pending" &&
  html`<${Badge} kind="warn" title="Behind an open transaction: readers of committed records wait">pending<//> `}
  ${row.kind === "control" && html`<${Badge} title="A marker of the broker: consumers do not get it">control<//> `}
  ${row.kind === "tombstone" && html`<${Badge} title="Without a value: compaction removes the key">tombstone<//> `}
  ${row.value?.problem && html`<${Badge} kind="warn" title=${row.value.problem}>!<//> `}`;
}

function ValueCell({ row }) {
  const text = row.kind === "unreadable" ? row.problem : row.value?.text ?? "";
  return html`<${Flags} row=${row} /><span class="mono"><${Visible} text=${text} />${row.value?.is_cut && "…"}</span>`;
}

function KeyCell({ row }) {
  if (!row.key) return html`<span class="soft">null</span>`;
  return html`<span class="mono"><${Visible} text=${row.key.text} /></span>`;
}

const TIME = {
  name: "timestamp_ms",
  title: "Time",
  value: (row) => row.timestamp_ms,
  title_of: (row) => `${exactTime(row.timestamp_ms)} ${row.timestamp_type ?? ""}`,
  reason: () => "the message has no time: its format is older than Kafka 0.10",
  kind: "time",
};
const VALUE = {
  name: "value",
  title: "Value",
  value: (row) => row.value?.text ?? row.problem ?? "",
  title_of: (row) => visibleText(row.problem ?? row.value?.text.slice(0, 300) ?? "null"),
  cell: (row) => html`<${ValueCell} row=${row} />`,
  isUnsorted: true,
};
const COLUMNS = [
  {
    ...TIME,
    cell: (row) => isKnown(row.timestamp_ms) && formatTime(row.timestamp_ms, { hasMillis: true }),
    width: "212px",
  },
  { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "92px" },
  { name: "offset", title: "Offset", value: (row) => row.offset, kind: "number", width: "110px" },
  {
    name: "key",
    title: "Key",
    value: (row) => row.key?.text ?? null,
    title_of: (row) => visibleText(row.key.text),
    cell: (row) => html`<${KeyCell} row=${row} />`,
    width: "minmax(120px, 1fr)",
    isUnsorted: true,
  },
  { ...VALUE, width: "minmax(260px, 4fr)" },
  {
    name: "format",
    title: "Format",
    value: (row) => row.value?.format ?? null,
    width: "92px",
    isUnsorted: true,
  },
  { name: "bytes", title: "Size", value: (row) => row.value?.bytes ?? null, kind: "bytes", width: "92px" },
];
const AT = { name: "offset", title: "At", value: (row) => row.offset, cell: rowKey, isUnsorted: true };
const BESIDE_COLUMNS = [
  { ...TIME, cell: (row) => isKnown(row.timestamp_ms) && formatTime(row.timestamp_ms, { hasMillis: true }).slice(11), width: "124px" },
  { ...AT, width: "104px" },
  { ...VALUE, width: "minmax(120px, 1fr)" },
];
const NARROW_COLUMNS = [
  { ...TIME, cell: (row) => isKnown(row.timestamp_ms) && formatTime(row.timestamp_ms).slice(11), width: "98px" },
  { ...AT, width: "88px" },
  { ...VALUE, width: "minmax(0, 1fr)" },
];
