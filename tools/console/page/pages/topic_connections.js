// The connections that write or read a topic, as Headgate's brokers name them.
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { List } from "../components/table.js";

const FIRST = () => "Measured at the next look, a few seconds later";
const whole = "Of the whole connection, all its topics";
const usesOf = (row) => [row.writes && "writes", row.reads && "reads"].filter(Boolean).join(", ");

const COLUMNS = [
  { name: "client_id", title: "Client id", value: (row) => row.client_id, width: "minmax(100px, 1.2fr)" },
  {
    name: "uses",
    title: "Uses",
    value: usesOf,
    cell: (row) =>
      html`${row.writes && html`<${Badge} kind="accent">writes<//>`} ${row.reads && html`<${Badge}>reads<//>`}
      ${row.is_broker && html` <${Badge} title="Another broker, which replicates">broker<//>`}`,
    width: "134px",
  },
  { name: "principal", title: "Principal", value: (row) => row.principal, width: "minmax(120px, 1fr)", isWideOnly: true },
  { name: "address", title: "Address", value: (row) => `${row.address}:${row.port}`, width: "minmax(140px, 1.2fr)", isMono: true },
  {
    name: "software",
    title: "Software",
    value: (row) => row.software_name && `${row.software_name} ${row.software_version ?? ""}`.trim(),
    reason: () => "The client has not named it; those before KIP-511 never do",
    width: "minmax(90px, 1fr)",
    isWideOnly: true,
  },
  { name: "in_bytes_per_second", title: "In", hint: whole, value: (row) => row.in_bytes_per_second, kind: "byteRate", reason: FIRST, width: "86px", isWideOnly: true },
  { name: "out_bytes_per_second", title: "Out", hint: whole, value: (row) => row.out_bytes_per_second, kind: "byteRate", reason: FIRST, width: "86px", isWideOnly: true },
  { name: "opened_ms", title: "Since", value: (row) => row.opened_ms, kind: "ago", width: "106px", isWideOnly: true },
  { name: "broker", title: "Broker", value: (row) => row.broker, kind: "number", width: "70px", isWideOnly: true },
];

export function TopicConnections({ topic }) {
  const { data, error, isLoading, reload } = useResource("topic_connections", { topic }, { everyMs: 5000 });
  if (isLoading) return html`<${Loading} what="connections" />`;
  return html`${error && html`<${Failure} error=${error} retry=${reload} />`}
  ${data &&
  html`<${Missing} missing=${data.missing} />
    ${data.connections &&
    html`<${List}
      name="connections"
      columns=${COLUMNS}
      rows=${data.connections}
      rowKey=${(row) => `${row.broker} ${row.address}:${row.port}`}
      empty=${html`<${Empty} title="No open connection has written or read this topic">
        A connection is named here from its first Produce or Fetch of the topic on.
      <//>`}
    />`}`}`;
}
