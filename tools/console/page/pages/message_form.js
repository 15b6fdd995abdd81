// What to search: the fields of the form are the parameters of the address.
import { inputMs, inputTime } from "../components/format.js";
import { html, useState } from "../components/html.js";
import { Input, Select } from "../components/form.js";
import { useResource } from "../components/resource.js";
import { go } from "../components/route.js";
import { useNarrow } from "../components/table.js";
import { messagesAddress } from "./message_topics.js";

const STARTS = [
  ["newest", "Newest first"],
  ["oldest", "Oldest first"],
  ["offset", "From an offset"],
  ["time", "From a time"],
  ["live", "Live"],
];
const FORMATS = {
  auto: "Automatic",
  text: "Text",
  json: "JSON",
  hex: "Hexadecimal",
  avro: "Avro",
  protobuf: "Protobuf",
  "protobuf-raw": "Protobuf without a schema",
};
const ISOLATIONS = [
  ["read_uncommitted", "All records, marked"],
  ["read_committed", "Committed records only"],
];
const LIMITS = ["20", "50", "100", "200", "500"];
const NAMES = [
  "start",
  "offset",
  "time_ms",
  "until_ms",
  "partition",
  "text",
  "key",
  "header",
  "jmespath",
  "isolation",
  "limit",
  "key_format",
  "value_format",
  "message_type",
];
const DEFAULTS = { start: "newest", isolation: "read_uncommitted", limit: "100", key_format: "auto", value_format: "auto" };
const MORE = ["key", "header", "jmespath", "until_ms", "isolation", "limit", "key_format", "value_format", "message_type"];

/** The parameters of a search by an address; what is the default is left out. */
export function searchOf(topic, query) {
  const search = { topic };
  for (const name of NAMES) {
    if (query[name] !== undefined && query[name] !== "" && query[name] !== DEFAULTS[name]) search[name] = query[name];
  }
  if (search.start !== "offset") delete search.offset;
  if (search.start !== "time") delete search.time_ms;
  return { ...search, start: search.start ?? DEFAULTS.start };
}

function submitted(event, topic) {
  event.preventDefault();
  const values = Object.fromEntries(new FormData(event.currentTarget));
  values.time_ms = inputMs(values.time) ?? "";
  values.until_ms = inputMs(values.until) ?? "";
  const query = Object.fromEntries(
    NAMES.filter((name) => values[name] && values[name] !== DEFAULTS[name]).map((name) => [name, values[name].trim()]),
  );
  go(messagesAddress(topic, query));
}

export function SearchForm({ topic, query }) {
  const [start, setStart] = useState(query.start ?? DEFAULTS.start);
  const more = MORE.filter((name) => query[name] && query[name] !== DEFAULTS[name]).length;
  const isNarrow = useNarrow();
  return html`<form class="card form" role="search" aria-label="Messages" onSubmit=${(event) => submitted(event, topic)}>
    <div class="form-line messages-line">
      <${Select} label="Read" name="start" options=${STARTS} value=${start} onChange=${(event) => setStart(event.target.value)} />
      ${start === "offset" &&
      html`<${Input} label="Offset" name="offset" inputmode="numeric" pattern="[0-9]+" required value=${query.offset ?? ""} />`}
      ${start === "time" &&
      html`<${Input} label="Time" name="time" type="datetime-local" step="0.001" required value=${inputTime(query.time_ms)} />`}
      <${Input} label="Partitions" name="partition" placeholder="all, or 0-3,7" size="12" value=${query.partition ?? ""} />
      <label class="field messages-text">
        <span>Text in key, value or headers</span>
        <input
          class="input"
          type="search"
          name="text"
          data-filter
          autocomplete="off"
          spellcheck=${false}
          placeholder="text, or /expression/  ( / )"
          value=${query.text ?? ""}
        />
      </label>
      <button class="button primary">Search</button>
    </div>
    <details open=${more > 0 && !isNarrow}>
      <summary>More filters, formats, isolation${more > 0 && ` (${more} set)`}</summary>
      <${More} query=${query} start=${start} />
    </details>
  </form>`;
}

function More({ query, start }) {
  const { data } = useResource("message_formats");
  const formats = (data?.formats ?? Object.keys(FORMATS)).map((name) => [name, FORMATS[name] ?? name]);
  const types = data?.message_types ?? [];
  return html`<div class="messages-more">
    <${Input} label="Key" name="key" placeholder="part, or /expression/" value=${query.key ?? ""} />
    <${Input} label="Header" name="header" placeholder="name, name=part, or /expression/" value=${query.header ?? ""} />
    <${Input} label="JMESPath on the value" name="jmespath" placeholder=${"amount > `100`"} value=${query.jmespath ?? ""} />
    ${start !== "live" &&
    html`<${Input} label="Until" name="until" type="datetime-local" step="0.001" value=${inputTime(query.until_ms)} />`}
    <${Select} label="Key format" name="key_format" options=${formats} value=${query.key_format ?? "auto"} />
    <${Select} label="Value format" name="value_format" options=${formats} value=${query.value_format ?? "auto"} />
    ${types.length > 0 &&
    html`<${Select}
      label="Message type"
      name="message_type"
      options=${[["", "none"], ...types.map((name) => [name, name])]}
      value=${query.message_type ?? ""}
    />`}
    <${Select} label="Isolation" name="isolation" options=${ISOLATIONS} value=${query.isolation ?? "read_uncommitted"} />
    <${Select} label="Messages a page" name="limit" options=${LIMITS.map((each) => [each, each])} value=${query.limit ?? "100"} />
  </div>`;
}
