// The log directories of all brokers.
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

const NEARLY_FULL = 0.1;
const NO_VOLUME = "The broker does not name the space of its volume: Kafka does since 3.3";

const freeShare = (row) => (row.total_bytes ? row.usable_bytes / row.total_bytes : null);

function State({ row }) {
  if (row.error) return html`<${Badge} kind="bad" title=${row.error}>offline<//>`;
  if (freeShare(row) !== null && freeShare(row) < NEARLY_FULL) {
    return html`<${Badge} kind="warn" title="Less than a tenth of the volume is free">nearly full<//>`;
  }
  if (row.is_cordoned) return html`<${Badge} title="The directory takes no new partitions">cordoned<//>`;
  if (row.replicas_moving_here) return html`<${Badge} kind="accent">${row.replicas_moving_here} move here<//>`;
  return html`<span class="soft">ok</span>`;
}

export const COLUMNS = [
  { name: "broker", title: "Broker", value: (row) => row.broker, kind: "number", width: "72px", isSearched: true },
  {
    name: "log_directory",
    title: "Log directory",
    value: (row) => row.log_directory,
    cell: (row) => html`<a tabindex="-1" href=${address("/log-directories", row.broker, row.log_directory)}>${row.log_directory}</a>`,
    width: "minmax(100px, 3fr)",
    isMono: true,
  },
  { name: "replicas", title: "Replicas", value: (row) => row.replicas, kind: "number", width: "92px", isWideOnly: true },
  { name: "size_bytes", title: "Size", hint: "Bytes of all replicas", value: (row) => row.size_bytes, kind: "bytes", width: "94px" },
  {
    name: "usable_bytes",
    title: "Free",
    hint: "Free bytes of the volume",
    value: (row) => row.usable_bytes,
    reason: () => NO_VOLUME,
    kind: "bytes",
    width: "94px",
  },
  {
    name: "total_bytes",
    title: "Volume",
    hint: "Bytes of the volume",
    value: (row) => row.total_bytes,
    reason: () => NO_VOLUME,
    kind: "bytes",
    width: "96px",
    isWideOnly: true,
  },
  { name: "free", title: "Free share", value: freeShare, reason: () => NO_VOLUME, kind: "share", width: "100px", isWideOnly: true },
  {
    name: "state",
    title: "State",
    value: (row) => row.error ?? (row.is_cordoned ? "cordoned" : "ok"),
    cell: (row) => html`<${State} row=${row} />`,
    width: "120px",
    isWideOnly: true,
  },
];

export default function LogDirectoriesPage() {
  const { data, error, isLoading, reload } = useResource("log_directories", {}, { everyMs: 15_000 });
  if (isLoading) return html`<${Loading} what="log directories" />`;
  return html`<${PageHead} title="Log directories" />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${data &&
    html`<${Missing} missing=${data.missing} />
      <${List}
        name="log directories"
        columns=${COLUMNS}
        rows=${data.log_directories}
        rowKey=${(row) => `${row.broker}:${row.log_directory}`}
        onOpen=${(row) => go(address("/log-directories", row.broker, row.log_directory))}
        empty=${html`<${Empty} title="No broker shows its log directories">The reason stands above.<//>`}
      />`}`;
}
