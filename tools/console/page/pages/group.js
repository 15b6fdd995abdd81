// One group: lag by partition and by topic, and its members.
import { mayWrite } from "../components/api.js";
import { formatTime, isKnown } from "../components/format.js";
import { GroupState, OffsetStatus, Verdict } from "../components/group_badges.js";
import { html, useEffect, useMemo, useState } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go, setQuery } from "../components/route.js";
import { useRowChanges } from "../components/row_changes.js";
import { List } from "../components/table.js";
import { chooseTab, Tabs } from "../components/tabs.js";
import { DeleteGroups, MoveOffsets, topicActions, useOffsetEditor } from "./group_changes.js";

const COMMITTED = "read_committed";
const SPARK = "spark";
const OF_SPARK = "spark:";
const MANY = 200; // partitions of a group

export default function GroupPage({ values, query }) {
  const { group } = values;
  const isolation = query.isolation === COMMITTED ? COMMITTED : null;
  const { data, error, isLoading, reload } = useGroup(group, isolation);
  const actions = data && data.type !== SPARK && html`<${GroupActions} data=${data} onDone=${reload} />`;
  return html`<${PageHead} title=${group} path=${[["Groups", address("/groups")]]} actions=${actions}>
      ${data?.state && html`<${GroupState} state=${data.state} />`} ${data && html`<${Badge}>${data.type}<//>`}
      ${data?.verdict && html`<${Verdict} verdict=${data.verdict} />`}
    <//>
    ${error && html`<${Failure} error=${error} retry=${reload} />`} ${isLoading && html`<${Loading} what="the group" />`}
    ${data && html`<${Group} data=${data} tab=${query.tab} isolation=${isolation} onDone=${reload} />`}`;
}

function GroupActions({ data, onDone }) {
  const topics = useMemo(() => [...new Set(data.partitions.map((row) => row.topic))], [data]);
  return html`<${MoveOffsets} groups=${[data.group]} topics=${topics} onDone=${onDone} />
    <${DeleteGroups} groups=${[data.group]} onDone=${({ deleted }) => deleted.length && go(address("/groups"))} />`;
}

/** The group by the cluster, with verdicts by the brokers' survey; a query of Spark is known to the survey alone. */
function useGroup(group, isolation) {
  const mayBeOfSpark = group.startsWith(OF_SPARK);
  const { data: survey, error: failure } = useResource("lag_survey", { group }, { everyMs: 10_000 });
  const surveyed = survey?.groups?.[0];
  const isOfSpark = mayBeOfSpark && surveyed?.type === SPARK;
  const isAsked = !mayBeOfSpark || Boolean(failure) || (survey !== null && !isOfSpark);
  const parameters = { group, isolation_level: isolation };
  const [isLarge, setLarge] = useState(false);
  const everyMs = isLarge ? 30_000 : 5000; // the lag in time costs the brokers a read for each partition that is behind
  const { data, error, isLoading, reload } = useResource(isAsked ? "group" : null, parameters, { everyMs });
  useEffect(() => setLarge((data?.partitions.length ?? 0) > MANY), [data]);
  const joined = useMemo(() => {
    if (isOfSpark) return ofSpark(surveyed, survey);
    return data && { ...data, verdict: surveyed?.verdict ?? null, partitions: withVerdicts(data.partitions, surveyed), survey };
  }, [data, survey]);
  return { data: joined, error, isLoading: isLoading || (!isAsked && !joined), reload };
}

/** A query of Spark in the form of a group of the cluster. */
function ofSpark(surveyed, survey) {
  return {
    ...surveyed,
    survey,
    members: [],
    assignor: null,
    coordinator: null,
    partitions_out_of_range: surveyed.partitions.filter((row) => row.status !== "ok").length,
    missing: surveyed.error ? { lag: surveyed.error } : {},
  };
}

function withVerdicts(partitions, surveyed) {
  const rows = new Map((surveyed?.partitions ?? []).map((row) => [`${row.topic}-${row.partition}`, row]));
  return partitions.map((row) => {
    const known = rows.get(`${row.topic}-${row.partition}`);
    return { ...row, verdict: known?.verdict ?? null, committed_ms: known?.committed_ms ?? null };
  });
}

function Group({ data, tab = "partitions", isolation, onDone }) {
  const topics = useMemo(() => byTopic(data.partitions), [data]);
  const tabs = [
    { name: "partitions", title: `Partitions (${data.partitions.length})` },
    { name: "topics", title: `Topics (${topics.length})` },
    { name: "members", title: `Members (${data.members.length})` },
  ];
  const isOfSpark = data.type === SPARK;
  const outside = data.partitions_out_of_range;
  return html`<${Figures}
      items=${[
        { label: "Lag", value: data.lag_records, kind: "number", reason: data.missing.lag ?? "Nothing is committed" },
        { label: "Lag in time", value: data.lag_ms, kind: "duration", reason: data.missing.lag ?? "No time is known" },
        { label: "Members", value: isOfSpark ? null : data.members.length, kind: "number", reason: "A query of Spark has none" },
        { label: "Offsets out of range", value: outside, kind: "number", mood: outside ? "bad" : "" },
        { label: "Assignor", value: data.assignor, reason: "The group has no members, or no assignor", isSmall: true },
        { label: "Coordinator", value: data.coordinator, reason: "A query of Spark has none", isSmall: true },
      ]}
    />
    <${Missing} missing=${data.missing} />
    ${!data.verdict && data.survey?.missing.verdicts && html`<p class="soft">No verdicts: ${data.survey.missing.verdicts}.</p>`}
    <${Tabs} label="Parts of the group" tabs=${tabs} chosen=${tab} onChoose=${chooseTab} />
    ${tab === "partitions" && html`<${Partitions} data=${data} isolation=${isolation} onDone=${onDone} />`}
    ${tab === "topics" && html`<${Topics} data=${data} rows=${topics} onDone=${onDone} />`} ${tab === "members" && html`<${Members} data=${data} />`}`;
}

/** A row for each topic: sums of records, and the largest age. */
function byTopic(partitions) {
  const topics = new Map();
  for (const row of partitions) {
    const sum = topics.get(row.topic) ?? { topic: row.topic, partitions: 0, lag_records: null, lag_ms: null };
    sum.partitions += 1;
    if (row.lag_records !== null) sum.lag_records = (sum.lag_records ?? 0) + row.lag_records;
    if (row.lag_ms !== null) sum.lag_ms = Math.max(sum.lag_ms ?? 0, row.lag_ms);
    topics.set(row.topic, sum);
  }
  return [...topics.values()];
}

const topicLink = (row) => html`<a tabindex="-1" href=${address("/topics", row.topic)}>${row.topic}</a>`;
const NO_AGE = "Not known: nothing is committed, or the records have no time";

const TOPIC_COLUMNS = [
  { name: "topic", title: "Topic", value: (row) => row.topic, cell: topicLink, width: "minmax(160px, 3fr)" },
  { name: "partitions", title: "Partitions", value: (row) => row.partitions, kind: "number", width: "100px" },
  { name: "lag_records", title: "Lag", value: (row) => row.lag_records, reason: () => NO_AGE, kind: "number", width: "120px" },
  { name: "lag_ms", title: "Lag in time", value: (row) => row.lag_ms, reason: () => NO_AGE, kind: "duration", width: "120px" },
];

// On narrow screens the buttons take the room of the figures
const CHANGEABLE_TOPICS = TOPIC_COLUMNS.map((column) => ({ ...column, isWideOnly: column.name !== "topic" }));
const OFFSETS = { width: "160px", title: "Offsets" };

/** Topics with buttons for the offsets of one. */
function Topics({ data, rows, onDone }) {
  const [changeable, dialog] = useRowChanges(CHANGEABLE_TOPICS, (row) => topicActions(data.group, row), OFFSETS, onDone);
  const columns = mayWrite() && data.type !== SPARK ? changeable : TOPIC_COLUMNS;
  const empty = html`<${NoOffsets} reason=${data.missing.lag} />`;
  return html`<${List} name="topics" columns=${columns} rows=${rows} rowKey=${(row) => row.topic} empty=${empty} />
    ${dialog}`;
}

const PARTITION_COLUMNS = [
  { name: "topic", title: "Topic", value: (row) => row.topic, cell: topicLink, width: "minmax(110px, 1.2fr)" },
  { name: "partition", title: "Part.", hint: "Partition", value: (row) => row.partition, kind: "number", width: "58px", isSearched: true },
  {
    name: "committed_offset",
    title: "Committed",
    hint: "The next offset that the group reads",
    value: (row) => row.committed_offset,
    reason: (row) => `Status: ${row.status}`,
    title_of: (row) => `${row.committed_offset}${isKnown(row.committed_ms) ? `, committed at ${formatTime(row.committed_ms)}` : ""}`,
    kind: "number",
    width: "104px",
    isWideOnly: true,
  },
  { name: "start_offset", title: "Start", value: (row) => row.start_offset, kind: "number", width: "88px", isWideOnly: true },
  { name: "end_offset", title: "End", value: (row) => row.end_offset, kind: "number", width: "94px", isWideOnly: true },
  {
    name: "lag_records",
    title: "Lag",
    hint: "End less committed offset",
    value: (row) => row.lag_records,
    reason: (row) => `Status: ${row.status}`,
    kind: "number",
    width: "92px",
  },
  {
    name: "lag_ms",
    title: "In time",
    hint: "The age of the oldest record that is not read",
    value: (row) => row.lag_ms,
    reason: () => NO_AGE,
    kind: "duration",
    width: "112px",
  },
  {
    name: "status",
    title: "Status",
    hint: "Where the committed offset stands in the partition",
    value: (row) => row.status,
    cell: (row) => html`<${OffsetStatus} status=${row.status} />`,
    width: "104px",
    isWideOnly: true,
  },
  {
    name: "client_id",
    title: "Member",
    value: (row) => (row.member_id ? `${row.client_id} ${row.host}` : null),
    reason: () => "No member has the partition",
    title_of: (row) => `${row.member_id}\nclient ${row.client_id} at ${row.host}`,
    width: "minmax(150px, 1.4fr)",
    isWideOnly: true,
  },
];
const VERDICT_COLUMN = {
  name: "verdict",
  title: "Verdict",
  hint: "By the last ten commits: whether the group keeps up",
  value: (row) => row.verdict,
  cell: (row) => html`<${Verdict} verdict=${row.verdict} />`,
  width: "86px",
  isWideOnly: true,
};
const METADATA_COLUMN = {
  name: "metadata",
  title: "Metadata",
  hint: "The client's own text beside the committed offset",
  value: (row) => row.metadata || null,
  width: "minmax(100px, 1fr)",
  isWideOnly: true,
};

function Partitions({ data, isolation, onDone }) {
  const has = (name) => data.partitions.some((row) => row[name]);
  const all = [
    ...PARTITION_COLUMNS,
    ...(has("verdict") ? [VERDICT_COLUMN] : []),
    ...(has("metadata") ? [METADATA_COLUMN] : []),
  ];
  const { columns, tools, dialog, isEditing } = useOffsetEditor({ group: data.group, columns: all, onDone });
  return html`<${List}
    name="partitions"
    columns=${columns}
    rows=${data.partitions}
    rowKey=${(row) => `${row.topic}-${row.partition}`}
    empty=${html`<${NoOffsets} reason=${data.missing.lag} />`}
  >
    ${data.type !== SPARK && data.partitions.length > 0 && tools}
    ${data.type !== SPARK &&
    !isEditing &&
    html`<label class="row" title="Partitions end at their last stable offset, before the first open transaction">
      <input
        type="checkbox"
        checked=${isolation === COMMITTED}
        onChange=${() => setQuery({ isolation: isolation === COMMITTED ? null : COMMITTED })}
      />
      read_committed
    </label>`}
  <//>
  ${dialog}`;
}

function NoOffsets({ reason }) {
  return html`<${Empty} title=${reason ? "No offset of the group is known" : "The group has committed nothing, and no member has a partition"} />`;
}

const assignedTo = (row) =>
  Object.entries(row.partitions)
    .map(([topic, numbers]) => `${topic}: ${numbers.join(", ")}`)
    .join("; ");

const MEMBER_COLUMNS = [
  { name: "client_id", title: "Client id", value: (row) => row.client_id, width: "minmax(110px, 1fr)" },
  { name: "host", title: "Host", value: (row) => row.host, width: "minmax(110px, 1fr)" },
  { name: "instance_id", title: "Instance id", hint: "group.instance.id of a static member", value: (row) => row.instance_id, width: "110px", isWideOnly: true },
  {
    name: "count",
    title: "Partitions",
    value: (row) => Object.values(row.partitions).reduce((sum, numbers) => sum + numbers.length, 0),
    kind: "number",
    width: "92px",
  },
  {
    name: "partitions",
    title: "Assignment",
    value: (row) => assignedTo(row) || null,
    reason: () => "The member has no partition, or its protocol is its own",
    width: "minmax(160px, 2fr)",
    isWideOnly: true,
  },
  {
    name: "epoch",
    title: "Epoch",
    hint: "The member epoch of KIP-848",
    value: (row) => row.epoch,
    reason: () => "A member of a classic group has none",
    kind: "number",
    width: "76px",
    isWideOnly: true,
  },
  { name: "member_id", title: "Member id", value: (row) => row.member_id, width: "minmax(120px, 2fr)", isMono: true, isWideOnly: true },
];

function Members({ data }) {
  return html`<${List}
    name="members"
    columns=${MEMBER_COLUMNS}
    rows=${data.members}
    rowKey=${(row) => row.member_id}
    empty=${html`<${Empty} title="The group has no members now">Its committed offsets stay, until they expire.<//>`}
  />`;
}
