// Buttons in the rows of a list, each of which opens a change of its row.
import { mayWrite } from "./api.js";
import { ChangeDialog } from "./change.js";
import { html, useMemo, useState } from "./html.js";

/**
 * The columns of a list, with buttons in each row if the visitor may change the cluster, and the dialog of the pressed one:
 * `[columns, dialog]`. `actions(row)`: `[{label, name, ...properties of ChangeDialog}]`; `name` says the row, for a reader
 * of the screen. `look`: `{width, title}` of the column with the buttons.
 */
export function useRowChanges(columns, actions, look, onDone) {
  const [open, setOpen] = useState(null);
  const shown = useMemo(
    () => (mayWrite() ? [...columns, { ...CHANGE_COLUMN, ...look, cell: (row) => buttons(actions(row), setOpen) }] : columns),
    [columns],
  );
  const { label, name, ...change } = open ?? {};
  const dialog = open && html`<${ChangeDialog} ...${change} onClose=${() => setOpen(null)} onDone=${onDone} />`;
  return [shown, dialog];
}

const CHANGE_COLUMN = { name: "change", title: "Change", value: () => null, isUnsorted: true, isSearched: false, isAction: true };

function buttons(actions, setOpen) {
  return html`<span class="row tight">
    ${actions.map(
      (action) =>
        html`<button
          key=${action.label}
          class="button small ${action.kind ?? ""}"
          aria-label=${`${action.label} ${action.name}`}
          onClick=${() => setOpen(action)}
        >
          ${action.label}
        </button>`,
    )}
  </span>`;
}
