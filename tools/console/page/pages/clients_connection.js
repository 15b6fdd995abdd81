// One connection in full: what the client is, what it does, and which requests Kafka 4 would refuse.
import { formatAgo, formatBytes, formatByteRate, formatDuration, formatNumber, formatRate, formatTime } from "../components/format.js";
import { Dialog } from "../components/dialog.js";
import { html, useMemo } from "../components/html.js";
import { Badge } from "../components/notices.js";
import { address } from "../components/route.js";
import { Table } from "../components/table.js";

/** The address of a client, with its port: one connection. */
export function identityOf(row) {
  return `${row.address.includes(":") ? `[${row.address}]` : row.address}:${row.port}`;
}

export function softwareOf(row) {
  return row.software_name === null ? null : `${row.software_name} ${row.software_version ?? ""}`.trim();
}

/** Whether the newest Kafka serves what the client has used. `isShort`: only a client that breaks is named. */
export function Verdict({ row, isShort = false }) {
  const verdict = row.kafka;
  if (!verdict) return isShort ? null : "not known";
  if (verdict.breaks) return html`<${Badge} kind="bad" title=${reasons(verdict).join(", ")}>breaks on Kafka ${verdict.release}<//>`;
  return isShort ? null : html`<${Badge} kind="good">works on Kafka ${verdict.release}<//>`;
}

function reasons({ refused, lacking }) {
  const versions = refused.map(({ api, version, since, is_too_new: isNew }) =>
    isNew ? `${api} ${version} is newer than this Kafka` : `${api} ${version} is refused since Kafka ${since}`,
  );
  return [...versions, ...lacking.map((api) => `this Kafka has no ${api}`)];
}

const apis = (release) => [
  { name: "api", title: "API", value: (row) => row.api, width: "minmax(150px, 2fr)" },
  { name: "version", title: "Version", value: (row) => row.version, kind: "number", width: "90px" },
  { name: "requests", title: "Requests", value: (row) => row.requests, kind: "number", width: "110px" },
  {
    name: "kafka",
    title: `Kafka ${release}`,
    value: (row) => row.reason ?? "served",
    cell: (row) => (row.reason ? html`<${Badge} kind="bad">${row.reason}<//>` : "served"),
    width: "150px",
  },
];

function apiRows(row) {
  const refused = new Map(
    (row.kafka?.refused ?? []).map((each) => [
      `${each.api} ${each.version}`,
      each.is_too_new ? "too new" : `refused since ${each.since}`,
    ]),
  );
  const lacking = new Set(row.kafka?.lacking);
  const answer = (api, version) => refused.get(`${api} ${version}`) ?? (lacking.has(api) ? "not there" : null);
  return row.apis.flatMap(({ api, versions }) =>
    versions.map(({ version, requests }) => ({ api, version, requests, reason: answer(api, version) })),
  );
}

function Topics({ names }) {
  if (!names.length) return "none in the last minutes";
  return names.map((name, index) => html`${index > 0 && ", "}<a href=${address("/topics", name)}>${name}</a>`);
}

/** Formats of records before Kafka 0.11, which the newest Kafka neither takes nor gives. */
function formats({ kafka }) {
  const old = kafka?.old_formats ?? [];
  if (!old.length) return [];
  return [["Old formats", old.map((each) => `${each.action} messages of format ${each.message_format} (${each.api} ${each.version})`).join(", ")]];
}

export function ConnectionDialog({ row, onClose }) {
  const error = row.last_error;
  const release = row.kafka?.release ?? "4";
  const columns = useMemo(() => apis(release), [release]);
  const facts = [
    ["Client id", row.client_id || "none"],
    ["Principal", row.principal],
    ["Software", softwareOf(row) ?? "not told by the client"],
    ["Address", identityOf(row)],
    ["Broker", `${row.broker}, listener ${row.listener}`],
    ["Open since", `${formatTime(row.opened_ms)}, last active ${formatAgo(row.active_ms)}`],
    ["In", `${formatByteRate(row.in_bytes_per_second)}, ${formatBytes(row.in_bytes)} in all`],
    ["Out", `${formatByteRate(row.out_bytes_per_second)}, ${formatBytes(row.out_bytes)} in all`],
    ["Requests", `${formatRate(row.requests_per_second)}, ${formatNumber(row.requests)} in all`],
    ["Writes", html`<${Topics} names=${row.topics_written} />`],
    ["Reads", html`<${Topics} names=${row.topics_read} />`],
    ["Throttled", row.throttles ? `${formatNumber(row.throttles)} times, ${formatDuration(row.throttled_ms)} in all` : "never"],
    ["Last error", error ? `${error.error} at ${error.api} ${error.topic ?? ""}, ${formatAgo(error.at_ms)}` : "none"],
    ["Verdict", html`<${Verdict} row=${row} />`],
    ...formats(row),
  ];
  return html`<${Dialog} title=${`Connection of ${row.client_id || identityOf(row)}`} onClose=${onClose} isWide>
    <div class="form">
      <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
      <${Table} label="requests by API and version" columns=${columns} rows=${apiRows(row)} rowKey=${(each) => `${each.api} ${each.version}`} height="40vh" />
    </div>
  <//>`;
}
