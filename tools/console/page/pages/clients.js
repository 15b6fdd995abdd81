// Clients: the connections of Headgate's brokers; of any Kafka, members of groups and producers.
import { formatNumber, isKnown } from "../components/format.js";
import { html, useEffect, useState } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { setQuery } from "../components/route.js";
import { List } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { ConnectionDialog, identityOf, softwareOf, Verdict } from "./clients_connection.js";
import { Members, Producers } from "./clients_wire.js";

const EVERY_MS = 5000;
const FIRST_MS = 2200;
const TABS = [
  { name: "connections", title: "Connections", Content: Connections },
  { name: "members", title: "Members of groups", Content: Members },
  { name: "producers", title: "Producers", Content: Producers },
];

export default function ClientsPage({ query }) {
  const tab = TABS.find(({ name }) => name === query.tab) ?? TABS[0];
  const choose = (name) => setQuery({ tab: name === TABS[0].name ? null : name, filter: null, connection: null });
  return html`<${PageHead} title="Clients" />
    <${Tabs} label="Clients" tabs=${TABS} chosen=${tab.name} onChoose=${choose} />
    <section class="form" role="tabpanel" aria-label=${tab.title}>
      <${tab.Content} key=${tab.name} query=${query} />
    </section>`;
}

const FIRST = () => "measured at the next look, a few seconds later";

const COLUMNS = [
  { name: "client_id", title: "Client id", value: (row) => row.client_id, width: "minmax(120px, 2fr)" },
  { name: "principal", title: "Principal", value: (row) => row.principal, width: "minmax(164px, 1fr)", isWideOnly: true },
  {
    name: "software",
    title: "Software",
    value: softwareOf,
    reason: () => "the client does not tell; those before KIP-511 never do",
    width: "minmax(96px, 1fr)",
    isWideOnly: true,
  },
  {
    name: "address",
    title: "Address",
    value: (row) => row.address,
    title_of: identityOf,
    width: "minmax(100px, 1fr)",
    isMono: true,
    isWideOnly: true,
  },
  { name: "listener", title: "Listener", value: (row) => row.listener, width: "104px", isWideOnly: true },
  { name: "in_bytes_per_second", title: "In", value: (row) => row.in_bytes_per_second, kind: "byteRate", reason: FIRST, width: "106px" },
  { name: "out_bytes_per_second", title: "Out", value: (row) => row.out_bytes_per_second, kind: "byteRate", reason: FIRST, width: "106px" },
  { name: "topics", title: "Topics", value: topicsText, width: "minmax(100px, 2fr)", isWideOnly: true },
  {
    name: "state",
    title: "State",
    value: stateText,
    cell: (row) => html`<${States} row=${row} />`,
    width: "minmax(110px, 1fr)",
  },
];

function topicsText({ topics_written: written, topics_read: read }) {
  const both = [
    ...written.map((topic) => `→ ${topic}`),
    ...read.map((topic) => `← ${topic}`),
  ];
  return both.join(", ");
}

function stateText(row) {
  return [
    row.kafka?.breaks ? `breaks on Kafka ${row.kafka.release}` : "",
    row.is_throttled ? "throttled" : "",
    row.last_error?.error ?? "",
    row.is_broker ? "broker" : "",
    row.is_logged_in ? "" : "not logged in",
  ]
    .filter(Boolean)
    .join(", ");
}

function States({ row }) {
  return html`<span class="row tight">
    <${Verdict} row=${row} isShort />
    ${row.is_throttled && html`<${Badge} kind="warn">throttled<//>`}
    ${row.last_error && html`<${Badge} kind="warn" title=${`${row.last_error.api} ${row.last_error.topic ?? ""}`}>${row.last_error.error}<//>`}
    ${row.is_broker && html`<${Badge}>broker<//>`}
    ${!row.is_logged_in && html`<${Badge}>not logged in<//>`}
  </span>`;
}

function Connections({ query }) {
  const [everyMs, setEveryMs] = useState(FIRST_MS);
  const { data, error, reload } = useResource("connections", {}, { everyMs });
  useEffect(() => {
    if (data?.connections?.some((row) => row.in_bytes_per_second !== null)) setEveryMs(EVERY_MS);
  }, [data]);
  if (!data && error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} what="connections" />`;
  const rows = data.connections;
  const opened = rows?.find((row) => identityOf(row) === query.connection);
  return html`${error && html`<${Failure} error=${error} retry=${reload} />`} <${Missing} missing=${data.missing} />
    ${rows &&
    html`<${Summary} rows=${rows} omitted=${data.omitted} />
      <${List}
        name="connections"
        columns=${COLUMNS}
        rows=${rows}
        rowKey=${(row) => `${row.broker} ${identityOf(row)} ${row.opened_ms}`}
        onOpen=${(row) => setQuery({ connection: identityOf(row) })}
        sort=${{ name: "client_id", direction: "ascending" }}
        empty=${html`<${Empty} title="No client is connected">Point one at the cluster: any Kafka client of any age.<//>`}
      />`}
    ${!rows &&
    html`<p class="soft">
      Members of groups and producers, in the tabs beside, are what the wire of any Kafka tells about its clients.
    </p>`}
    ${opened && html`<${ConnectionDialog} row=${opened} onClose=${() => setQuery({ connection: null })} />`}`;
}

function sum(rows, name) {
  const known = rows.map((row) => row[name]).filter(isKnown);
  return known.length ? known.reduce((total, value) => total + value, 0) : null;
}

function Summary({ rows, omitted }) {
  const clients = rows.filter((row) => !row.is_broker);
  const breaking = clients.filter((row) => row.kafka?.breaks).length;
  const release = rows.find((row) => row.kafka)?.kafka.release ?? 4;
  const throttled = clients.filter((row) => row.is_throttled).length;
  return html`<${Figures}
      items=${[
        { label: "Connections", value: clients.length, kind: "number" },
        { label: "Client ids", value: new Set(clients.map((row) => row.client_id)).size, kind: "number" },
        { label: "In", value: sum(clients, "in_bytes_per_second"), kind: "byteRate", reason: FIRST() },
        { label: "Out", value: sum(clients, "out_bytes_per_second"), kind: "byteRate", reason: FIRST() },
        { label: "Throttled", value: throttled, kind: "number", mood: throttled ? "warn" : "" },
        { label: `Break on Kafka ${release}`, value: breaking, kind: "number", mood: breaking ? "warn" : "" },
      ]}
    />
    ${omitted > 0 && html`<div class="notice">${formatNumber(omitted)} more connections are not shown.</div>`}`;
}
