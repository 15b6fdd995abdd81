// The producers of a topic, as the leaders of its partitions know them.
import { formatNumber } from "../components/format.js";
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { List } from "../components/table.js";

function columns(missing) {
  return [
    { name: "partition", title: "Part.", hint: "Partition", value: (row) => row.partition, kind: "number", width: "60px", isSearched: true },
    { name: "producer_id", title: "Producer id", value: (row) => row.producer_id, width: "100px", isSearched: true },
    {
      name: "transactional_id",
      title: "Transactional id",
      value: (row) => row.transactional_id,
      reason: () => missing.transactional_id ?? "The producer is idempotent, or its transactional id has expired",
      width: "minmax(100px, 2fr)",
    },
    { name: "producer_epoch", title: "Epoch", value: (row) => row.producer_epoch, kind: "number", width: "76px", isWideOnly: true },
    {
      name: "last_sequence",
      title: "Last sequence",
      hint: "The sequence number of its last record here",
      value: (row) => row.last_sequence,
      kind: "number",
      width: "120px",
      isWideOnly: true,
    },
    {
      name: "last_timestamp_ms",
      title: "Last batch",
      hint: "By the producer's clock",
      value: (row) => row.last_timestamp_ms,
      kind: "ago",
      width: "104px",
    },
    {
      name: "transaction_start_offset",
      title: "Open transaction",
      hint: "The first offset of its open transaction",
      value: (row) => row.transaction_start_offset,
      cell: (row) =>
        row.transaction_start_offset === null
          ? html`<span class="soft">none</span>`
          : html`<${Badge} kind="accent">from ${formatNumber(row.transaction_start_offset)}<//>`,
      kind: "number",
      width: "150px",
      isWideOnly: true,
    },
  ];
}

export function TopicProducers({ topic }) {
  const { data, error, isLoading, reload } = useResource("topic_producers", { topic }, { everyMs: 10_000 });
  if (isLoading) return html`<${Loading} what="producers" />`;
  return html`${error && html`<${Failure} error=${error} retry=${reload} />`}
  ${data &&
  html`<${Missing} missing=${data.missing} />
    <${List}
      name="producers"
      columns=${columns(data.missing)}
      rows=${data.producers}
      rowKey=${(row) => `${row.partition}@${row.producer_id}`}
      empty=${!data.missing.producers &&
      html`<${Empty} title="No idempotent or transactional producer has written here lately">
        Brokers remember a producer for a day. One without idempotence leaves no trace.
      <//>`}
    />
    ${data.producers_total > data.producers.length &&
    html`<p class="soft">The first ${formatNumber(data.producers.length)} of ${formatNumber(data.producers_total)} are shown.</p>`}`}`;
}
