// One message beside the list: all fields, headers, bytes.
import { resourceAddress } from "../components/api.js";
import { copy } from "../components/export.js";
import { exactTime, formatBytes, formatNumber, formatTime, isKnown, UNKNOWN } from "../components/format.js";
import { html, useEffect, useRef, useState } from "../components/html.js";
import { Badge, Failure, Loading } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { setQuery } from "../components/route.js";
import { Visible } from "../components/visible.js";
import { SendAgainButton } from "./message_writer.js";

const FIRST_CHARACTERS = 32 * 1024; // more is drawn when it is asked for
const FIRST_HEX_BYTES = 1024;
const DUMP_BYTES = 16;
const NAMES = {
  text: "text",
  json: "JSON",
  hex: "bytes",
  avro: "Avro",
  protobuf: "Protobuf",
  "protobuf-raw": "Protobuf without a schema",
  kafka: "record of Kafka",
};

export function MessagePanel({ topic, at, search, rows, rowKey }) {
  const [partition, offset] = at.split(":");
  const { key_format, value_format, message_type } = search;
  const place = { topic, partition, offset };
  const { data, error, isLoading, reload } = useResource("message", { ...place, key_format, value_format, message_type });
  const element = useRef(null);
  useEffect(() => element.current.focus({ preventScroll: true }), [at]);
  const close = () => {
    setQuery({ at: null });
    document.querySelector("main [role=grid]")?.focus({ preventScroll: true });
  };
  const index = rows.findIndex((row) => rowKey(row) === at);
  const step = (by) => setQuery({ at: rowKey(rows[index + by]) });
  const has = (by) => index >= 0 && Boolean(rows[index + by]);
  const pressed = (event) => {
    if (event.target.closest("dialog")) return;
    if (event.key === "Escape") close();
    else if (event.target !== element.current) return;
    else if (event.key === "ArrowDown" && has(1)) step(1);
    else if (event.key === "ArrowUp" && has(-1)) step(-1);
    else return;
    event.preventDefault();
  };
  return html`<aside class="panel" aria-label="Message ${at}" tabindex="-1" ref=${element} onKeyDown=${pressed}>
    <div class="panel-head">
      <h2>${topic}-${partition} <span class="soft">at</span> ${offset}</h2>
      <div class="row">
        <button class="button quiet small" disabled=${!has(-1)} title="The row above (↑)" aria-label="The row above" onClick=${() => step(-1)}>↑</button>
        <button class="button quiet small" disabled=${!has(1)} title="The row below (↓)" aria-label="The row below" onClick=${() => step(1)}>↓</button>
        <button class="button quiet small" title="Copy the address of this view" onClick=${() => copy(location.href, "address")}>Link</button>
        <button class="button quiet small" aria-label="Close" title="Close (Esc)" onClick=${close}>✕</button>
      </div>
    </div>
    ${isLoading && html`<${Loading} what="the message" />`} ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${data && html`<${Details} message=${data} place=${place} />`}
  </aside>`;
}

function Details({ message, place }) {
  return html`${message.problem && html`<div class="notice bad">The batch cannot be read: ${message.problem}</div>`}
    <div class="row">
      <span title=${exactTime(message.timestamp_ms)}>${formatTime(message.timestamp_ms, { hasMillis: true })}</span>
      <span class="soft">${message.timestamp_type ?? "no time in this format"}</span>
      ${message.kind !== "message" && html`<${Badge} kind=${message.kind === "unreadable" ? "bad" : ""}>${message.kind}<//>`}
      ${message.transaction && html`<${Badge} kind=${TRANSACTIONS[message.transaction]}>${message.transaction}<//>`}
      <${SendAgainButton} message=${message} place=${place} />
    </div>
    <${Value} title="Key" part="key" value=${message.key} place=${place} />
    <${Value} title="Value" part="value" value=${message.value} place=${place} />
    <${Headers} message=${message} place=${place} />
    <${Facts} message=${message} place=${place} />`;
}

const TRANSACTIONS = { aborted: "bad", pending: "warn", committed: "good" };

/** A key or a value: as decoded, or its bytes. */
function Value({ title, part, value, place }) {
  const [view, setView] = useState("decoded");
  if (!value) {
    return html`<section class="panel-part"><div class="row"><h3>${title}</h3><span class="soft">null</span></div></section>`;
  }
  const choose = (name) => html`<button
    class="button quiet small"
    aria-pressed=${String(view === name)}
    onClick=${() => setView(name)}
  >
    ${name === "hex" ? "Hex" : "Decoded"}
  </button>`;
  return html`<section class="panel-part" aria-label=${title}>
    <div class="row">
      <h3>${title}</h3>
      <${Badge} kind="accent" title="The format that is shown">${NAMES[value.format] ?? value.format}<//>
      ${value.schema && html`<span class="soft">schema ${value.schema}</span>`}
      <span class="soft" title="${formatNumber(value.bytes)} bytes">${formatBytes(value.bytes)}</span>
      <div class="row actions">
        ${choose("decoded")} ${choose("hex")}
        <button class="button quiet small" onClick=${() => copy(value.text, value.is_cut ? `first ${formatNumber(value.text.length)} characters` : title.toLowerCase())}>Copy</button>
        <a class="button quiet small" href=${resourceAddress("message_part", { ...place, part })} download>Download</a>
      </div>
    </div>
    ${value.problem && html`<div class="notice warn">${value.problem}</div>`}
    ${view === "hex" ? html`<${Dump} key="hex" value=${value} />` : html`<${LongText} key="text" text=${value.text} isCut=${value.is_cut} />`}
  </section>`;
}

/** The beginning of a text; all of it when asked for. */
function LongText({ text, isCut = false }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, FIRST_CHARACTERS);
  return html`<pre class="panel-text" tabindex="0"><${Visible} text=${shown} /></pre>
    ${shown.length < text.length &&
    html`<button class="button small" onClick=${() => setWhole(true)}>Show ${formatNumber(text.length)} characters</button>`}
    ${isCut && shown.length === text.length && html`<span class="soft">There is more; download the bytes to have all of them.</span>`}`;
}

/** Bytes with their offsets and letters, as hexdump shows them. */
export function dump(hex) {
  const bytes = hex ? hex.split(" ") : [];
  const lines = [];
  for (let start = 0; start < bytes.length; start += DUMP_BYTES) {
    const part = bytes.slice(start, start + DUMP_BYTES);
    const letters = part.map((each) => {
      const code = Number.parseInt(each, 16);
      return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : ".";
    });
    lines.push(`${start.toString(16).padStart(6, "0")}  ${part.join(" ").padEnd(DUMP_BYTES * 3 - 1)}  ${letters.join("")}`);
  }
  return lines.join("\n");
}

function Dump({ value }) {
  const [isWhole, setWhole] = useState(false);
  const all = (value.hex.length + 1) / 3;
  const hex = isWhole ? value.hex : value.hex.slice(0, FIRST_HEX_BYTES * 3 - 1);
  return html`<pre class="panel-text dump" tabindex="0">${dump(hex)}</pre>
    ${hex.length < value.hex.length && html`<button class="button small" onClick=${() => setWhole(true)}>Show ${formatNumber(all)} bytes</button>`}
    ${hex.length === value.hex.length && all < value.bytes && html`<span class="soft">There is more; download the bytes to have all of them.</span>`}`;
}

function Headers({ message, place }) {
  if (!message.headers_count) return html`<section class="panel-part"><div class="row"><h3>Headers</h3><span class="soft">none</span></div></section>`;
  const more = message.headers_count - message.headers.length;
  return html`<section class="panel-part" aria-label="Headers">
    <h3>Headers <span class="soft">${formatNumber(message.headers_count)}</span></h3>
    <dl class="facts panel-headers">
      ${message.headers.map(
        ({ name, text, bytes }, index) =>
          html`<dt class="mono" key=${`name ${index}`}><${Visible} text=${name} /></dt>
            <dd class="mono" key=${`value ${index}`}>
              ${text === null ? html`<span class="soft">null</span>` : html`<${Visible} text=${text} />`}
              ${bytes > 100 && html`${" "}<a href=${resourceAddress("message_part", { ...place, part: "header", index })} download>${formatBytes(bytes)}</a>`}
            </dd>`,
      )}
    </dl>
    ${more > 0 && html`<span class="soft">and ${formatNumber(more)} more</span>`}
  </section>`;
}

function Facts({ message, place }) {
  const { batch } = message;
  const facts = [
    ["Producer", isKnown(message.producer_id) ? `${message.producer_id}, epoch ${message.producer_epoch ?? UNKNOWN}` : "without an id"],
    ["Sequence", isKnown(message.sequence) ? formatNumber(message.sequence) : UNKNOWN],
    ["Leader epoch", isKnown(message.leader_epoch) ? formatNumber(message.leader_epoch) : UNKNOWN],
    ["Batch", `offsets ${formatNumber(batch.base_offset)} – ${formatNumber(batch.last_offset)}, ${formatNumber(batch.records)} ${batch.records === 1 ? "record" : "records"}`],
    ["Batch size", formatBytes(batch.bytes)],
    ["Codec", batch.codec],
    ["Format", `magic ${batch.magic}`],
    ["Transactional", batch.transactional ? "yes" : "no"],
    ["Times of the batch", `${formatTime(batch.base_timestamp, { hasMillis: true })} – ${formatTime(batch.max_timestamp, { hasMillis: true })}`],
    ["CRC", batch.is_sound ? "right" : html`<${Badge} kind="bad">wrong<//>`],
  ];
  return html`<section class="panel-part" aria-label="Batch">
    <div class="row">
      <h3>Record and batch</h3>
      <div class="row actions">
        <a class="button quiet small" href=${resourceAddress("message_part", { ...place, part: "batch" })} download>Download the batch</a>
      </div>
    </div>
    <dl class="facts">${facts.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>
  </section>`;
}
