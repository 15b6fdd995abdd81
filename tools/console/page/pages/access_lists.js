// Users of SCRAM, delegation tokens and features: lists with their reasons where the cluster tells none.
import { formatNumber } from "../components/format.js";
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { useRowChanges } from "../components/row_changes.js";
import { List } from "../components/table.js";
import { AddUserButton, userActions } from "./access_changes.js";

const USERS = [
  { name: "user", title: "User", value: (row) => row.user, width: "minmax(180px, 2fr)" },
  { name: "mechanism", title: "Mechanism", value: (row) => row.mechanism, width: "minmax(150px, 1fr)" },
  { name: "iterations", title: "Iterations", value: (row) => row.iterations, kind: "number", width: "130px" },
];

export function Users() {
  const answer = useResource("users");
  const [columns, dialog] = useRowChanges(USERS, userActions, { width: "170px" }, answer.reload);
  return html`<${Part}
      answer=${answer}
      resource="users"
      columns=${columns}
      rowKey=${(row) => `${row.user}\n${row.mechanism}`}
      empty=${html`<${Empty} title="No user logs in by SCRAM">
        <code>headgate users add name</code> adds one; users of PLAIN, certificates and tokens are in no list of a broker.
      <//>`}
    >
      <${AddUserButton} onDone=${answer.reload} />
    <//>
    ${dialog}`;
}

const TOKENS = [
  { name: "token_id", title: "Token id", value: (row) => row.token_id, width: "minmax(220px, 2fr)", isMono: true },
  { name: "owner", title: "Owner", value: (row) => row.owner, width: "minmax(120px, 1fr)" },
  {
    name: "requester",
    title: "Requested by",
    value: (row) => row.requester,
    reason: () => "brokers before Kafka 3.3 do not tell",
    width: "minmax(120px, 1fr)",
    isWideOnly: true,
  },
  { name: "renewers", title: "Renewers", value: (row) => row.renewers.join(", "), width: "minmax(120px, 1fr)" },
  { name: "issue_ms", title: "Issued", value: (row) => row.issue_ms, kind: "time", width: "170px", isWideOnly: true },
  { name: "expiry_ms", title: "Expires", value: (row) => row.expiry_ms, kind: "time", width: "170px" },
  { name: "max_ms", title: "At the latest", value: (row) => row.max_ms, kind: "time", width: "170px" },
  {
    name: "state",
    title: "State",
    value: (row) => (row.is_expired ? "expired" : "valid"),
    cell: (row) => html`<${Badge} kind=${row.is_expired ? "" : "good"}>${row.is_expired ? "expired" : "valid"}<//>`,
    width: "90px",
  },
];

export function Tokens() {
  return html`<${Part}
    answer=${useResource("tokens")}
    resource="tokens"
    columns=${TOKENS}
    rowKey=${(row) => row.token_id}
    empty=${html`<${Empty} title="This principal sees no delegation token">
      <code>headgate tokens create</code> makes one for a principal that has logged in.
    <//>`}
  />`;
}

const FEATURES = [
  { name: "feature", title: "Feature", value: (row) => row.feature, width: "minmax(200px, 2fr)", isMono: true },
  {
    name: "finalized_level",
    title: "Finalized",
    value: (row) => row.finalized_level,
    reason: () => "the cluster has not finalized this feature",
    kind: "number",
    width: "110px",
  },
  { name: "supported", title: "Brokers support", value: supportedText, width: "minmax(200px, 2fr)" },
];

/** "0 to 2" if all brokers support the same levels; otherwise the levels of each. */
function supportedText({ supported }) {
  const ranges = supported.map(({ min_level, max_level }) => `${min_level} to ${max_level}`);
  if (new Set(ranges).size < 2) return ranges[0] ?? "none";
  return supported.map(({ broker }, index) => `broker ${broker}: ${ranges[index]}`).join(", ");
}

export function Features() {
  const { data, error, reload } = useResource("features");
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} what="features" />`;
  return html`<${Missing} missing=${data.missing} />
    ${data.finalized_epoch !== null && html`<p class="soft">Epoch of the finalized features: ${formatNumber(data.finalized_epoch)}</p>`}
    ${data.features &&
    html`<${List}
      name="features"
      columns=${FEATURES}
      rows=${data.features}
      rowKey=${(row) => row.feature}
      empty=${html`<${Empty} title="The brokers name no feature">Features came with Kafka 2.7.<//>`}
    />`}`;
}

function Part({ answer, resource, children, ...rest }) {
  const { data, error, reload } = answer;
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} what=${resource} />`;
  const rows = data[resource];
  return html`<${Missing} missing=${data.missing} />
    ${rows &&
    html`${data.total > rows.length && html`<div class="notice">The first ${rows.length} of ${data.total} are shown.</div>`}
      <${List} name=${resource} rows=${rows} ...${rest}>${children}<//>`}`;
}
