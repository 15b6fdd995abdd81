// States of a page: loading, failed, empty, partly unknown; badges and figures.
import { formatDuration, isKnown, KINDS, UNKNOWN } from "./format.js";
import { html } from "./html.js";

export function Loading({ what = "" }) {
  return html`<div class="loading" role="status">Loading${what ? ` ${what}` : ""}…</div>`;
}

/** A failure: its sentence, and a way to try again. */
export function Failure({ error, retry }) {
  return html`<div class="notice bad row" role="alert">
    <span>${error.message}</span>
    ${retry && html`<button class="button small" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** An empty state: what is not there, and what to do. */
export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong>${children && html`<div>${children}</div>`}</div>`;
}

/** The parts of an answer that the cluster did not give: `missing` is `{"sizes": "the reason"}`. */
export function Missing({ missing }) {
  const rows = Object.entries(missing ?? {});
  if (!rows.length) return null;
  return html`<div class="notice warn">
    ${rows.map(([part, reason]) => html`<div><strong>Missing ${part.replaceAll("_", " ")}</strong>: ${reason}</div>`)}
  </div>`;
}

/** A value, or a dash whose title is the reason why it is not known. */
export function Value({ value, kind = "text", reason = "" }) {
  const { show, exact = show } = KINDS[kind];
  if (isKnown(value)) return html`<span title=${exact(value)}>${show(value)}</span>`;
  return reason ? html`<span class="unknown" title=${reason}>${UNKNOWN}</span>` : UNKNOWN;
}

/** `kind`: accent, good, warn, bad, or nothing. */
export function Badge({ kind = "", title, children }) {
  return html`<span class="badge ${kind}" title=${title}>${children}</span>`;
}

/** Figures side by side: `items` are `{label, value, kind, mood, reason}`; `mood` is warn or bad. */
export function Figures({ items }) {
  return html`<dl class="figures">
    ${items.map(
      ({ label, value, kind, mood = "", reason, isSmall }) =>
        html`<div class="figure ${mood}" key=${label}>
          <dt>${label}</dt>
          <dd class=${isSmall ? "small" : ""}><${Value} value=${value} kind=${kind} reason=${reason} /></dd>
        </div>`,
    )}
  </dl>`;
}

/** The head of a page: title, badges, and buttons as `actions`. `path`: an array of `[text, address]` above it. */
export function PageHead({ title, path = [], actions, children }) {
  return html`<div>
    ${path.length > 0 &&
    html`<nav class="path" aria-label="Path">
      ${path.map(([text, target]) => html`<a href=${target}>${text}</a> <span aria-hidden="true">/</span> `)}
    </nav>`}
    <div class="page-head">
      <h1>${title}</h1>
      ${children}
      <div class="actions row">${actions}</div>
    </div>
  </div>`;
}

/** A bar; `done` of `total`, and the time left. */
export function Progress({ label, done, total, secondsLeft }) {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  const width = { width: `${(share * 100).toFixed(1)}%` };
  return html`<div>
    <div class="row">
      <span>${label}</span>
      <span class="soft">
        ${Math.floor(share * 100)} %${isKnown(secondsLeft) && `, ${formatDuration(secondsLeft * 1000)} left`}
      </span>
    </div>
    <div
      class="progress"
      role="progressbar"
      aria-label=${label}
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow=${Math.floor(share * 100)}
    >
      <div style=${width}></div>
    </div>
  </div>`;
}
