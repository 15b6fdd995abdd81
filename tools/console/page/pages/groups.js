// Groups of every kind: names, types and states at once, members and lag for the rows in sight.
import { mayWrite } from "../components/api.js";
import { useFiguresInSight } from "../components/figures_in_sight.js";
import { formatShare } from "../components/format.js";
import { GroupState, lagReason, Verdict } from "../components/group_badges.js";
import { html, useEffect, useMemo, useState } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing, PageHead } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go } from "../components/route.js";
import { List } from "../components/table.js";
import { DeleteGroups, MoveOffsets } from "./group_changes.js";

const AT_ONCE = 100;
const SPARK = "spark";

const VERDICT_COLUMN = {
  name: "verdict",
  title: "Verdict",
  hint: "By the last ten commits: whether the group keeps up",
  value: (row) => row.verdict,
  cell: (row) => html`<${Verdict} verdict=${row.verdict} reason=${row.error} />`,
  width: "92px",
  isWideOnly: true,
};

function columns(missing, hasVerdicts) {
  const reason = (row) => {
    if (row.error) return row.error;
    if (!row.has_offsets) return `A ${row.type} group has no committed offsets`;
    return row.measured_ms ? lagReason(row, missing) : "Not asked for yet";
  };
  return [
    {
      name: "group",
      title: "Group",
      value: (row) => row.group,
      cell: (row) => html`<a tabindex="-1" href=${address("/groups", row.group)}>${row.group}</a>`,
      width: "minmax(130px, 3fr)",
    },
    {
      name: "state",
      title: "State",
      value: (row) => row.state,
      cell: (row) => html`<${GroupState} state=${row.state} />`,
      width: "128px",
      isWideOnly: true,
    },
    { name: "type", title: "Type", hint: "classic, consumer (KIP-848), share, streams, zookeeper", value: (row) => row.type, width: "108px", isWideOnly: true },
    { name: "members", title: "Members", value: (row) => row.members, reason, kind: "number", width: "88px", isWideOnly: true },
    {
      name: "topics",
      title: "Topics",
      hint: "Topics with a committed offset or an assignment",
      value: (row) => row.topics?.join(", "),
      reason,
      width: "minmax(120px, 2fr)",
      isWideOnly: true,
    },
    {
      name: "lag_records",
      title: "Lag",
      hint: "The sum over its partitions: end less committed offset",
      value: (row) => row.lag_records,
      reason,
      kind: "number",
      width: "104px",
    },
    {
      name: "lag_ms",
      title: "Lag in time",
      hint: "The age of the oldest record that the group has not read",
      value: (row) => row.lag_ms,
      reason,
      kind: "duration",
      width: "112px",
    },
    ...(hasVerdicts ? [VERDICT_COLUMN] : []),
    {
      name: "partitions_out_of_range",
      title: "Out of range",
      hint: "Partitions whose committed offset is below the start or beyond the end, or that are gone",
      value: (row) => row.partitions_out_of_range,
      cell: (row) =>
        row.partitions_out_of_range
          ? html`<${Badge} kind="bad">${row.partitions_out_of_range}<//>`
          : row.partitions_out_of_range ?? "–",
      reason,
      kind: "number",
      width: "112px",
      isWideOnly: true,
    },
  ];
}

export default function GroupsPage() {
  const { data, error, isLoading, reload } = useResource("groups", {}, { everyMs: 10_000 });
  if (isLoading) return html`<${Loading} what="groups" />`;
  return html`<${PageHead} title="Groups" />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${data && html`<${Groups} data=${data} onDone=${reload} />`}`;
}

/** The groups of the cluster, and those that only the brokers' survey has: queries of Spark. */
function useListed(data) {
  const { data: survey } = useResource("lag_survey", {}, { everyMs: 10_000 });
  const listed = useMemo(() => {
    const rows = data.rows.map((row) => Object.fromEntries(data.columns.map((name, index) => [name, row[index]])));
    const surveyed = new Map((survey?.groups ?? []).map((group) => [group.group, group]));
    const known = new Set(rows.map((row) => row.group));
    const others = [...surveyed.values()].filter(({ group, type }) => type === SPARK && !known.has(group));
    return [
      ...rows.map((row) => ({ ...row, verdict: surveyed.get(row.group)?.verdict ?? null })),
      ...others.map((group) => ({ ...group, has_offsets: false, measured_ms: survey.measured_ms })),
    ];
  }, [data, survey]);
  return { listed, hasVerdicts: Boolean(survey?.groups) };
}

function Groups({ data, onDone }) {
  const { listed, hasVerdicts } = useListed(data);
  const { figures, missing, error, loading, onVisible, loadAll } = useFiguresInSight({
    resource: "group_figures",
    parameter: "group",
    list: "groups",
    key: "group",
    most: AT_ONCE,
    everyMs: 10_000, // the lag in time costs the brokers a read for each partition that is behind
  });
  const rows = useMemo(() => listed.map((row) => ({ ...row, ...figures.get(row.group) })), [listed, figures]);
  const wanted = listed.filter((row) => row.has_offsets).map((row) => row.group);
  useEffect(() => {
    if (wanted.length <= AT_ONCE) loadAll(wanted);
  }, [wanted.length]);
  const seen = useMemo(() => (shown) => onVisible(shown.filter((row) => row.has_offsets)), [onVisible]);
  const isPartial = wanted.length > AT_ONCE && wanted.some((name) => !figures.has(name));
  const [chosen, toggle, forget] = useChosen();
  const chosenRows = rows.filter((row) => chosen.has(row.group));
  const shown = columns(missing, hasVerdicts);
  return html`<${Missing} missing=${{ ...data.missing, ...missing }} /> ${error && html`<${Failure} error=${error} />`}
    ${chosenRows.length > 0 && html`<${ChosenGroups} rows=${chosenRows} forget=${forget} onDone=${onDone} />`}
    <${List}
      name="groups"
      filterLabel="Filter groups"
      columns=${mayWrite() ? [choiceColumn(chosen, toggle), ...shown.map(besideChoices)] : shown}
      rows=${rows}
      rowKey=${(row) => row.group}
      onOpen=${(row) => go(address("/groups", row.group))}
      onVisible=${seen}
      empty=${!data.missing.groups &&
      html`<${Empty} title="There are no groups yet">
        A consumer with a group.id makes one when it subscribes or commits.
      <//>`}
    >
      ${isPartial &&
      html`<button
        class="button small"
        disabled=${loading !== null}
        title="Lag is asked for the rows in sight; to sort or export by it, load all"
        onClick=${() => loadAll(wanted)}
      >
        ${loading === null ? "Load all lags" : `Loading ${formatShare(loading)}`}
      </button>`}
    <//>`;
}

/** Groups that the visitor has chosen: `[names, toggle(name), forget(names)]`. */
function useChosen() {
  const [chosen, setChosen] = useState(new Set());
  const toggle = (name) => setChosen((before) => new Set(before.has(name) ? without(before, [name]) : [...before, name]));
  return [chosen, toggle, (names) => setChosen((before) => new Set(without(before, names)))];
}

const without = (names, gone) => [...names].filter((name) => !gone.includes(name));

/** On narrow screens the choice takes the room of the lag in time. */
const besideChoices = (column) => (column.name === "lag_ms" ? { ...column, isWideOnly: true } : column);

function choiceColumn(chosen, toggle) {
  return {
    name: "choice",
    title: "✓",
    hint: "Choose groups, to change them together",
    value: () => null,
    cell: (row) =>
      row.type !== SPARK &&
      html`<input
        type="checkbox"
        aria-label=${`Choose ${row.group}`}
        checked=${chosen.has(row.group)}
        onChange=${() => toggle(row.group)}
      />`,
    width: "44px",
    isUnsorted: true,
    isAction: true,
  };
}

function ChosenGroups({ rows, forget, onDone }) {
  const names = rows.map((row) => row.group);
  const topics = [...new Set(rows.flatMap((row) => row.topics ?? []))].sort();
  const deleted = (details) => {
    forget(details.deleted);
    onDone();
  };
  return html`<div class="row">
    <strong>${names.length === 1 ? "1 group" : `${names.length} groups`} chosen</strong>
    <${MoveOffsets} groups=${names} topics=${topics} onDone=${onDone} />
    <${DeleteGroups} groups=${names} onDone=${deleted} />
    <button class="button quiet" onClick=${() => forget(names)}>Choose none</button>
  </div>`;
}
