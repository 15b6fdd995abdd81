// Changes of access: ACLs, users of SCRAM and quotas are added, changed and deleted. A console that only reads has none.
import { ChangeButton } from "../components/change.js";
import { Input, Select } from "../components/form.js";
import { html } from "../components/html.js";
import { useResource } from "../components/resource.js";

export const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];
const MOST_DELETED = 1000;
const texts = (names) => names.map((name) => [name, name]);

// ---------------------------------------------------------------------------------------------------------------- ACLs

const ROLES = [
  ["", "one operation"],
  ["producer", "a producer"],
  ["consumer", "a consumer"],
  ["spark", "a reader with Spark"],
];
const PATTERNS = [
  ["LITERAL", "exactly this name; * means all"],
  ["PREFIXED", "names that begin so"],
];
const NEW_ACL = { role: "", permission: "ALLOW", resource_type: "TOPIC", operation: "READ", pattern_type: "LITERAL" };

/** `initial`: the fields that are filled, beside the usual ones. */
export function AddAclButton({ initial = {}, ...rest }) {
  return html`<${ChangeButton}
    change="add_acls"
    title="Add ACL"
    fields=${AclFields}
    initial=${{ ...NEW_ACL, ...initial }}
    ...${rest}
  />`;
}

function AclFields({ values, set, bind }) {
  const { data } = useResource("acls", { resource_type: "CLUSTER" });
  const chosen = (event) => {
    set("role", event.target.value);
    set("permission", event.target.value ? null : "ALLOW");
  };
  return html`<${Select} label="Rules for" options=${ROLES} name="role" value=${values.role} onInput=${chosen} autofocus />
    <${Input} label="Principal" placeholder="User:name" hint="User:* means everybody" required ...${bind("principal")} />
    ${values.role
      ? html`<${RoleFields} values=${values} set=${set} bind=${bind} />`
      : html`<${OperationFields} operations=${data?.operations ?? {}} values=${values} set=${set} bind=${bind} />`}
    ${(values.role || values.resource_type !== "CLUSTER") &&
    html`<${Select} label="Pattern" options=${PATTERNS} ...${bind("pattern_type")} />`}
    <${Input} label="Host" placeholder="all" hint="An address, or a network as 10.0.0.0/8" ...${bind("host")} />`;
}

function OperationFields({ operations, values, set, bind }) {
  const kind = values.resource_type;
  const namesOf = (type) => ["ALL", ...(operations[type] ?? [values.operation])];
  const chosen = (event) => {
    const names = namesOf(event.target.value);
    set("resource_type", event.target.value);
    if (!names.includes(values.operation)) set("operation", names[1]);
  };
  return html`<${Select} label="Permission" options=${texts(["ALLOW", "DENY"])} ...${bind("permission")} />
    <${Select} label="Resource" options=${texts(RESOURCES)} name="resource_type" value=${kind} onInput=${chosen} />
    ${kind !== "CLUSTER" && html`<${Input} label="Resource name" required ...${bind("resource_name")} />`}
    <${Select} label="Operation" options=${texts([...new Set(namesOf(kind))])} ...${bind("operation")} />`;
}

function RoleFields({ values, set, bind }) {
  const { role } = values;
  return html`<${Input} label="Topic" required ...${bind("topic")} />
    ${role === "producer"
      ? html`<${Input} label="Transactional id" placeholder="none" ...${bind("transactional_id")} />
          <${Check} label="Idempotent, for brokers before Kafka 3.0" name="idempotent" values=${values} set=${set} />`
      : html`<${Input}
          label="Group"
          placeholder=${role === "spark" ? "those that Spark makes" : ""}
          required=${role === "consumer"}
          ...${bind("group")}
        />`}`;
}

function Check({ label, name, values, set }) {
  const checked = (event) => set(name, event.target.checked ? "true" : null);
  return html`<label class="row"><input type="checkbox" checked=${values[name] === "true"} onChange=${checked} /> ${label}</label>`;
}

const deletion = (rows) => ({ change: "delete_acls", kind: "danger", parameters: { acl: rows.map((row) => JSON.stringify(row)) } });

/** The buttons of a row of ACLs. */
export function aclActions(row) {
  const name = `${row.permission} ${row.operation} on ${row.resource_type} ${row.resource_name} to ${row.principal}`;
  return [{ label: "Delete", name, title: "Delete ACL", ...deletion([row]) }];
}

/** Deletes the ACLs of a filter. */
export function DeleteAclsButton({ rows, onDone }) {
  if (!rows.length || rows.length > MOST_DELETED) return null;
  const title = rows.length === 1 ? "Delete ACL" : `Delete ${rows.length} ACLs`;
  return html`<${ChangeButton} title=${title} ...${deletion(rows)} onDone=${onDone} />`;
}

// --------------------------------------------------------------------------------------------------------------- users

const NEW_USER = { mechanism: "SCRAM-SHA-512", iterations: "4096" };

export function AddUserButton({ onDone }) {
  return html`<${ChangeButton} change="set_user" title="Add user" fields=${NewUserFields} initial=${NEW_USER} onDone=${onDone} />`;
}

function NewUserFields({ bind }) {
  return html`<${Input} label="User" required autofocus ...${bind("user")} />
    <${Select} label="Mechanism" options=${texts(["SCRAM-SHA-512", "SCRAM-SHA-256"])} ...${bind("mechanism")} />
    <${PasswordFields} bind=${bind} />`;
}

function PasswordFields({ bind }) {
  const secret = { type: "password", autocomplete: "new-password", required: true };
  return html`<${Input} label="Password" ...${secret} ...${bind("password")} />
    <${Input} label="Password again" ...${secret} ...${bind("password_again")} />
    <${Input} label="Iterations" type="number" min="4096" max="16384" required ...${bind("iterations")} />`;
}

/** The buttons of a user's mechanism. */
export function userActions({ user, mechanism, iterations }) {
  const change = { name: `${user} ${mechanism}`, parameters: { user, mechanism } };
  const initial = { iterations: String(iterations) };
  return [
    { ...change, label: "Password", title: `Set password of ${user}`, change: "set_user", fields: PasswordFields, initial },
    { ...change, label: "Delete", title: "Delete user", change: "delete_user", kind: "danger" },
  ];
}

// -------------------------------------------------------------------------------------------------------------- quotas

const OWNERS = [
  ["user", "a user"],
  ["client_id", "a client id"],
  ["both", "a client id of a user"],
  ["ip", "an address"],
];
const PARTS = { user: ["user"], client_id: ["client_id"], both: ["user", "client_id"], ip: ["ip"] };
const PART_TITLES = { user: "User", client_id: "Client id", ip: "Address" };
const CLIENT_QUOTAS = [
  ["producer_byte_rate", "Bytes produced a second"],
  ["consumer_byte_rate", "Bytes fetched a second"],
  ["request_percentage", "Time of requests, in percent"],
  ["controller_mutation_rate", "Partitions created and deleted a second"],
];
const ADDRESS_QUOTAS = [["connection_creation_rate", "New connections a second"]];
const DEFAULT_NAME = "<default>";

export function AddQuotaButton({ onDone }) {
  return html`<${ChangeButton}
    change="set_quotas"
    title="Add quota"
    fields=${NewQuotaFields}
    initial=${{ owner: "user" }}
    onDone=${onDone}
  />`;
}

function NewQuotaFields({ values, set, bind }) {
  const chosen = (event) => {
    set("owner", event.target.value);
    for (const part of Object.keys(PART_TITLES)) [part, `${part}_default`].forEach((name) => set(name, null));
  };
  return html`<${Select} label="Quota of" options=${OWNERS} name="owner" value=${values.owner} onInput=${chosen} autofocus />
    ${PARTS[values.owner].map((part) => html`<${OwnerField} key=${part} part=${part} values=${values} set=${set} bind=${bind} />`)}
    <${Bounds} quotas=${values.owner === "ip" ? ADDRESS_QUOTAS : CLIENT_QUOTAS} empty="no change" bind=${bind} />`;
}

function OwnerField({ part, values, set, bind }) {
  const isDefault = values[`${part}_default`] === "true";
  const changed = (event) => {
    set(`${part}_default`, event.target.checked ? "true" : null);
    set(part, null);
  };
  const title = PART_TITLES[part];
  return html`<${Input} label=${title} required=${!isDefault} disabled=${isDefault} ...${bind(part)} />
    <label class="row">
      <input type="checkbox" checked=${isDefault} onChange=${changed} />
      The default: ${title.toLowerCase()}s without quotas of their own
    </label>`;
}

function Bounds({ quotas, empty = "not limited", bind }) {
  return quotas.map(
    ([name, title]) => html`<${Input} key=${name} label=${title} inputmode="decimal" placeholder=${empty} ...${bind(name)} />`,
  );
}

const ClientBounds = ({ bind }) => html`<${Bounds} quotas=${CLIENT_QUOTAS} bind=${bind} />`;
const AddressBounds = ({ bind }) => html`<${Bounds} quotas=${ADDRESS_QUOTAS} bind=${bind} />`;

/** The buttons of an owner of quotas. */
export function quotaActions(row) {
  const parts = Object.keys(PART_TITLES).filter((part) => row[part] !== null);
  const owner = Object.fromEntries(
    parts.map((part) => (row[part] === DEFAULT_NAME ? [`${part}_default`, "true"] : [part, row[part]])),
  );
  const quotas = row.ip === null ? CLIENT_QUOTAS : ADDRESS_QUOTAS;
  const name = `quotas of ${parts.map((part) => `${PART_TITLES[part].toLowerCase()} ${row[part]}`).join(", ")}`;
  const initial = Object.fromEntries(quotas.map(([quota]) => [quota, String(row[quota] ?? "")]));
  const fields = row.ip === null ? ClientBounds : AddressBounds;
  return [
    { label: "Edit", name, title: "Set quotas", change: "set_quotas", parameters: { ...owner, replaces: "true" }, fields, initial },
    { label: "Delete", name, title: "Delete quotas", change: "delete_quotas", kind: "danger", parameters: owner },
  ];
}
