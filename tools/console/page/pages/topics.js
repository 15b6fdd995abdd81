// All topics: names at once, sizes, offsets and lag for the rows in sight.
import { useFiguresInSight } from "../components/figures_in_sight.js";
import { formatNumber, formatShare } from "../components/format.js";
import { html, useEffect, useMemo } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { CreateTopic } from "./topic_changes.js";

const AT_ONCE = 500; // topics whose figures are asked for without a request by the visitor

const LEAST_MS = 2000; // between the two answers of a rate

/** A row with the records a second since an earlier answer, its `base`. */
function withRate(row, before) {
  const base = { end_offsets: row.end_offsets, measured_ms: row.measured_ms };
  if (!before || row.end_offsets === null || before.base.end_offsets === null) return { ...row, base, records_rate: null };
  const passed = row.measured_ms - before.base.measured_ms;
  if (passed < LEAST_MS) return { ...row, base: before.base, records_rate: before.records_rate };
  return { ...row, base, records_rate: Math.max(0, ((row.end_offsets - before.base.end_offsets) * 1000) / passed) };
}

function toRows(data) {
  return data.rows.map((row) => Object.fromEntries(data.columns.map((name, index) => [name, row[index]])));
}

function State({ row }) {
  if (row.partitions_offline) {
    const title = "Partitions without a leader: they can neither be read nor written";
    return html`<${Badge} kind="bad" title=${title}>${row.partitions_offline} offline<//>`;
  }
  if (row.partitions_under_replicated) {
    const title = "Under-replicated: partitions with a replica that is not in sync";
    return html`<${Badge} kind="warn" title=${title}>${row.partitions_under_replicated} behind<//>`;
  }
  return html`<span class="soft">ok</span>`;
}

function lagTitle(row) {
  const groups = row.groups ?? [];
  const first = groups.slice(0, 6).map(({ group, lag_records }) => `${group}: ${formatNumber(lag_records)}`);
  return [...first, ...(groups.length > 6 ? [`and ${groups.length - 6} more groups`] : [])].join("\n");
}

function columns(missing) {
  const reason = (part) => (row) => row.measured_ms ? missing[part] ?? "Not known" : "Not asked for yet";
  return [
    {
      name: "topic",
      title: "Topic",
      value: (row) => row.topic,
      cell: (row) => html`<a href=${address("/topics", row.topic)} tabindex="-1">${row.topic}</a>`,
      width: "minmax(130px, 3fr)",
      title_of: (row) => row.topic,
    },
    { name: "partitions", title: "Partitions", value: (row) => row.partitions, kind: "number", width: "92px", isWideOnly: true },
    {
      name: "replication_factor",
      title: "Replicas",
      hint: "The replication factor",
      value: (row) => row.replication_factor,
      kind: "number",
      width: "84px",
      isWideOnly: true,
    },
    {
      name: "records",
      title: "Records",
      hint: "End less start offsets; records that compaction removed and markers of transactions count too",
      value: (row) => row.records,
      reason: reason("records"),
      kind: "number",
      width: "108px",
      isWideOnly: true,
    },
    {
      name: "records_rate",
      title: "Records/s",
      hint: "Appended records a second, by the end offsets of the last two answers",
      value: (row) => row.records_rate,
      reason: (row) => (row.measured_ms ? missing.records ?? "Known after the second answer" : "Not asked for yet"),
      kind: "rate",
      width: "92px",
      isWideOnly: true,
    },
    {
      name: "size_bytes",
      title: "Size",
      hint: "Bytes on disk of all replicas",
      value: (row) => row.size_bytes,
      reason: reason("size"),
      kind: "bytes",
      width: "92px",
    },
    {
      name: "lag_records",
      title: "Lag",
      hint: "The lag in records of the group that is farthest behind",
      value: (row) => row.groups?.[0]?.lag_records ?? null,
      reason: (row) =>
        row.measured_ms && !row.groups?.length ? missing.lag ?? "No group has an offset here" : reason("lag")(row),
      title_of: lagTitle,
      kind: "number",
      width: "100px",
    },
    {
      name: "groups",
      title: "Groups",
      hint: "Groups with a committed offset",
      value: (row) => row.groups?.length ?? null,
      reason: reason("lag"),
      kind: "number",
      width: "78px",
      isWideOnly: true,
    },
    {
      name: "state",
      title: "State",
      value: (row) => (row.partitions_offline ? "offline" : row.partitions_under_replicated ? "under-replicated" : "ok"),
      cell: (row) => html`<${State} row=${row} />`,
      width: "104px",
      isWideOnly: true,
    },
  ];
}

export default function TopicsPage({ query }) {
  const { data, error, isLoading, reload } = useResource("topics", {}, { everyMs: 15_000 });
  if (isLoading) return html`<${Loading} what="topics" />`;
  return html`<${PageHead} title="Topics" actions=${html`<${CreateTopic} />`} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`} ${data && html`<${Topics} data=${data} tab=${query.tab} />`}`;
}

function Topics({ data, tab = "topics" }) {
  const all = useMemo(() => toRows(data), [data]);
  const own = all.filter((row) => !row.is_internal);
  const listed = tab === "internal" ? all.filter((row) => row.is_internal) : own;
  const sight = useFiguresInSight({
    resource: "topic_figures",
    parameter: "topic",
    list: "topics",
    key: "topic",
    most: AT_ONCE,
    combine: withRate,
  });
  const { figures, missing, error, loading, onVisible, loadAll } = sight;
  const rows = useMemo(() => listed.map((row) => ({ ...row, ...figures.get(row.topic) })), [data, tab, figures]);
  useEffect(() => {
    if (listed.length <= AT_ONCE) loadAll(listed.map((row) => row.topic));
  }, [tab, listed.length]);
  const total = (name) => listed.reduce((sum, row) => sum + row[name], 0);
  const [offline, behind] = [total("partitions_offline"), total("partitions_under_replicated")];
  const isPartial = listed.length > AT_ONCE && rows.some((row) => !row.measured_ms);
  const tabs = [
    { name: "topics", title: `Topics (${formatNumber(own.length)})` },
    { name: "internal", title: `Internal (${formatNumber(all.length - own.length)})` },
  ];
  return html`<${Figures}
      items=${[
        { label: "Topics", value: listed.length, kind: "number" },
        { label: "Partitions", value: total("partitions"), kind: "number" },
        { label: "Offline partitions", value: offline, kind: "number", mood: offline ? "bad" : "" },
        { label: "Under-replicated", value: behind, kind: "number", mood: behind ? "warn" : "" },
      ]}
    />
    <${Tabs} label="Kinds of topics" tabs=${tabs} chosen=${tab} />
    ${error && html`<${Failure} error=${error} />`} <${Missing} missing=${missing} />
    <${List}
      name="topics"
      filterLabel="Filter topics"
      columns=${columns(missing)}
      rows=${rows}
      rowKey=${(row) => row.topic}
      onOpen=${(row) => go(address("/topics", row.topic))}
      onVisible=${onVisible}
      empty=${html`<${NoTopics} isInternal=${tab === "internal"} />`}
    >
      ${isPartial &&
      html`<button
        class="button small"
        disabled=${loading !== null}
        title="Sizes, records and lag are asked for the rows in sight; to sort or export by these, load all"
        onClick=${() => loadAll(listed.map((row) => row.topic))}
      >
        ${loading === null ? "Load all figures" : `Loading ${formatShare(loading)}`}
      </button>`}
    <//>`;
}

function NoTopics({ isInternal }) {
  if (isInternal) return html`<${Empty} title="There are no internal topics yet">The first group or transaction makes one.<//>`;
  return html`<${Empty} title="There are no topics that you may see">
    A client that produces may create one, and so does <code>headgate topics create orders --partitions 3</code>.
  <//>`;
}
