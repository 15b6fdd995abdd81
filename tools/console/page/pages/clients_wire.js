// Clients as any Kafka tells of them: members of groups, and idempotent or transactional producers.
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

const MEMBERS = [
  { name: "client_id", title: "Client id", value: (row) => row.client_id, width: "minmax(120px, 1fr)" },
  { name: "group", title: "Group", value: (row) => row.group, width: "minmax(120px, 1fr)" },
  { name: "group_state", title: "State", value: (row) => row.group_state, width: "90px" },
  { name: "address", title: "Address", value: (row) => row.address, width: "minmax(110px, 1fr)", isMono: true },
  { name: "topics", title: "Reads", value: (row) => row.topics.join(", "), width: "minmax(120px, 1fr)" },
  { name: "partitions", title: "Partitions", value: (row) => row.partitions, kind: "number", width: "110px" },
  { name: "instance_id", title: "Instance id", value: (row) => row.instance_id, reason: () => "no static member", width: "110px", isWideOnly: true },
  { name: "member_id", title: "Member id", value: (row) => row.member_id, width: "minmax(140px, 1fr)", isMono: true, isWideOnly: true },
];

export function Members() {
  return html`<${Part}
    resource="members"
    columns=${MEMBERS}
    rowKey=${(row) => `${row.group}\n${row.member_id}`}
    onOpen=${(row) => go(address("/groups", row.group))}
    empty=${html`<${Empty} title="No group has members now">A consumer with a group.id is one while it runs.<//>`}
  />`;
}

const PRODUCERS = [
  { name: "producer_id", title: "Producer id", value: (row) => row.producer_id, kind: "number", isSearched: true, width: "120px" },
  { name: "producer_epoch", title: "Epoch", value: (row) => row.producer_epoch, kind: "number", width: "90px" },
  {
    name: "transactional_id",
    title: "Transactional id",
    value: (row) => row.transactional_id,
    reason: () => "idempotent, without transactions",
    width: "minmax(150px, 2fr)",
  },
  { name: "topics", title: "Writes", value: (row) => row.topics.join(", "), width: "minmax(150px, 2fr)" },
  { name: "partitions", title: "Partitions", value: (row) => row.partitions, kind: "number", width: "110px" },
  { name: "last_timestamp_ms", title: "Last batch", value: (row) => row.last_timestamp_ms, kind: "ago", width: "120px" },
  {
    name: "state",
    title: "State",
    value: (row) => (row.is_in_transaction ? "in a transaction" : ""),
    cell: (row) => row.is_in_transaction && html`<${Badge} kind="accent">in a transaction<//>`,
    width: "150px",
  },
];

export function Producers() {
  return html`<p class="soft">
      Partitions remember idempotent and transactional producers for a day or so; other producers leave no trace.
    </p>
    <${Part}
      resource="producers"
      columns=${PRODUCERS}
      rowKey=${(row) => row.producer_id}
      empty=${html`<${Empty} title="No partition remembers a producer">
        Producers with enable.idempotence=true, the default since Kafka 3.0, are listed here once they write.
      <//>`}
    />`;
}

function Part({ resource, empty, ...rest }) {
  const { data, error, reload } = useResource(resource);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} what=${resource} />`;
  const rows = data[resource];
  return html`<${Missing} missing=${data.missing} />
    ${rows &&
    html`${data.total > rows.length && html`<div class="notice">The first ${rows.length} of ${data.total} are shown.</div>`}
      <${List} name=${resource} rows=${rows} empty=${!data.missing[resource] && empty} ...${rest} />`}`;
}
