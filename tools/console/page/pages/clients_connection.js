// One connection in full: what the client is, what it does, and which requests Kafka 4 would refuse.
import { formatAgo, formatBytes, formatByteRate, formatDuration, formatNumber, formatRate, formatTime } from "../components/format.js";
import { Dialog } from "../components/dialog.js";
import { html } from "../components/html.js";
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

/** Whether the client's requests are served by Kafka 4. `isShort`: only a client that breaks is named. */
export function Verdict({ row, isShort = false }) {
  const breaks = row.breaks_on_kafka_4;
  if (!breaks) return isShort ? null : "not known";
  const title = breaks.map(({ api, version }) => `${api} ${version}`).join(", ");
  if (breaks.length) return html`<${Badge} kind="bad" title=${title}>breaks on Kafka 4<//>`;
  return isShort ? null : html`<${Badge} kind="good">works on Kafka 4<//>`;
}

const APIS = [
  { name: "api", title: "API", value: (row) => row.api, width: "minmax(150px, 2fr)" },
  { name: "version", title: "Version", value: (row) => row.version, kind: "number", width: "90px" },
  { name: "requests", title: "Requests", value: (row) => row.requests, kind: "number", width: "110px" },
  {
    name: "kafka_4",
    title: "Kafka 4",
    value: (row) => row.reason,
    cell: (row) => (row.reason ? html`<${Badge} kind="bad" title=${row.reason}>refused<//>` : "served"),
    width: "100px",
  },
];

function apiRows(row) {
  const refused = new Map((row.breaks_on_kafka_4 ?? []).map((each) => [`${each.api} ${each.version}`, each.reason]));
  return row.apis.flatMap(({ api, versions }) =>
    versions.map(({ version, requests }) => ({ api, version, requests, reason: refused.get(`${api} ${version}`) ?? null })),
  );
}

function Topics({ names }) {
  if (!names.length) return "none in the last minutes";
  return names.map((name, index) => html`${index > 0 && ", "}<a href=${address("/topics", name)}>${name}</a>`);
}

export function ConnectionDialog({ row, onClose }) {
  const error = row.last_error;
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
    ["Kafka 4", html`<${Verdict} row=${row} />`],
  ];
  return html`<${Dialog} title=${`Connection of ${row.client_id || identityOf(row)}`} onClose=${onClose} isWide>
    <div class="form">
      <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
      <${Table} label="requests by API and version" columns=${APIS} rows=${apiRows(row)} rowKey=${(each) => `${each.api} ${each.version}`} height="40vh" />
    </div>
  <//>`;
}
