// Quotas of all entities, and those that bound one client.
import { Input, useFields } from "../components/form.js";
import { formatByteRate, formatNumber } from "../components/format.js";
import { html, useMemo } from "../components/html.js";
import { Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { setQuery } from "../components/route.js";
import { useRowChanges } from "../components/row_changes.js";
import { List, Table } from "../components/table.js";
import { AddQuotaButton, quotaActions } from "./access_changes.js";

const FIELDS = ["user", "client_id", "ip"];
const QUOTAS = [
  { name: "producer_byte_rate", title: "Produced", show: formatByteRate },
  { name: "consumer_byte_rate", title: "Fetched", show: formatByteRate },
  { name: "request_percentage", title: "Requests", show: (value) => `${value} %` },
  { name: "controller_mutation_rate", title: "Mutations", show: (value) => `${formatNumber(value)} /s` },
  { name: "connection_creation_rate", title: "Connections", show: (value) => `${formatNumber(value)} /s` },
];
const SHOWN = Object.fromEntries(QUOTAS.map(({ name, show }) => [name, show]));
const show = (name, value) => (SHOWN[name] ?? formatNumber)(value);

function columnsOf(rows) {
  const named = QUOTAS.filter(({ name }) => rows.some((row) => name in row));
  const known = new Set([...FIELDS, ...named.map(({ name }) => name)]);
  const others = [...new Set(rows.flatMap(Object.keys))].filter((name) => !known.has(name));
  return [
    { name: "user", title: "User", value: (row) => row.user, width: "minmax(130px, 1fr)" },
    { name: "client_id", title: "Client id", value: (row) => row.client_id, width: "minmax(130px, 1fr)" },
    { name: "ip", title: "Address", value: (row) => row.ip, width: "minmax(110px, 1fr)", isMono: true },
    ...[...named, ...others.map((name) => ({ name, title: name }))].map(({ name, title }) => ({
      name,
      title,
      hint: name,
      kind: "number",
      value: (row) => row[name],
      cell: (row) => (row[name] === null ? "–" : show(name, row[name])),
      width: "minmax(110px, 1fr)",
    })),
  ];
}

export function Quotas({ query }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query[name]]));
  const { data, error, reload } = useResource("quotas", wanted);
  const columns = useMemo(() => columnsOf(data?.quotas ?? []), [data]);
  const [shown, dialog] = useRowChanges(columns, quotaActions, { width: "130px" }, reload);
  return html`<${ClientForm} query=${query} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="quotas" />`}
    ${data && html`<${Missing} missing=${data.missing} />`}
    ${data?.effective && html`<${Effective} rows=${data.effective} />`}
    ${data?.quotas &&
    html`<h2>All quotas</h2>
      <${List}
        name="quotas"
        columns=${shown}
        rows=${data.quotas}
        rowKey=${(row) => JSON.stringify(FIELDS.map((name) => row[name]))}
        empty=${html`<${Empty} title="No client has a quota">
          <code>headgate quotas set --user name producer_byte_rate=1048576</code> sets one.
        <//>`}
      >
        <${AddQuotaButton} onDone=${reload} />
      <//>`}
    ${dialog}`;
}

function ClientForm({ query }) {
  const [values, bind] = useFields(Object.fromEntries(FIELDS.map((name) => [name, query[name]])));
  const submitted = (event) => {
    event.preventDefault();
    setQuery(Object.fromEntries(FIELDS.map((name) => [name, values[name]?.trim() || null])));
  };
  return html`<form class="form-line" aria-label="Quotas of one client" onSubmit=${submitted}>
    <${Input} label="User" placeholder="alice" ...${bind("user")} />
    <${Input} label="Client id" ...${bind("client_id")} />
    <${Input} label="Address" placeholder="10.0.0.1" ...${bind("ip")} />
    <button class="button primary">Which quotas bound this client?</button>
  </form>`;
}

const EFFECTIVE = [
  { name: "quota", title: "Quota", value: (row) => row.quota, width: "minmax(210px, 1fr)", isMono: true },
  {
    name: "value",
    title: "Bound",
    kind: "number",
    value: (row) => row.value,
    cell: (row) => (row.value === null ? "not limited" : show(row.quota, row.value)),
    width: "130px",
  },
  { name: "entity", title: "Set for", value: entityText, width: "minmax(200px, 2fr)" },
  { name: "shared_by", title: "Shared by", value: sharedText, width: "minmax(200px, 1fr)" },
];

function entityText({ entity }) {
  if (!entity) return null;
  const titles = { user: "user", client_id: "client id", ip: "address" };
  return FIELDS.filter((name) => entity[name] !== null)
    .map((name) => `${titles[name]} ${entity[name]}`)
    .join(", ");
}

function sharedText(row) {
  if (!row.shared_by) return null;
  const { user, client_id: client } = row.shared_by;
  if (user && client) return "connections with this user and client id";
  return user ? "all clients of the user" : client ? "all users of the client id" : "all clients at the address";
}

function Effective({ rows }) {
  return html`<h2>Quotas of this client</h2>
    <${Table} label="effective quotas" columns=${EFFECTIVE} rows=${rows} rowKey=${(row) => row.quota} />`;
}
