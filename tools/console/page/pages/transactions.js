// Open transactions, with the hanging ones marked, and transactional ids.
import { ChangeButton } from "../components/change.js";
import { Dialog } from "../components/dialog.js";
import { copy } from "../components/export.js";
import { useFiguresInSight } from "../components/figures_in_sight.js";
import { formatDuration, formatNumber } from "../components/format.js";
import { html, useMemo, useState } from "../components/html.js";
import { Badge, Empty, Failure, Figures, Loading, Missing, PageHead, Value } from "../components/notices.js";
import { useResource } from "../components/resource.js";
import { address } from "../components/route.js";
import { List } from "../components/table.js";
import { chooseTab, Tabs } from "../components/tabs.js";

const TABS = [
  { name: "open", title: "Open transactions" },
  { name: "ids", title: "Transactional ids" },
];

export default function TransactionsPage({ query }) {
  const tab = query.tab === "ids" ? "ids" : "open";
  return html`<${PageHead} title="Transactions" />
    <${Tabs} label="Views" tabs=${TABS} chosen=${tab} onChoose=${chooseTab} />
    ${tab === "open" ? html`<${OpenTransactions} />` : html`<${TransactionalIds} />`}`;
}

// ------------------------------------------------------------------------------------------------- open transactions

function Judgement({ row }) {
  if (row.is_hanging) return html`<${Badge} kind="bad" title=${row.reason}>hanging<//>`;
  if (row.is_hanging === null) {
    const title = "No coordinator has answered for this producer, or the transaction has ended meanwhile";
    return html`<${Badge} kind="warn" title=${title}>not known<//>`;
  }
  return html`<${Badge} kind="accent" title=${row.reason}>open<//>`;
}

const judgementOf = (row) => (row.is_hanging ? "hanging" : row.is_hanging === null ? "not known" : "open");

const OPEN_COLUMNS = [
  {
    name: "topic",
    title: "Topic",
    value: (row) => row.topic,
    cell: (row) => html`<a tabindex="-1" href=${address("/topics", row.topic)}>${row.topic}</a>`,
    width: "minmax(90px, 2fr)",
  },
  { name: "partition", title: "Part.", hint: "Partition", value: (row) => row.partition, kind: "number", width: "56px", isSearched: true },
  {
    name: "is_hanging",
    title: "State",
    value: judgementOf,
    cell: (row) => html`<${Judgement} row=${row} />`,
    width: "100px",
  },
  {
    name: "transactional_id",
    title: "Transactional id",
    value: (row) => row.transactional_id,
    reason: (row) => row.reason ?? "No coordinator has answered for this producer",
    width: "minmax(120px, 2fr)",
    isWideOnly: true,
  },
  {
    name: "age_ms",
    title: "Last batch",
    hint: "The time since its newest batch, by the producer's clock",
    value: (row) => row.age_ms,
    kind: "duration",
    width: "110px",
  },
  {
    name: "start_offset",
    title: "Start offset",
    hint: "read_committed consumers of the partition get no further than the first open transaction",
    value: (row) => row.start_offset,
    kind: "number",
    width: "120px",
    isWideOnly: true,
  },
  { name: "producer_id", title: "Producer id", value: (row) => row.producer_id, width: "110px", isWideOnly: true },
  { name: "producer_epoch", title: "Epoch", value: (row) => row.producer_epoch, kind: "number", width: "76px", isWideOnly: true },
];

function OpenTransactions() {
  const { data, error, isLoading, reload } = useResource("open_transactions");
  const [chosen, setChosen] = useState(null);
  if (isLoading) return html`<${Loading} what="open transactions of all partitions" />`;
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  const hanging = data.open_transactions.filter((row) => row.is_hanging).length;
  return html`<${Figures}
      items=${[
        { label: "Open", value: data.open_transactions.length, kind: "number" },
        { label: "Hanging", value: hanging, kind: "number", mood: hanging ? "bad" : "" },
        { label: "Partitions asked", value: data.partitions_asked, kind: "number" },
        { label: "As of", value: data.measured_ms, kind: "time", isSmall: true },
      ]}
    />
    <${Missing} missing=${data.missing} />
    <p class="soft">
      A transaction hangs if no coordinator is going to end it; one with a batch of the last
      ${" "}${formatDuration(data.older_than_ms)} is never called so.
    </p>
    <${List}
      name="open transactions"
      columns=${OPEN_COLUMNS}
      rows=${data.open_transactions}
      rowKey=${(row) => `${row.topic}-${row.partition}-${row.producer_id}`}
      onOpen=${setChosen}
      empty=${!data.missing.transactions && html`<${Empty} title="No transaction is open" />`}
    >
      <button class="button small" onClick=${reload}>Ask again</button>
    <//>
    ${chosen && html`<${OpenTransaction} row=${chosen} reload=${reload} onClose=${() => setChosen(null)} />`}`;
}

function OpenTransaction({ row, reload, onClose }) {
  const command = `headgate txn abort --topic ${row.topic}:${row.partition} --start-offset ${row.start_offset}`;
  const { topic, partition, start_offset } = row;
  const parameters = { topic, partition: String(partition), start_offset: String(start_offset) };
  const aborted = () => {
    onClose();
    reload();
  };
  const fact = (label, value, kind) => html`<dt>${label}</dt>
    <dd><${Value} value=${value} kind=${kind} /></dd>`;
  return html`<${Dialog} title=${`Open transaction in ${row.topic}-${row.partition}`} onClose=${onClose}>
    <div class="form">
      <div class="row"><${Judgement} row=${row} /><span>${row.reason ?? "No coordinator has answered for this producer."}</span></div>
      <dl class="facts">
        ${fact("Transactional id", row.transactional_id)} ${fact("Start offset", row.start_offset, "number")}
        ${fact("Last batch", row.last_timestamp_ms, "time")} ${fact("Producer id", row.producer_id)}
        ${fact("Producer epoch", row.producer_epoch)} ${fact("Coordinator epoch", row.coordinator_epoch)}
      </dl>
      ${row.is_hanging &&
      html`<div class="notice warn">
        <p>read_committed consumers wait at offset ${formatNumber(row.start_offset)} until it is ended. This shows the abort, and changes nothing:</p>
        <p class="row"><code>${command}</code><button class="button small" onClick=${() => copy(command, "command")}>Copy</button></p>
      </div>`}
      <div class="row">
        <${ChangeButton}
          change="abort_transaction"
          title="Abort transaction"
          kind="danger"
          parameters=${parameters}
          onDone=${aborted}
        />
      </div>
    </div>
  <//>`;
}

// ------------------------------------------------------------------------------------------------- transactional ids

const MOODS = { Ongoing: "accent", PrepareCommit: "warn", PrepareAbort: "warn", PrepareEpochFence: "warn", Dead: "bad" };

const ID_COLUMNS = [
  { name: "transactional_id", title: "Transactional id", value: (row) => row.transactional_id, width: "minmax(140px, 3fr)" },
  {
    name: "state",
    title: "State",
    value: (row) => row.state,
    cell: (row) => html`<${Badge} kind=${MOODS[row.state] ?? ""}>${row.state}<//>`,
    width: "168px",
  },
  {
    name: "age_ms",
    title: "Open for",
    value: (row) => row.age_ms,
    reason: (row) => (row.measured_ms ? "No transaction is open" : "Not asked for yet"),
    kind: "duration",
    width: "100px",
  },
  { name: "timeout_ms", title: "Timeout", hint: "transaction.timeout.ms of the producer", value: (row) => row.timeout_ms, kind: "duration", width: "100px", isWideOnly: true },
  {
    name: "partitions",
    title: "Partitions",
    hint: "Those in the transaction that have no marker yet",
    value: (row) =>
      row.partitions &&
      (Object.entries(row.partitions)
        .map(([topic, numbers]) => `${topic}: ${numbers.join(", ")}`)
        .join("; ") ||
        null),
    reason: (row) => (row.measured_ms ? "The transaction has no partition" : "Not asked for yet"),
    width: "minmax(120px, 2fr)",
    isWideOnly: true,
  },
  { name: "producer_id", title: "Producer id", value: (row) => row.producer_id, width: "110px", isWideOnly: true },
  { name: "producer_epoch", title: "Epoch", value: (row) => row.producer_epoch, kind: "number", width: "76px", isWideOnly: true },
  { name: "coordinator", title: "Coordinator", hint: "Node id", value: (row) => row.coordinator_id, kind: "number", width: "104px", isWideOnly: true },
];

function TransactionalIds() {
  const { data, error, isLoading, reload } = useResource("transactions", {}, { everyMs: 10_000 });
  const listed = useMemo(
    () => data?.rows.map(([transactional_id, state, producer_id, coordinator_id]) => ({ transactional_id, state, producer_id, coordinator_id })) ?? [],
    [data],
  );
  const { figures, missing, onVisible, ...rest } = useFiguresInSight({
    resource: "transaction_figures",
    parameter: "transactional_id",
    list: "transactions",
    key: "transactional_id",
    most: 200,
  });
  const rows = useMemo(() => listed.map((row) => ({ ...row, ...figures.get(row.transactional_id) })), [listed, figures]);
  if (isLoading) return html`<${Loading} what="transactional ids" />`;
  const failure = error ?? rest.error;
  return html`${failure && html`<${Failure} error=${failure} retry=${reload} />`}
    <${Missing} missing=${{ ...data?.missing, ...missing }} />
    <${List}
      name="transactional ids"
      columns=${ID_COLUMNS}
      rows=${rows}
      rowKey=${(row) => row.transactional_id}
      onVisible=${onVisible}
      empty=${!data?.missing.transactions &&
      html`<${Empty} title="There are no transactional ids">A producer with a transactional.id makes one.<//>`}
    />`;
}
