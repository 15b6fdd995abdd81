// The groups that read a topic, with their lag there.
import { GroupState, lagReason } from "../components/group_badges.js";
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";

function columns(missing) {
  return [
    {
      name: "group",
      title: "Group",
      value: (row) => row.group,
      cell: (row) => html`<a tabindex="-1" href=${address("/groups", row.group)}>${row.group}</a>`,
      width: "minmax(150px, 2fr)",
    },
    { name: "state", title: "State", value: (row) => row.state, cell: (row) => html`<${GroupState} state=${row.state} />`, width: "150px" },
    { name: "type", title: "Type", value: (row) => row.type, width: "100px", isWideOnly: true },
    { name: "members", title: "Members", value: (row) => row.members, kind: "number", width: "90px", isWideOnly: true },
    {
      name: "lag_records",
      title: "Lag",
      hint: "Records behind in this topic",
      value: (row) => row.lag_records,
      reason: (row) => lagReason(row, missing),
      kind: "number",
      width: "110px",
    },
    {
      name: "lag_ms",
      title: "Lag in time",
      hint: "The age of the oldest record of this topic that the group has not read",
      value: (row) => row.lag_ms,
      reason: (row) => lagReason(row, missing),
      kind: "duration",
      width: "120px",
    },
    {
      name: "partitions_out_of_range",
      title: "Out of range",
      hint: "Partitions whose committed offset is below the start or beyond the end",
      value: (row) => row.partitions_out_of_range,
      cell: (row) => (row.partitions_out_of_range ? html`<${Badge} kind="bad">${row.partitions_out_of_range}<//>` : 0),
      kind: "number",
      width: "112px",
      isWideOnly: true,
    },
  ];
}

export function TopicGroups({ topic }) {
  const { data, error, isLoading, reload } = useResource("topic_groups", { topic }, { everyMs: 10_000 });
  if (isLoading) return html`<${Loading} what="groups" />`;
  return html`${error && html`<${Failure} error=${error} retry=${reload} />`}
  ${data &&
  html`<${Missing} missing=${data.missing} />
    <${List}
      name="groups"
      columns=${columns(data.missing)}
      rows=${data.groups}
      rowKey=${(row) => row.group}
      onOpen=${(row) => go(address("/groups", row.group, { filter: topic }))}
      empty=${!data.missing.groups &&
      html`<${Empty} title="No group reads this topic">
        A group is shown once a member has a partition of the topic, or has committed an offset.
      <//>`}
    />`}`;
}
