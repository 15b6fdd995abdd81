// The topics to read messages of.
import { html } from "../components/html.js";
import { Empty, Failure, Loading, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

const COLUMNS = [
  {
    name: "topic",
    title: "Topic",
    value: (row) => row.topic,
    cell: (row) => html`<a href=${messagesAddress(row.topic)}>${row.topic}</a>`,
    width: "minmax(180px, 4fr)",
    isMono: true,
  },
  { name: "partitions", title: "Partitions", value: (row) => row.partitions, kind: "number", width: "110px" },
  { name: "internal", title: "Kind", value: (row) => (row.is_internal ? "internal" : ""), width: "110px", isWideOnly: true },
];

export function messagesAddress(topic, query = {}) {
  return address("/topics", topic, "messages", query);
}

export default function MessageTopicsPage() {
  const { data, error, isLoading, reload } = useResource("topics");
  if (isLoading) return html`<${Loading} what="topics" />`;
  const rows = data && data.rows.map((row) => Object.fromEntries(data.columns.map((name, index) => [name, row[index]])));
  return html`<${PageHead} title="Messages"><span class="soft">Choose a topic to read</span><//>
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${rows &&
    html`<${List}
      name="topics"
      columns=${COLUMNS}
      rows=${rows}
      rowKey=${(row) => row.topic}
      onOpen=${(row) => go(messagesAddress(row.topic))}
      empty=${html`<${Empty} title="There is no topic">Create one with <code>headgate topics create NAME</code>.<//>`}
    />`}`;
}
