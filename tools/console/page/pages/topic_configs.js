// The configs of a topic or a broker, with their sources and documentation.
import { Dialog } from "../components/dialog.js";
import { formatBytes, formatDuration } from "../components/format.js";
import { html, useState } from "../components/html.js";
import { Badge, Empty, Failure, Loading, Missing } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { setQuery, useRoute } from "../components/route.js";
import { List } from "../components/table.js";
import { ConfigChanges } from "./config_changes.js";

const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: ["accent", "topic", "Set for this topic"],
  DYNAMIC_BROKER_CONFIG: ["", "broker, dynamic", "Set for the broker while it runs"],
  DYNAMIC_DEFAULT_BROKER_CONFIG: ["", "all brokers, dynamic", "Set for all brokers while they run"],
  STATIC_BROKER_CONFIG: ["", "broker, static", "From the broker's properties at its start"],
  DEFAULT_CONFIG: ["", "default", "Kafka's default"],
};
const SECRET = "hidden";

function Source({ config }) {
  if (!config.source) return html`<span class="soft">${config.is_default ? "default" : "not the default"}</span>`;
  const [kind, text, title] = SOURCES[config.source] ?? ["", config.source, config.source];
  if (config.source === "DEFAULT_CONFIG") return html`<span class="soft" title=${title}>${text}</span>`;
  return html`<${Badge} kind=${kind} title=${`${title}: ${config.source}`}>${text}<//>`;
}

/** A duration or a size in words, for the title of its number. */
function readable({ name, value }) {
  const number = Number(value);
  if (!/^\d+$/.test(value ?? "") || number > Number.MAX_SAFE_INTEGER) return value;
  if (name.endsWith(".ms")) return `${value} ms: ${formatDuration(number)}`;
  return name.endsWith(".bytes") ? `${value} bytes: ${formatBytes(number)}` : value;
}

const valueOf = (config) => (config.is_sensitive ? SECRET : config.value);

const COLUMNS = [
  {
    name: "name",
    title: "Config",
    value: (row) => row.name,
    width: "minmax(170px, 2fr)",
    isMono: true,
  },
  {
    name: "value",
    title: "Value",
    value: valueOf,
    cell: (row) =>
      row.is_sensitive
        ? html`<span class="soft">${SECRET}</span>`
        : row.value === "" || row.value === null
          ? html`<span class="soft">empty</span>`
          : row.value,
    title_of: (row) => readable(row),
    width: "minmax(110px, 2fr)",
    isMono: true,
  },
  {
    name: "source",
    title: "Source",
    value: (row) => row.source ?? (row.is_default ? "DEFAULT_CONFIG" : null),
    cell: (row) => html`<${Source} config=${row} />`,
    width: "170px",
    isWideOnly: true,
  },
  { name: "type", title: "Type", value: (row) => row.type, width: "90px", isWideOnly: true },
];

export function TopicConfigs({ topic }) {
  return html`<${ConfigList} resource="topic_configs" parameters=${{ topic }} />`;
}

/** The configs that a resource answers with, for these parameters. */
export function ConfigList({ resource, parameters }) {
  const { data, error, isLoading, reload } = useResource(resource, parameters);
  const { query } = useRoute();
  const [name, setChosen] = useState(null);
  if (isLoading) return html`<${Loading} what="configs" />`;
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  const isOwnOnly = query.only === "set";
  const chosen = data.configs.find((row) => row.name === name);
  const rows = isOwnOnly ? data.configs.filter((row) => !row.is_default) : data.configs;
  return html`<${Missing} missing=${data.missing} />
    <${List}
      name="configs"
      columns=${COLUMNS}
      rows=${rows}
      rowKey=${(row) => row.name}
      onOpen=${(row) => setChosen(row.name)}
      empty=${html`<${Empty} title=${isOwnOnly ? "Every config has its default" : "No configs are known"} />`}
    >
      <label class="row">
        <input type="checkbox" checked=${isOwnOnly} onChange=${() => setQuery({ only: isOwnOnly ? null : "set" })} />
        without defaults
      </label>
    <//>
    ${chosen && html`<${Config} config=${chosen} resource=${parameters} reload=${reload} onClose=${() => setChosen(null)} />`}`;
}

function Config({ config, resource, reload, onClose }) {
  const done = () => {
    onClose();
    reload();
  };
  return html`<${Dialog} title=${config.name} onClose=${onClose}>
    <div class="form">
      <dl class="facts">
        <dt>Value</dt>
        <dd class="mono">${(config.is_sensitive ? SECRET : readable(config)) || html`<span class="soft">empty</span>`}</dd>
        <dt>Source</dt>
        <dd><${Source} config=${config} /></dd>
        <dt>Type</dt>
        <dd>${config.type ?? "not known"}${config.is_read_only && ", read-only"}</dd>
      </dl>
      ${config.documentation && html`<p>${config.documentation}</p>`}
      ${config.synonyms.length > 0 && html`<${Synonyms} synonyms=${config.synonyms} />`}
      <${ConfigChanges} config=${config} resource=${resource} onDone=${done} />
    </div>
  <//>`;
}

function Synonyms({ synonyms }) {
  return html`<div>
    <h2>Where the value comes from</h2>
    <p class="soft">The first of these that is set wins.</p>
    <ol>
      ${synonyms.map(
        ({ name, value, source }) =>
          html`<li><span class="mono">${name} = ${value ?? "hidden"}</span> <span class="soft" title=${source}>${SOURCES[source]?.[1] ?? source}</span></li>`,
      )}
    </ol>
  </div>`;
}
