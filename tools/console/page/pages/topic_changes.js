// Changes of topics: a new one, more partitions, deleted records.
import { ChangeButton } from "../components/change.js";
import { Field, Input, Select } from "../components/form.js";
import { formatNumber } from "../components/format.js";
import { html, useMemo } from "../components/html.js";
import { address, go } from "../components/route.js";

function TopicFields({ bind }) {
  return html`<${Input} label="Name" autofocus required ...${bind("topic")} />
    <div class="form-line">
      <${Input} label="Partitions" inputmode="numeric" placeholder="broker's default" ...${bind("partitions")} />
      <${Input}
        label="Replication factor"
        inputmode="numeric"
        placeholder="broker's default"
        ...${bind("replication_factor")}
      />
    </div>
    <${Field} label="Configs" hint="name=value, one a line">
      <textarea class="input" spellcheck=${false} placeholder="retention.ms=86400000" ...${bind("config")}></textarea>
    <//>`;
}

export function CreateTopic() {
  const opened = ({ link }) => link && go(address(...link));
  return html`<${ChangeButton} change="create_topic" title="Create topic" fields=${TopicFields} onDone=${opened} />`;
}

function PartitionFields({ bind }) {
  return html`<${Input} label="Partitions in all" autofocus inputmode="numeric" required ...${bind("partitions")} />`;
}

export function AddPartitions({ topic, count, onDone }) {
  return html`<${ChangeButton}
    change="add_partitions"
    title="Add partitions"
    buttonClass="small"
    parameters=${{ topic }}
    fields=${PartitionFields}
    initial=${{ partitions: String(count + 1) }}
    onDone=${onDone}
  />`;
}

const WHICH = [
  ["true", "All records of all partitions"],
  ["false", "Those before an offset"],
];

/** `values.all`: "true" or "false"; `values.offset`: `["partition:offset"]`. */
function OffsetFields({ partitions, values, set }) {
  const offsets = new Map(values.offset.map((text) => text.split(":")));
  const typed = (partition, text) => {
    offsets.set(partition, text.trim());
    set("offset", [...offsets].filter(([, offset]) => offset).map((pair) => pair.join(":")));
  };
  const chosen = (event) => set("all", event.target.value);
  return html`<${Select} label="Records" autofocus options=${WHICH} value=${values.all} onChange=${chosen} />
    ${values.all === "false" &&
    html`<p class="soft">
        The first offset that stays, or <code>end</code>; without one a partition keeps its records.
      </p>
      <div class="change-offsets">
        ${partitions.map(
          ({ partition, start_offset, end_offset }) =>
            html`<${Input}
              key=${partition}
              label=${`Partition ${partition}`}
              hint=${end_offset === null
                ? "offsets not known"
                : `${formatNumber(start_offset)} to ${formatNumber(end_offset)}`}
              value=${offsets.get(String(partition)) ?? ""}
              onInput=${(event) => typed(String(partition), event.target.value)}
            />`,
        )}
      </div>`}`;
}

/** `partitions`: rows of the topic; those of the first render are shown while the dialog is open. */
export function DeleteRecords({ topic, partitions, onDone }) {
  const fields = useMemo(() => (rest) => html`<${OffsetFields} partitions=${partitions} ...${rest} />`, [topic]);
  return html`<${ChangeButton}
    change="delete_records"
    title="Delete records"
    kind="danger"
    buttonClass="small"
    parameters=${{ topic }}
    fields=${fields}
    initial=${{ all: "true", offset: [] }}
    onDone=${onDone}
  />`;
}
