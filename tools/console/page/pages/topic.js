// One topic: its partitions and replicas, configs, the groups that read it, the producers that write it.
import { ChangeButton } from "../components/change.js";
import { formatNumber } from "../components/format.js";
import { html, useMemo } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";
import { chooseTab, Tabs } from "../components/tabs.js";
import { ProduceButton } from "./message_writer.js";
import { AddPartitions, DeleteRecords } from "./topic_changes.js";
import { TopicConfigs } from "./topic_configs.js";
import { TopicConnections } from "./topic_connections.js";
import { TopicGroups } from "./topic_groups.js";
import { TopicProducers } from "./topic_producers.js";

const TABS = [
  { name: "partitions", title: "Partitions" },
  { name: "replicas", title: "Replicas" },
  { name: "configs", title: "Configs" },
  { name: "groups", title: "Groups" },
  { name: "producers", title: "Producers" },
  { name: "connections", title: "Connections" },
];

export default function TopicPage({ values, query }) {
  const { topic } = values;
  const { data, error, isLoading, reload } = useResource("topic", { topic }, { everyMs: 5000 });
  const tab = TABS.some(({ name }) => name === query.tab) ? query.tab : TABS[0].name;
  const actions = html`<a class="button" href=${address("/topics", topic, "messages")}>Messages</a>
    <${ProduceButton} topic=${topic} onDone=${reload} />
    <${ChangeButton}
      change="delete_topics"
      title="Delete topic"
      kind="danger"
      parameters=${{ topic: [topic] }}
      onDone=${() => go(address("/topics"))}
    />`;
  return html`<${PageHead} title=${topic} path=${[["Topics", address("/topics")]]} actions=${actions}>
      ${data?.is_internal && html`<${Badge}>internal<//>`}
    <//>
    ${error && html`<${Failure} error=${error} retry=${reload} />`} ${isLoading && html`<${Loading} what="the topic" />`}
    ${data && html`<${Topic} data=${data} tab=${tab} reload=${reload} />`}`;
}

function Topic({ data, tab, reload }) {
  const rows = useMemo(() => withSizes(data), [data]);
  const known = rows.filter((row) => row.records !== null);
  const offline = rows.filter((row) => row.leader < 0).length;
  const behind = rows.filter((row) => row.isr.length < row.replicas.length).length;
  const sized = data.replicas.filter((row) => !row.is_future);
  return html`<${Figures}
      items=${[
        { label: "Partitions", value: rows.length, kind: "number", mood: offline ? "bad" : "" },
        { label: "Replicas", value: Math.max(0, ...rows.map((row) => row.replicas.length)), kind: "number" },
        { label: "Under-replicated", value: behind, kind: "number", mood: behind ? "warn" : "" },
        {
          label: "Records",
          value: known.length ? known.reduce((sum, row) => sum + row.records, 0) : null,
          kind: "number",
          reason: data.missing.offsets,
        },
        {
          label: "Size of all replicas",
          value: sized.length ? sized.reduce((sum, row) => sum + row.size_bytes, 0) : null,
          kind: "bytes",
          reason: data.missing.sizes,
        },
        { label: "Topic id", value: data.topic_id, reason: "The broker names no topic ids: Kafka does since 2.8", isSmall: true },
      ]}
    />
    <${Tabs} label="Parts of the topic" tabs=${TABS} chosen=${tab} onChoose=${chooseTab} />
    ${tab === "partitions" && html`<${Partitions} topic=${data.topic} rows=${rows} missing=${data.missing} reload=${reload} />`}
    ${tab === "replicas" && html`<${Replicas} data=${data} />`}
    ${tab === "configs" && html`<${TopicConfigs} topic=${data.topic} />`}
    ${tab === "groups" && html`<${TopicGroups} topic=${data.topic} />`}
    ${tab === "producers" && html`<${TopicProducers} topic=${data.topic} />`}
    ${tab === "connections" && html`<${TopicConnections} topic=${data.topic} />`}`;
}

/** Partitions with their records, and with the size of the leader's replica. */
function withSizes(data) {
  const sizes = new Map(data.replicas.filter((row) => !row.is_future).map((row) => [`${row.partition}@${row.broker}`, row.size_bytes]));
  return data.partitions.map((row) => ({
    ...row,
    records: row.end_offset === null ? null : row.end_offset - row.start_offset,
    size_bytes: sizes.get(`${row.partition}@${row.leader}`) ?? null,
  }));
}

function ReplicaIds({ row }) {
  return row.replicas.map((id, index) => {
    const isOffline = row.offline_replicas.includes(id);
    const isBehind = !row.isr.includes(id);
    const comma = index ? ", " : "";
    if (!isBehind && !isOffline) return html`${comma}${id}`;
    const title = isOffline ? `the replica on broker ${id} is offline` : `the replica on broker ${id} is not in sync`;
    return html`${comma}<${Badge} kind=${isOffline ? "bad" : "warn"} title=${title}>${id}<//>`;
  });
}

function partitionColumns(missing) {
  return [
    { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "90px", isSearched: true },
    {
      name: "leader",
      title: "Leader",
      value: (row) => (row.leader < 0 ? null : row.leader),
      cell: (row) =>
        row.leader < 0 ? html`<${Badge} kind="bad" title="No broker leads the partition">none<//>` : row.leader,
      kind: "number",
      width: "76px",
    },
    {
      name: "replicas",
      title: "Replicas",
      hint: "Node ids of the replicas, the preferred leader first; those that are not in sync are marked",
      value: (row) => row.replicas.join(", "),
      cell: (row) => html`<${ReplicaIds} row=${row} />`,
      title_of: (row) => `replicas ${row.replicas.join(", ")}; in sync ${row.isr.join(", ") || "none"}`,
      width: "minmax(110px, 1fr)",
      isWideOnly: true,
    },
    {
      name: "isr",
      title: "In sync",
      value: (row) => row.isr.join(", "),
      width: "minmax(90px, 1fr)",
      isWideOnly: true,
    },
    {
      name: "start_offset",
      title: "Start",
      hint: "The first offset",
      value: (row) => row.start_offset,
      reason: () => missing.offsets,
      kind: "number",
      width: "minmax(88px, 1fr)",
      isWideOnly: true,
    },
    {
      name: "end_offset",
      title: "End",
      hint: "The high watermark: consumers read up to it",
      value: (row) => row.end_offset,
      reason: () => missing.offsets,
      kind: "number",
      width: "minmax(88px, 1fr)",
    },
    {
      name: "records",
      title: "Records",
      hint: "End less start; records that compaction removed and markers of transactions count too",
      value: (row) => row.records,
      reason: () => missing.offsets,
      kind: "number",
      width: "minmax(88px, 1fr)",
      isWideOnly: true,
    },
    {
      name: "last_stable_offset",
      title: "Last stable",
      hint: "The end for read_committed consumers: before the first open transaction",
      value: (row) => row.last_stable_offset,
      cell: (row) => html`<${StableOffset} row=${row} />`,
      reason: () => missing.last_stable_offset,
      title_of: (row) =>
        row.end_offset > row.last_stable_offset
          ? `An open transaction hides ${formatNumber(row.end_offset - row.last_stable_offset)} records from read_committed consumers`
          : formatNumber(row.last_stable_offset),
      kind: "number",
      width: "minmax(96px, 1fr)",
      isWideOnly: true,
    },
    {
      name: "size_bytes",
      title: "Size",
      hint: "Bytes on disk of the leader's replica",
      value: (row) => row.size_bytes,
      reason: () => missing.sizes,
      kind: "bytes",
      width: "100px",
    },
    {
      name: "leader_epoch",
      title: "Epoch",
      hint: "The leader epoch",
      value: (row) => (row.leader_epoch < 0 ? null : row.leader_epoch),
      reason: () => "The broker names no leader epochs: Kafka does since 2.1",
      kind: "number",
      width: "76px",
      isWideOnly: true,
    },
  ];
}

function StableOffset({ row }) {
  const text = formatNumber(row.last_stable_offset);
  if (!(row.end_offset > row.last_stable_offset)) return text;
  return html`<${Badge} kind="warn">${text}<//>`;
}

function Partitions({ topic, rows, missing, reload }) {
  return html`<${Missing} missing=${missing} />
    <${List} name="partitions" columns=${partitionColumns(missing)} rows=${rows} rowKey=${(row) => row.partition}>
      <${AddPartitions} topic=${topic} count=${rows.length} onDone=${reload} />
      <${DeleteRecords} topic=${topic} partitions=${rows} onDone=${reload} />
    <//>`;
}

const REPLICA_COLUMNS = [
  { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "90px", isSearched: true },
  { name: "broker", title: "Broker", value: (row) => row.broker, kind: "number", width: "80px" },
  {
    name: "log_directory",
    title: "Log directory",
    value: (row) => row.log_directory,
    cell: (row) => html`<a tabindex="-1" href=${address("/log-directories", row.broker, row.log_directory)}>${row.log_directory}</a>`,
    width: "minmax(140px, 3fr)",
    isMono: true,
  },
  { name: "size_bytes", title: "Size", value: (row) => row.size_bytes, kind: "bytes", width: "100px" },
  {
    name: "offset_lag_records",
    title: "Behind",
    hint: "Records that the replica lacks",
    value: (row) => row.offset_lag_records,
    kind: "number",
    width: "96px",
    isWideOnly: true,
  },
  {
    name: "is_future",
    title: "State",
    value: (row) => (row.is_future ? "moves here" : "in place"),
    cell: (row) => (row.is_future ? html`<${Badge} kind="accent">moves here<//>` : html`<span class="soft">in place</span>`),
    width: "110px",
    isWideOnly: true,
  },
];

function Replicas({ data }) {
  const missing = data.missing.sizes ? { sizes: data.missing.sizes } : {};
  return html`<${Missing} missing=${missing} />
    <${List}
      name="replicas"
      columns=${REPLICA_COLUMNS}
      rows=${data.replicas}
      rowKey=${(row) => `${row.partition}@${row.broker}@${row.log_directory}`}
      empty=${html`<${Empty} title="No broker shows its log directories">The reason stands above.<//>`}
    />`;
}
