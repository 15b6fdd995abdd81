// Write a message: the form of the change, and the form filled with a message that is shown.
import { mayWrite, resourceAddress } from "../components/api.js";
import { ChangeButton, ChangeDialog } from "../components/change.js";
import { formatBytes } from "../components/format.js";
import { Field, Input, Select } from "../components/form.js";
import { html, useState } from "../components/html.js";
import { useResource } from "../components/resource.js";
import { toast } from "../components/toasts.js";

const TITLE = "Produce message";
const LARGEST_BYTES = 1 << 20; // of a part in the form
const MOST_HEX_BYTES = 4096; // a longer part is shown as base64
const MOST_HEADER_CHARACTERS = 16_384; // that the console sends of a header
const SEEDS = 2 ** 31;
const FORMATS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hexadecimal"],
  ["base64", "Base64"],
];
const AVRO = ["avro", "Avro, from JSON"]; // where the console knows schemas
const KEY_FORMATS = [["null", "No key (null)"], ...FORMATS];
const VALUE_FORMATS = [...FORMATS, ["null", "Tombstone (null)"]];
const HEADER_FORMATS = [...FORMATS, ["null", "null"]];
const EMPTY = { key_format: "null", value_format: "text" };

/** The seed chooses the partition of a message without a key: the same one in the preview and in the change. */
function drawSeed() {
  return String(Math.floor(Math.random() * SEEDS));
}

export function ProduceButton({ topic, onDone }) {
  return html`<${ChangeButton}
    change="produce"
    title=${TITLE}
    parameters=${{ topic }}
    fields=${MessageFields}
    initial=${{ ...EMPTY, seed: drawSeed() }}
    showsResult
    onDone=${onDone}
  />`;
}

/** `message`: all fields of the message at `place`, a topic, a partition and an offset. */
export function SendAgainButton({ message, place }) {
  const [initial, setInitial] = useState(null);
  const [isBusy, setBusy] = useState(false);
  if (!mayWrite() || !["message", "tombstone"].includes(message.kind)) return null;
  const open = async () => {
    setBusy(true);
    try {
      setInitial(await fieldsOf(message, place));
    } catch (error) {
      toast(`The message cannot be sent from here: ${error.message}.`, "bad");
    }
    setBusy(false);
  };
  return html`<div class="row actions">
      <button class="button quiet small" disabled=${isBusy} onClick=${open}>Send again</button>
    </div>
    ${initial &&
    html`<${ChangeDialog}
      change="produce"
      title=${TITLE}
      parameters=${{ topic: place.topic }}
      fields=${MessageFields}
      initial=${initial}
      showsResult
      onClose=${() => setInitial(null)}
    />`}`;
}

// -------------------------------------------------------------------------------------------------- a shown message

async function fieldsOf(message, place) {
  if (message.headers.length < message.headers_count) throw new Error("it has too many headers");
  const key = await fieldOf(message.key, { ...place, part: "key" });
  const value = await fieldOf(message.value, { ...place, part: "value" });
  const headers = [];
  for (const [index, header] of message.headers.entries()) {
    const field = await fieldOf(header.bytes === null ? null : header, { ...place, part: "header", index });
    headers.push({ name: header.name, ...field });
  }
  return {
    seed: drawSeed(),
    partition: place.partition,
    key: key.value,
    key_format: key.format,
    value: value.value,
    value_format: value.format,
    headers: JSON.stringify(headers),
  };
}

/** The format and the text for exactly the bytes of a part. */
async function fieldOf(part, parameters) {
  if (!part) return { format: "null", value: "" };
  if (part.bytes > LARGEST_BYTES) throw new Error(`its ${parameters.part} has ${formatBytes(part.bytes)}`);
  return contentField(knownBytes(part) ?? (await loadBytes(parameters)), part.format === "json");
}

/** The bytes of a part if the details have all of them: as digits, or of a header as text that replaces none. */
function knownBytes({ text, bytes, hex }) {
  if (hex !== undefined) {
    const digits = hex ? hex.split(" ") : [];
    return digits.length === bytes ? Uint8Array.from(digits, (each) => Number.parseInt(each, 16)) : null;
  }
  const encoded = new TextEncoder().encode(text);
  return encoded.length === bytes && text.length < MOST_HEADER_CHARACTERS ? encoded : null;
}

async function loadBytes(parameters) {
  const response = await fetch(resourceAddress("message_part", parameters));
  if (!response.ok) throw new Error(`its ${parameters.part} cannot be read`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Text where a field of a form keeps it as it is; otherwise digits, or base64. */
export function contentField(bytes, isJson) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    // A field turns other line breaks into \n, and does not show control characters
    if (!/[^\P{Cc}\n\t]/u.test(text)) return { format: isJson ? "json" : "text", value: text };
  } catch {
    // Not UTF-8
  }
  if (bytes.length > MOST_HEX_BYTES) return { format: "base64", value: base64(bytes) };
  return { format: "hex", value: Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join(" ") };
}

function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += MOST_HEX_BYTES) {
    text += String.fromCharCode(...bytes.subarray(start, start + MOST_HEX_BYTES));
  }
  return btoa(text);
}

// --------------------------------------------------------------------------------------------------------- the form

function MessageFields({ values, set, bind }) {
  const { data } = useResource("message_formats");
  const more = data?.has_schemas ? [AVRO] : [];
  return html`<${Content} label="Key" name="key" formats=${[...KEY_FORMATS, ...more]} rows="2" values=${values} bind=${bind} />
    <${Content} label="Value" name="value" formats=${[...VALUE_FORMATS, ...more]} rows="8" values=${values} bind=${bind} />
    <${HeaderRows} values=${values} set=${set} />
    <div class="form-line">
      <${Input} label="Partition" inputmode="numeric" pattern="[0-9]*" placeholder="by the key" size="12" ...${bind("partition")} />
      <${Input} label="Time" placeholder="now, or 2026-11-28T12:00Z" ...${bind("timestamp")} />
    </div>`;
}

function Content({ label, name, formats, rows, values, bind }) {
  const isNull = values[`${name}_format`] === "null";
  return html`<div class="written-content">
    <div class="form-line">
      <${Select} label=${`${label} format`} options=${formats} ...${bind(`${name}_format`)} />
      ${values[`${name}_format`] === AVRO[0] &&
      html`<${Input}
        label=${`${label} schema id`}
        inputmode="numeric"
        pattern="[0-9]*"
        placeholder="newest of the topic"
        ...${bind(`${name}_schema`)}
      />`}
    </div>
    ${!isNull &&
    html`<${Field} label=${label}>
      <textarea class="input" rows=${rows} autocomplete="off" spellcheck=${false} ...${bind(name)}></textarea>
    <//>`}
  </div>`;
}

function HeaderRows({ values, set }) {
  const rows = JSON.parse(values.headers || "[]");
  const store = (next) => set("headers", JSON.stringify(next));
  const change = (index, name) => (event) =>
    store(rows.map((row, each) => (each === index ? { ...row, [name]: event.target.value } : row)));
  return html`<div class="written-headers" role="group" aria-label="Headers">
    ${rows.map(
      (row, index) => html`<div class="form-line" key=${index}>
        <${Input} label=${`Header ${index + 1} name`} required value=${row.name} onInput=${change(index, "name")} />
        <${Select} label=${`Header ${index + 1} format`} options=${HEADER_FORMATS} value=${row.format} onInput=${change(index, "format")} />
        ${row.format !== "null" && html`<${Input} label=${`Header ${index + 1} value`} value=${row.value} onInput=${change(index, "value")} />`}
        <button
          type="button"
          class="button quiet"
          aria-label=${`Remove header ${index + 1}`}
          onClick=${() => store(rows.filter((_, each) => each !== index))}
        >
          ✕
        </button>
      </div>`,
    )}
    <div>
      <button type="button" class="button small" onClick=${() => store([...rows, { name: "", format: "text", value: "" }])}>
        Add header
      </button>
    </div>
  </div>`;
}
