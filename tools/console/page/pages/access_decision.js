// Why a principal may, or may not, do an operation: the rule that decides, and the command that would change it.
import { Input, Select, useFields } from "../components/form.js";
import { html } from "../components/html.js";
import { Badge, Empty, Failure, Loading } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { setQuery } from "../components/route.js";
import { AddAclButton, DeleteAclsButton, RESOURCES } from "./access_changes.js";

const FIELDS = ["principal", "operation", "resource_type", "resource_name", "host"];

export function Decision({ query }) {
  const { data } = useResource("acls", { resource_type: "CLUSTER" });
  const isAsked = query.principal && query.operation && query.resource_type;
  return html`<${Question} query=${query} operations=${data?.operations ?? {}} />
    ${isAsked
      ? html`<${Answer} query=${query} />`
      : html`<${Empty} title="Ask about a principal">
          May User:alice read the topic orders from 10.0.0.1? The answer names the rule that decides.
        <//>`}`;
}

function Question({ query, operations }) {
  const [values, bind] = useFields(Object.fromEntries(FIELDS.map((name) => [name, query[name]])));
  const kind = values.resource_type ?? RESOURCES[0];
  const names = operations[kind] ?? [values.operation ?? "READ"];
  const operation = names.includes(values.operation) ? values.operation : names[0];
  const submitted = (event) => {
    event.preventDefault();
    const name = kind === "CLUSTER" ? "" : values.resource_name;
    const asked = { ...values, resource_type: kind, operation, resource_name: name };
    setQuery(Object.fromEntries(FIELDS.map((field) => [field, asked[field]?.trim() || null])));
  };
  const texts = (all) => all.map((name) => [name, name]);
  return html`<form class="form-line" aria-label="Question" onSubmit=${submitted}>
    <${Input} label="Principal" placeholder="User:name" required ...${bind("principal")} />
    <${Select} label="Resource" options=${texts(RESOURCES)} ...${bind("resource_type")} value=${kind} />
    ${kind !== "CLUSTER" && html`<${Input} label="Resource name" required ...${bind("resource_name")} />`}
    <${Select} label="Operation" options=${texts(names)} ...${bind("operation")} value=${operation} />
    <${Input} label="Host" placeholder="any" ...${bind("host")} />
    <button class="button primary">Ask</button>
  </form>`;
}

function Answer({ query }) {
  const question = Object.fromEntries(FIELDS.map((name) => [name, query[name]]));
  const { data, error, reload } = useResource("access_decision", question);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} what="the rules" />`;
  const { decision, sentence, notes } = data;
  return html`<div class="card form" role="status">
    <div class="row">
      ${decision && html`<${Badge} kind=${decision.allowed ? "good" : "bad"}>${decision.allowed ? "allowed" : "denied"}<//>`}
      <strong>${sentence}</strong>
    </div>
    ${decision?.acl && html`<${Rule} acl=${decision.acl} impliedBy=${decision.implied_by} />`}
    ${notes.map((note) => html`<p key=${note}><${WithCode} text=${note} /></p>`)}
    ${decision && html`<${Changes} decision=${decision} reload=${reload} />`}
  </div>`;
}

/** Deletes the rule that decides, or adds one that allows what no rule decides. */
function Changes({ decision, reload }) {
  const { allowed, acl, principal, operation, resource_type, resource_name } = decision;
  const initial = { principal, operation, resource_type, resource_name };
  return html`<div class="row">
    ${acl && html`<${DeleteAclsButton} rows=${[acl]} onDone=${reload} />`}
    ${!allowed && !acl && html`<${AddAclButton} label="Allow this" initial=${initial} onDone=${reload} />`}
  </div>`;
}

function Rule({ acl, impliedBy }) {
  const facts = [
    ["Rule", `${acl.permission} ${acl.operation}`],
    ["Resource", `${acl.resource_type} ${acl.pattern_type.toLowerCase()} ${acl.resource_name}`],
    ["Principal", acl.principal],
    ["Host", acl.host],
    ...(impliedBy ? [["Implied by", impliedBy]] : []),
  ];
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${value}</dd>`)}
  </dl>`;
}

/** A sentence whose parts in backticks are commands. */
export function WithCode({ text }) {
  return html`${text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))}`;
}
