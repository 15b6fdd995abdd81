// What several pages show of groups: states, verdicts, lag.
import { formatDuration, formatNumber } from "./format.js";
import { html } from "./html.js";
import { Badge } from "./notices.js";

const STATES = {
  Stable: ["good", "All members have their partitions"],
  Empty: ["", "The group has no members now; its offsets are kept"],
  PreparingRebalance: ["warn", "Members are about to get other partitions"],
  CompletingRebalance: ["warn", "Members are about to get other partitions"],
  Assigning: ["warn", "The coordinator computes a new assignment"],
  Reconciling: ["warn", "Members are taking over their new partitions"],
  Dead: ["bad", "The group is being deleted"],
};
const VERDICTS = {
  OK: ["good", "Everything is read, or the group catches up"],
  WARN: ["warn", "The lag grew with every commit of the window"],
  STALL: ["bad", "The group commits the same offset again and again"],
  REWIND: ["warn", "A commit went back"],
  STOP: ["bad", "The group has stopped committing"],
};
const STATUSES = {
  "below the start": "Unread records were deleted; auto.offset.reset decides the next offset",
  "beyond the end": "The topic was created anew or lost its end; auto.offset.reset decides the next offset",
  "no offset": "A member has the partition, and has committed nothing yet",
  "no such partition": "The topic was deleted, or has fewer partitions now",
  unknown: "The leader of the partition did not answer",
};

export function GroupState({ state }) {
  if (!state) return html`<span class="unknown" title="The state is not known">–</span>`;
  const [kind, title] = STATES[state] ?? ["", state];
  return html`<${Badge} kind=${kind} title=${title}>${state}<//>`;
}

export function Verdict({ verdict, reason }) {
  if (!verdict) return html`<span class="unknown" title=${reason ?? "No verdict is known"}>–</span>`;
  const [kind, title] = VERDICTS[verdict] ?? ["", verdict];
  return html`<${Badge} kind=${kind} title=${title}>${verdict}<//>`;
}

export function OffsetStatus({ status }) {
  if (status === "ok") return html`<span class="soft">ok</span>`;
  const isBad = status !== "no offset";
  return html`<${Badge} kind=${isBad ? "bad" : "warn"} title=${STATUSES[status] ?? status}>${status}<//>`;
}

/** "1 234 records, 5 min": for titles. */
export function lagText(records, ms) {
  return `${formatNumber(records)} records, ${formatDuration(ms)}`;
}

/** The reason for a lag that is not known. */
export function lagReason(row, missing) {
  if (row.lag_records !== null && row.lag_records !== undefined) return "The age of the oldest unread record is not known";
  return missing?.lag ?? (row.partitions_total === 0 ? "The group has committed nothing" : "Not known");
}
