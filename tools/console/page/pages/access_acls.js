// The ACLs that a filter means, as the broker matches them: of a resource, also those of patterns that it matches.
import { mayWrite } from "../components/api.js";
import { Input, Select, useFields } from "../components/form.js";
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address, go, setQuery } from "../components/route.js";
import { useRowChanges } from "../components/row_changes.js";
import { filterRows, List } from "../components/table.js";
import { aclActions, AddAclButton, DeleteAclsButton, RESOURCES } from "./access_changes.js";

const FIELDS = ["principal", "resource_type", "resource_name", "operation", "permission"];

const COLUMNS = [
  {
    name: "permission",
    title: "Permission",
    value: (row) => row.permission,
    cell: (row) => html`<${Badge} kind=${row.permission === "DENY" ? "bad" : "good"}>${row.permission}<//>`,
    width: "100px",
  },
  { name: "principal", title: "Principal", value: (row) => row.principal, width: "minmax(150px, 2fr)" },
  { name: "operation", title: "Operation", value: (row) => row.operation, width: "minmax(120px, 1fr)" },
  { name: "resource_type", title: "Resource", value: (row) => row.resource_type, width: "minmax(110px, 1fr)" },
  { name: "resource_name", title: "Name", value: (row) => row.resource_name, width: "minmax(150px, 2fr)", isMono: true },
  { name: "pattern_type", title: "Pattern", value: (row) => row.pattern_type, width: "100px" },
  { name: "host", title: "Host", value: (row) => row.host, width: "minmax(90px, 1fr)", isMono: true },
];

/** The address of the question whether a principal may do an operation on a resource. */
export function decisionAddress({ principal, operation, resource_type, resource_name }) {
  return address("/access", { tab: "why", principal, operation, resource_type, resource_name });
}

export function Acls({ query }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query[name]]));
  const { data, error, reload } = useResource("acls", wanted);
  return html`<${AclFilter} query=${query} operations=${data?.operations ?? {}} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="ACLs" />`}
    ${data && html`<${Rules} data=${data} query=${query} reload=${reload} isFiltered=${FIELDS.some((name) => query[name])} />`}`;
}

function Rules({ data, query, reload, isFiltered }) {
  const [columns, dialog] = useRowChanges(COLUMNS, aclActions, { width: "90px" }, reload);
  if (data.authorizer) {
    return html`<${Empty} title=${data.authorizer}>
      ACLs need an authorizer: set <code>authorizer.class.name</code> on each broker.
    <//>`;
  }
  const isNarrowed = mayWrite() && (isFiltered || query.filter);
  const open = (row) =>
    go(decisionAddress({ ...row, operation: row.operation === "ALL" ? "DESCRIBE" : row.operation }));
  const empty = isFiltered
    ? html`<${Empty} title="No ACL matches">Without the filter all of them are shown.<//>`
    : html`<${Empty} title="There is no ACL yet">
        <code>headgate acls add --principal User:name --operation read --topic name</code> adds one.
      <//>`;
  return html`<${Missing} missing=${data.missing} />
    ${data.acls &&
    html`${data.total > data.acls.length &&
      html`<div class="notice">The first ${data.acls.length} of ${data.total} ACLs are shown; filter for others.</div>`}
      <${List}
        name="ACLs"
        columns=${columns}
        rows=${data.acls}
        rowKey=${(row) => JSON.stringify(row)}
        onOpen=${open}
        empty=${empty}
      >
        <${AddAclButton} initial=${filled(query)} onDone=${reload} />
        ${isNarrowed && html`<${DeleteAclsButton} rows=${filterRows(data.acls, columns, query.filter)} onDone=${reload} />`}
      <//>`}
    ${dialog}`;
}

/** The fields of a new ACL that the filter names. */
function filled(query) {
  const given = Object.fromEntries(FIELDS.filter((name) => query[name]).map((name) => [name, query[name]]));
  return given.resource_type && !given.operation ? { ...given, operation: "ALL" } : given;
}

function AclFilter({ query, operations }) {
  const [values, bind] = useFields(Object.fromEntries(FIELDS.map((name) => [name, query[name]])));
  const names = [...new Set(Object.values(operations).flat())].sort();
  const submitted = (event) => {
    event.preventDefault();
    setQuery(Object.fromEntries(FIELDS.map((name) => [name, values[name] || null])));
  };
  const cleared = () => setQuery(Object.fromEntries(FIELDS.map((name) => [name, null])));
  const any = (all) => [["", "any"], ...all.map((name) => [name, name])];
  return html`<form class="form-line" aria-label="Filter of ACLs" onSubmit=${submitted}>
    <${Input} label="Principal" placeholder="User:name" ...${bind("principal")} />
    <${Select} label="Resource" options=${any(RESOURCES)} ...${bind("resource_type")} />
    <${Input} label="Resource name" ...${bind("resource_name")} />
    <${Select} label="Operation" options=${any(["ALL", ...names])} ...${bind("operation")} />
    <${Select} label="Permission" options=${any(["ALLOW", "DENY"])} ...${bind("permission")} />
    <button class="button primary">Show</button>
    ${FIELDS.some((name) => query[name]) && html`<button type="button" class="button" onClick=${cleared}>Clear</button>`}
  </form>`;
}
