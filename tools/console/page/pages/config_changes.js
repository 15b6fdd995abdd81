// Changes of a config: set a value, or remove it, of a topic, a broker or all brokers.
import { mayWrite } from "../components/api.js";
import { ChangeButton } from "../components/change.js";
import { Input, Select } from "../components/form.js";
import { html, useMemo } from "../components/html.js";

const SCOPES = [
  ["false", "This broker"],
  ["true", "All brokers without a value of their own"],
];
const BOOLEANS = [
  ["true", "true"],
  ["false", "false"],
];

/** `values.set`: `name=value`; `values.all_brokers`: of a broker's config. */
function ValueFields({ config, values, set }) {
  const value = values.set.slice(config.name.length + 1);
  const typed = (event) => set("set", `${config.name}=${event.target.value}`);
  const scope = values.all_brokers;
  const chosen = (event) => set("all_brokers", event.target.value);
  const type = config.is_sensitive ? "password" : "text";
  return html`${config.type === "boolean"
      ? html`<${Select} label="Value" autofocus options=${BOOLEANS} value=${value} onChange=${typed} />`
      : html`<${Input} label="Value" autofocus type=${type} value=${value} onInput=${typed} />`}
    ${scope && html`<${Select} label="For" options=${SCOPES} value=${scope} onChange=${chosen} />`}`;
}

/** The buttons of a config. `resource`: `{topic}` or `{broker}`. */
export function ConfigChanges({ config, resource, onDone }) {
  const fields = useMemo(() => (rest) => html`<${ValueFields} config=${config} ...${rest} />`, [config.name]);
  if (!mayWrite()) return null;
  if (config.is_read_only) {
    return html`<p class="soft">Read-only: set it in the broker's properties; it takes effect with a restart.</p>`;
  }
  const isBroker = "broker" in resource;
  const present = config.is_sensitive ? "" : config.value ?? "";
  const value = config.type === "boolean" && !present ? "false" : present;
  const initial = { set: `${config.name}=${value}`, ...(isBroker ? { all_brokers: "false" } : {}) };
  return html`<div class="row">
    <${ChangeButton}
      change="alter_configs"
      title="Set value"
      parameters=${resource}
      fields=${fields}
      initial=${initial}
      onDone=${onDone}
    />
    ${removals(config, isBroker).map(
      ([title, more]) =>
        html`<${ChangeButton}
          key=${title}
          change="alter_configs"
          title=${title}
          parameters=${{ ...resource, ...more, remove: [config.name] }}
          onDone=${onDone}
        />`,
    )}
  </div>`;
}

/** `[title, parameters]` of each value that can be removed. */
function removals(config, isBroker) {
  const sources = config.synonyms.filter(({ name }) => name === config.name).map(({ source }) => source);
  if (!isBroker) {
    const isSet = sources.includes("DYNAMIC_TOPIC_CONFIG") || (!config.source && !config.is_default);
    return isSet ? [["Remove value", {}]] : [];
  }
  return [
    ...(sources.includes("DYNAMIC_BROKER_CONFIG") ? [["Remove value", {}]] : []),
    ...(sources.includes("DYNAMIC_DEFAULT_BROKER_CONFIG") ? [["Remove for all brokers", { all_brokers: "true" }]] : []),
  ];
}
