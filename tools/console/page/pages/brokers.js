// The brokers of the cluster.
import { html } from "../components/html.js";
import { Badge, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { paceOfCluster, useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

const COLUMNS = [
  { name: "node_id", title: "Id", value: (row) => row.node_id, kind: "number", width: "70px", isSearched: true },
  { name: "address", title: "Address", value: (row) => row.address, cell: (row) => html`<a tabindex="-1" href=${address("/brokers", row.node_id)}>${row.address}</a>`, width: "minmax(170px, 2fr)", isMono: true },
  {
    name: "is_controller",
    title: "Role",
    value: (row) => (row.is_controller ? "controller" : ""),
    cell: (row) => row.is_controller && html`<${Badge} kind="accent">controller<//>`,
    width: "110px",
  },
  { name: "rack", title: "Rack", value: (row) => row.rack, isWideOnly: true },
  { name: "partitions_led", title: "Leads", value: (row) => row.partitions_led, kind: "number", width: "100px" },
  { name: "replicas", title: "Replicas", value: (row) => row.replicas, kind: "number", width: "100px" },
  { name: "replicas_behind", title: "Behind", value: (row) => row.replicas_behind, kind: "number", width: "100px" },
];

export default function BrokersPage() {
  const { data, error, isLoading, reload } = useResource("brokers", {}, { everyMs: paceOfCluster });
  if (isLoading) return html`<${Loading} what="brokers" />`;
  return html`<${PageHead} title="Brokers" />
    ${error && html`<${Failure} error=${error} retry=${reload} />`} ${data && html`<${Brokers} data=${data} />`}`;
}

function Brokers({ data }) {
  const behind = data.brokers.reduce((sum, row) => sum + row.replicas_behind, 0);
  return html`<${Figures}
      items=${[
        { label: "Brokers", value: data.brokers.length, kind: "number" },
        { label: "Controller", value: data.controller_id, reason: "no broker is the controller" },
        { label: "Topics", value: data.topics, kind: "number" },
        { label: "Partitions", value: data.partitions, kind: "number" },
        { label: "Replicas behind", value: behind, kind: "number", mood: behind ? "warn" : "" },
      ]}
    />
    <${Missing} missing=${data.missing} />
    <${List}
      name="brokers"
      columns=${COLUMNS}
      rows=${data.brokers}
      rowKey=${(row) => row.node_id}
      onOpen=${(row) => go(address("/brokers", row.node_id))}
    />`;
}
