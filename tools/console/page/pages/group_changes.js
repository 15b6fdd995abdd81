// Changes of groups: offsets moved by one rule, or set by number, and deleted offsets and groups.
import { mayWrite } from "../components/api.js";
import { ChangeButton, ChangeDialog } from "../components/change.js";
import { inputMs, inputTime, isKnown } from "../components/format.js";
import { Input, Select } from "../components/form.js";
import { html, useMemo, useState } from "../components/html.js";

const MOVE = "Move offsets";
const ENDS = ["earliest", "latest"];
const PLACES = [
  ["earliest", "To the start"],
  ["latest", "To the end"],
  ["offset", "To an offset"],
  ["time", "To a time"],
  ["by", "By a number of records"],
];
const SHIFT = "[+\\-]?[0-9]+";
const HOUR_MS = 3_600_000;
const AGES = [
  ["1 hour ago", HOUR_MS],
  ["1 day ago", 24 * HOUR_MS],
  ["1 week ago", 7 * 24 * HOUR_MS],
];

/** Move the offsets of groups: the properties of ChangeButton, and `groups`, and the `topics` that these have read. */
export function MoveOffsets({ groups, topics, ...rest }) {
  const fields = useMoveFields(topics);
  const initial = { place: ENDS[0], to: ENDS[0], all_topics: "true" };
  return html`<${ChangeButton}
    change="reset_offsets"
    title=${MOVE}
    parameters=${{ group: groups }}
    fields=${fields}
    initial=${initial}
    ...${rest}
  />`;
}

/** The buttons of a row of a group's topics. */
export function topicActions(group, { topic }) {
  const name = `offsets of ${topic}`;
  const initial = { place: ENDS[0], to: ENDS[0] };
  const parameters = { group: [group], topic: [topic] };
  return [
    { label: "Move", name, change: "reset_offsets", title: `${MOVE} of ${topic}`, parameters, fields: Place, initial },
    { label: "Delete", name, change: "delete_offsets", title: "Delete offsets", kind: "danger", parameters },
  ];
}

/** Delete groups; `label`: of the button, if there are several. */
export function DeleteGroups({ groups, ...rest }) {
  return html`<${ChangeButton}
    change="delete_groups"
    title=${groups.length === 1 ? "Delete group" : "Delete groups"}
    kind="danger"
    parameters=${{ group: groups }}
    ...${rest}
  />`;
}

/** The fields of one dialog; the component stays the same while the topics do, so that inputs keep the focus. */
function useMoveFields(topics) {
  return useMemo(
    () => (properties) => html`<${Place} ...${properties} />
      <${Topics} topics=${topics} ...${properties} />`,
    [topics.join("\n")],
  );
}

function Place({ values, set }) {
  const place = values.place;
  const choose = (chosen) => {
    set("place", chosen);
    set("to", chosen === "by" ? null : ENDS.includes(chosen) ? chosen : "");
    set("by", chosen === "by" ? "" : null);
  };
  const setTime = (ms) => set("to", isKnown(ms) ? new Date(Number(ms)).toISOString() : "");
  const typed = (name) => ({ value: values[name] ?? "", onInput: (event) => set(name, event.target.value) });
  return html`<div class="form-line">
      <${Select} label="Move" options=${PLACES} value=${place} onChange=${(event) => choose(event.target.value)} />
      ${place === "offset" &&
      html`<${Input} label="Offset" inputmode="numeric" pattern="[0-9]+" required ...${typed("to")} />`}
      ${place === "by" &&
      html`<${Input} label="Records" placeholder="100, or -100 back" pattern=${SHIFT} required ...${typed("by")} />`}
      ${place === "time" &&
      html`<${Input}
        label="Time"
        type="datetime-local"
        step="0.001"
        required
        value=${inputTime(values.to && Date.parse(values.to))}
        onInput=${(event) => setTime(inputMs(event.target.value))}
      />`}
    </div>
    ${place === "time" &&
    html`<div class="row">
      ${AGES.map(
        ([text, age]) =>
          html`<button type="button" class="button small" key=${text} onClick=${() => setTime(Date.now() - age)}>
            ${text}
          </button>`,
      )}
      ${values.to && html`<span class="soft">${values.to}</span>`}
    </div>`}`;
}

/** All topics of the groups, some of them, or others by name. */
function Topics({ topics, values, set }) {
  const chosen = values.chosen ?? topics;
  const choose = (names, more) => {
    const others = more.split(/\s+/).filter(Boolean);
    const isAll = names.length === topics.length && topics.length > 0 && !others.length;
    set("chosen", names);
    set("more", more);
    set("all_topics", isAll ? "true" : null);
    set("topic", isAll ? null : [...names, ...others]);
  };
  const more = values.more ?? "";
  return html`${topics.length > 0 &&
    html`<${Choices} topics=${topics} chosen=${chosen} onChoose=${(names) => choose(names, more)} />`}
    <${Input}
      label="Other topics or partitions"
      placeholder="audit orders:0,2,4-6"
      hint="By name, with a space between; these offsets are set even if the group has committed none there"
      value=${more}
      onInput=${(event) => choose(chosen, event.target.value)}
    />`;
}

function Choices({ topics, chosen, onChoose }) {
  const toggle = (topic) => onChoose(topics.filter((name) => chosen.includes(name) !== (name === topic)));
  return html`<fieldset class="choices">
    <legend>Topics</legend>
    ${topics.length > 1 &&
    html`<div class="row">
      <button type="button" class="button small" onClick=${() => onChoose(topics)}>All</button>
      <button type="button" class="button small" onClick=${() => onChoose([])}>None</button>
    </div>`}
    <div class="choices-list">
      ${topics.map(
        (topic) =>
          html`<label key=${topic}>
            <input type="checkbox" checked=${chosen.includes(topic)} onChange=${() => toggle(topic)} /> ${topic}
          </label>`,
      )}
    </div>
  </fieldset>`;
}

/**
 * Offsets edited in the list of partitions: `{columns, tools, dialog, isEditing}`; `tools` stand beside the filter.
 * `columns` are those of the list; the one of committed offsets has inputs while it is edited.
 */
export function useOffsetEditor({ group, columns, onDone }) {
  const [edits, setEdits] = useState(null); // by partition; null: the list only shows
  const [targets, setTargets] = useState(null); // in the dialog
  if (!mayWrite()) return { columns, tools: null, dialog: null, isEditing: false };
  const dialog =
    targets &&
    html`<${ChangeDialog}
      change="reset_offsets"
      title="Set offsets"
      parameters=${{ group: [group], target: targets }}
      onClose=${() => setTargets(null)}
      onDone=${() => {
        setEdits(null);
        onDone();
      }}
    />`;
  if (!edits) {
    const tools = html`<button class="button small" onClick=${() => setEdits(new Map())}>Edit offsets</button>`;
    return { columns, tools, dialog, isEditing: false };
  }
  const edit = (row, text) => {
    const next = new Map(edits);
    if (text.trim() === String(row.committed_offset ?? "")) next.delete(nameOf(row));
    else next.set(nameOf(row), { text, committed: row.committed_offset });
    setEdits(next);
  };
  const targetOf = ([name, { text, committed }]) => `${name}=${offsetOf(text.trim(), committed)}`;
  const preview = () => edits.size && setTargets([...edits].map(targetOf));
  const count = edits.size === 1 ? "1 offset" : `${edits.size} offsets`;
  const tools = html`<button class="button small primary" disabled=${!edits.size} onClick=${preview}>
      Preview ${count}
    </button>
    <button class="button small" onClick=${() => setEdits(null)}>Stop editing</button>
    <span class="soft">An offset, or +100, -100</span>`;
  const edited = columns.map((column) => editedColumn(column, edits, edit, preview));
  return { columns: edited, tools, dialog, isEditing: true };
}

/** A column while offsets are edited: inputs for committed offsets, and no lag beside them on narrow screens. */
function editedColumn(column, edits, edit, preview) {
  if (["lag_records", "lag_ms"].includes(column.name)) return { ...column, isWideOnly: true };
  if (column.name !== "committed_offset") return column;
  const properties = { edit, preview };
  const cell = (row) => html`<${OffsetInput} row=${row} edited=${edits.get(nameOf(row))} ...${properties} />`;
  return { ...column, cell, width: "minmax(130px, 160px)", isWideOnly: false };
}

const nameOf = (row) => `${row.topic}:${row.partition}`;

/** The offset of a text: a number, or one beside the committed one, as in "+100"; the preview refuses other texts. */
function offsetOf(text, committed) {
  return /^[+-]\d{1,15}$/.test(text) && isKnown(committed) ? Math.max(0, committed + Number(text)) : text;
}

function OffsetInput({ row, edited, edit, preview }) {
  return html`<input
    class="input cell ${edited ? "edited" : ""}"
    autocomplete="off"
    aria-label=${`Offset of ${row.topic}-${row.partition}`}
    value=${edited ? edited.text : row.committed_offset ?? ""}
    onInput=${(event) => edit(row, event.target.value)}
    onKeyDown=${(event) => event.key === "Enter" && preview()}
  />`;
}
