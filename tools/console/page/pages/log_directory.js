// The replicas in one log directory, the largest first.
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

const COLUMNS = [
  {
    name: "topic",
    title: "Topic",
    value: (row) => row.topic,
    cell: (row) => html`<a tabindex="-1" href=${address("/topics", row.topic)}>${row.topic}</a>`,
    width: "minmax(150px, 3fr)",
  },
  { name: "partition", title: "Partition", value: (row) => row.partition, kind: "number", width: "90px", isSearched: true },
  { name: "size_bytes", title: "Size", value: (row) => row.size_bytes, kind: "bytes", width: "110px" },
  {
    name: "offset_lag_records",
    title: "Behind",
    hint: "Records that the replica lacks",
    value: (row) => row.offset_lag_records,
    kind: "number",
    width: "100px",
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

export default function LogDirectoryPage({ values }) {
  const parameters = { broker: values.broker, log_directory: values.directory };
  const { data, error, isLoading, reload } = useResource("log_directory", parameters, { everyMs: 30_000 });
  const size = data?.replicas.reduce((sum, row) => sum + row.size_bytes, 0);
  return html`<${PageHead} title=${values.directory} path=${[["Log directories", address("/log-directories")]]} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`} ${isLoading && html`<${Loading} what="replicas" />`}
    ${data &&
    html`<${Figures}
        items=${[
          { label: "Broker", value: values.broker },
          { label: "Replicas", value: data.replicas.length, kind: "number" },
          { label: "Size", value: size, kind: "bytes" },
        ]}
      />
      <${Missing} missing=${data.missing} />
      <${List}
        name="replicas"
        columns=${COLUMNS}
        rows=${data.replicas}
        rowKey=${(row) => `${row.topic}-${row.partition}-${row.is_future}`}
        onOpen=${(row) => go(address("/topics", row.topic))}
        empty=${html`<${Empty} title="No replica is in this directory" />`}
      />`}`;
}
