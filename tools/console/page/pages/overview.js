// The cluster at a glance: its numbers, what needs attention, progress, and live plots.
import { formatBytes, formatByteRate, formatCount, formatDuration, formatNumber, formatRate, formatShare } from "../components/format.js";
import { html } from "../components/html.js";
import { aligned, latest, mergedApis, summed, times, useLive } from "../components/live.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead, Progress } from "../components/notices.js";
import { Plot } from "../components/plot.js";
import { paceOfCluster, useResource } from "../components/resource.js";
import { address } from "../components/route.js";
import { Table } from "../components/table.js";

const MOST_SERIES = 6;
const WAITING = new Set(["Fetch", "JoinGroup", "SyncGroup", "ShareFetch", "ConsumerGroupHeartbeat"]);

export default function OverviewPage() {
  const { data, error, isLoading, reload } = useResource("overview", {}, { everyMs: paceOfCluster });
  const live = useLive();
  const brokers = Object.values(live.brokers).filter((broker) => broker.numbers.length);
  return html`<${PageHead} title="Overview">
      ${data?.cluster_id && html`<span class="soft">cluster <code>${data.cluster_id}</code></span>`}
    <//>
    ${isLoading && html`<${Loading} what="the cluster" />`} ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${data && html`<${Numbers} data=${data} brokers=${brokers} />`}
    <${Missing} missing=${{ ...data?.missing, ...live.missing }} />
    ${live.error && html`<${Failure} error=${live.error} />`}
    <${Waiting} brokers=${Object.values(live.brokers)} />
    ${data && html`<${Attention} data=${data} />`} ${brokers.length > 0 && html`<${BrokerPlots} brokers=${brokers} />`}
    ${live.source === "end offsets" && html`<${WirePlots} wire=${live.wire} />`}
    ${brokers.length > 0 && html`<${Apis} brokers=${brokers} />`}`;
}

function Numbers({ data, brokers }) {
  const known = brokers.length
    ? [
        { label: "Connections", value: latest(brokers, "connections"), kind: "number" },
        { label: "Free on disk", value: latest(brokers, "disk_free_bytes"), kind: "bytes" },
      ]
    : [];
  return html`<${Figures}
    items=${[
      { label: "Brokers", value: data.brokers, kind: "number" },
      { label: "Controller", value: data.controller_id, reason: "no broker is the controller" },
      { label: "Topics", value: data.topics, kind: "number" },
      { label: "Partitions", value: data.partitions, kind: "number" },
      { label: "Without leader", value: data.partitions_without_leader, kind: "number", mood: data.partitions_without_leader ? "bad" : "" },
      { label: "Behind", value: data.partitions_behind, kind: "number", mood: data.partitions_behind ? "warn" : "" },
      ...known,
    ]}
  />`;
}

/** What brokers wait for: openings after a start, coordinators, disks. */
function Waiting({ brokers }) {
  const rows = brokers.flatMap((broker) => [
    ...(broker.error ? [{ broker, sentence: broker.error }] : []),
    ...(broker.conditions ?? []).map((condition) => ({ broker, condition })),
  ]);
  if (!rows.length) return null;
  return html`<section class="card form" aria-label="Progress">
    ${rows.map(({ broker, condition, sentence }) => {
      if (sentence) return html`<div><strong>${broker.name}</strong>: ${sentence}</div>`;
      const isCounted = condition.partitions_total > 0;
      const bytes = condition.bytes_total ? `, ${formatBytes(condition.bytes_done)} of ${formatBytes(condition.bytes_total)} scanned` : "";
      const label = `${broker.name} waits for ${condition.waits_for}${bytes}`;
      return isCounted
        ? html`<${Progress} label=${label} done=${condition.partitions_done} total=${condition.partitions_total} secondsLeft=${condition.seconds_left} />`
        : html`<div>${label}</div>`;
    })}
  </section>`;
}

const ATTENTION = [
  { name: "topic", title: "Topic", value: (row) => row.topic, width: "minmax(160px, 2fr)" },
  { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "100px" },
  {
    name: "state",
    title: "State",
    value: (row) => (row.leader === null ? "no leader" : "behind"),
    cell: (row) => html`<${Badge} kind=${row.leader === null ? "bad" : "warn"}>${row.leader === null ? "no leader" : "behind"}<//>`,
    width: "110px",
  },
  { name: "replicas", title: "Replicas", value: (row) => row.replicas.join(", "), isWideOnly: true },
  { name: "behind", title: "Not in sync", value: (row) => row.behind.join(", ") },
];
const MOVES = [
  { name: "topic", title: "Topic", value: (row) => row.topic, width: "minmax(160px, 2fr)" },
  { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "100px" },
  { name: "adding", title: "Moves to", value: (row) => row.adding.join(", ") },
  { name: "removing", title: "Leaves", value: (row) => row.removing.join(", ") },
];
const place = (row) => `${row.topic}-${row.partition}`;

function Attention({ data }) {
  return html`${data.attention.length > 0 &&
    html`<h2>Partitions that need attention</h2>
      <${Table} label="Partitions that need attention" columns=${ATTENTION} rows=${data.attention} rowKey=${place} height="300px" />`}
    ${data.reassignments?.length > 0 &&
    html`<h2>Partitions on the move</h2>
      <${Table} label="Partitions on the move" columns=${MOVES} rows=${data.reassignments} rowKey=${place} height="300px" />`}`;
}

function sums(brokers, figures) {
  return figures.map(([label, figure]) => ({ label, values: summed(brokers, figure) }));
}

/** One line a broker; of many brokers the first ones. */
function each(brokers, figure) {
  return brokers.slice(0, MOST_SERIES).map((broker) => ({ label: broker.name, values: aligned(brokers, broker, figure) }));
}

export function BrokerPlots({ brokers }) {
  const at = times(brokers);
  const some = brokers.length > MOST_SERIES ? `The first ${MOST_SERIES} of ${brokers.length} brokers.` : null;
  const hasReplication = brokers.length > 1;
  const compaction = sums(brokers, [["read", "compaction_read_bytes_per_s"], ["written", "compaction_written_bytes_per_s"]]);
  const isCompacting = compaction.some(({ values }) => values.some((value) => value > 0));
  return html`<div class="plots">
    <${Plot} title="Throughput" times=${at} format=${formatByteRate} series=${sums(brokers, [["in", "in_bytes_per_s"], ["out", "out_bytes_per_s"]])} />
    <${Plot} title="Records in" times=${at} format=${formatRate} series=${sums(brokers, [["records", "in_records_per_s"]])} />
    <${Plot} title="Requests" times=${at} format=${formatRate} series=${sums(brokers, [["requests", "requests_per_s"], ["refused parts", "errors_per_s"]])} />
    <${Latency} brokers=${brokers} />
    <${Plot} title="Memory" times=${at} format=${formatBytes} series=${each(brokers, "memory_bytes")} note=${some} />
    <${Plot} title="Event loop busy" times=${at} format=${formatShare} series=${each(brokers, "loop_share")} note=${some} />
    <${Plot} title="Disks" times=${at} format=${formatByteRate} series=${sums(brokers, [["written", "disk_written_bytes_per_s"], ["read", "disk_read_bytes_per_s"]])} />
    <${Plot} title="Connections" times=${at} format=${formatNumber} series=${each(brokers, "connections")} note=${some} />
    ${hasReplication && html`<${Plot} title="Replication" times=${at} format=${formatByteRate} series=${sums(brokers, [["copied", "replicated_in_bytes_per_s"]])} />`}
    ${isCompacting && html`<${Plot} title="Compaction" times=${at} format=${formatByteRate} series=${compaction} />`}
  </div>`;
}

/** The latency of the busiest APIs at the slowest broker; those that wait by design are in the table alone. */
function Latency({ brokers }) {
  const [longest] = [...brokers].sort((a, b) => b.numbers.length - a.numbers.length);
  const apis = mergedApis(brokers).map(({ api }) => api).filter((api) => !WAITING.has(api)).slice(0, 4);
  const maps = brokers.map((broker) => new Map(broker.numbers.map((number, index) => [number, broker.latency[index]])));
  const series = apis.map((api) => ({
    label: api,
    values: longest.numbers.map((number) => {
      const known = maps.map((map) => map.get(number)?.[api]).filter((value) => value !== undefined);
      return known.length ? Math.max(...known) : null;
    }),
  }));
  return html`<${Plot} title="Latency, 99th percentile" times=${longest.timesMs.map((ms) => ms / 1000)} format=${formatDuration} series=${series} />`;
}

const NOT_MEASURED = () => "no request of the sample was measured lately";
const APIS = [
  { name: "api", title: "API", value: (row) => row.api, width: "minmax(140px, 2fr)" },
  { name: "requests_per_s", title: "Requests", value: (row) => row.requests_per_s, kind: "rate", width: "110px" },
  { name: "mean_ms", title: "Mean", value: (row) => row.mean_ms, kind: "duration", width: "100px", reason: NOT_MEASURED },
  { name: "p99_ms", title: "p99", value: (row) => row.p99_ms, kind: "duration", width: "100px", reason: NOT_MEASURED },
];

const SLOWEST = { name: "slowest", title: "Slowest", value: (row) => row.slowest, width: "minmax(90px, 1fr)", isWideOnly: true, reason: NOT_MEASURED };

function Apis({ brokers }) {
  const rows = mergedApis(brokers);
  if (!rows.length) return null;
  const isCluster = brokers.length > 1;
  const ofCluster = isCluster ? " Requests are those of all brokers; p99 is that of the slowest." : "";
  return html`<h2>APIs in use</h2>
    <p class="soft">Over the last ten readings; times are of a sample, and include the wait of a fetch for records.${ofCluster}</p>
    <${Table} label="APIs in use" columns=${isCluster ? [...APIS, SLOWEST] : APIS} rows=${rows} rowKey=${(row) => row.api} height="420px" />`;
}

const TOPICS = [
  {
    name: "topic",
    title: "Topic",
    value: (row) => row.topic,
    cell: (row) => html`<a href=${address("/topics", row.topic)}>${row.topic}</a>`,
    width: "minmax(160px, 2fr)",
  },
  { name: "in_records_per_s", title: "Records in", value: (row) => row.in_records_per_s, kind: "rate", width: "140px" },
];

function WirePlots({ wire }) {
  if (!wire.times.length) return html`<${Loading} what="the first rates" />`;
  return html`<div class="plots">
      <${Plot} title="Records in" times=${wire.times} format=${formatRate} series=${[{ label: "records", values: wire.records }]} note="From the end offsets of ${formatCount(wire.partitions)} partitions." />
    </div>
    ${wire.topics.length
      ? html`<h2>Busiest topics</h2>
          <${Table} label="Busiest topics" columns=${TOPICS} rows=${wire.topics} rowKey=${(row) => row.topic} height="400px" />`
      : html`<${Empty} title="No records arrive now">Produce some, and this page shows them within a second.<//>`}`;
}
