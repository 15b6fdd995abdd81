// Changes of the cluster: fields, a preview of what will happen, then the change. A console that only reads has no buttons.
import { mayWrite, post } from "./api.js";
import { ChangeLines } from "./change_lines.js";
import { Dialog } from "./dialog.js";
import { copy } from "./export.js";
import { Input } from "./form.js";
import { html, useEffect, useState } from "./html.js";
import { Loading } from "./notices.js";
import { address } from "./route.js";
import { toast } from "./toasts.js";

/** A button that opens the change, with the properties of ChangeDialog. `label`: of the button, if not the title. */
export function ChangeButton({ label, buttonClass = "", ...change }) {
  const [isOpen, setOpen] = useState(false);
  if (!mayWrite()) return null;
  const look = change.kind === "danger" ? "danger" : "";
  return html`<button class="button ${look} ${buttonClass}" onClick=${() => setOpen(true)}>${label ?? change.title}</button>
    ${isOpen && html`<${ChangeDialog} ...${change} onClose=${() => setOpen(false)} />`}`;
}

/**
 * `change`: a name in the table of changes; `title`: what it does, also on the last button; `kind`: danger or nothing.
 * `parameters`: `{name: text or list of texts}`; what `fields` collects joins them.
 * `fields`: a component of `{values, set, bind}`, as `set("partitions", "3")` or `...${bind("name")}`; `initial`: its values.
 * `onDone(details)`: the change was made. With `showsResult` the dialog then shows the result; otherwise a message does.
 */
export function ChangeDialog({
  change,
  title,
  kind = "",
  parameters = {},
  fields = null,
  initial = {},
  showsResult = false,
  onClose,
  onDone,
}) {
  const [values, setValues] = useState(initial);
  const [state, setState] = useState({ step: fields ? "fields" : "plan", plan: null, error: null, result: null, isBusy: false });
  const update = (changes) => setState((before) => ({ ...before, ...changes }));
  const given = present({ ...parameters, ...(fields ? values : {}) });
  const preview = async () => {
    update({ isBusy: true, error: null });
    try {
      const plan = await post(`changes/${change}/plan`, { parameters: given });
      update({ step: "plan", plan, isBusy: false });
    } catch (error) {
      update({ error, isBusy: false });
    }
  };
  useEffect(() => {
    if (!fields) preview();
  }, []);
  const apply = async (confirmation) => {
    update({ isBusy: true, error: null });
    try {
      const body = { parameters: given, digest: state.plan.digest, confirmation };
      const result = await post(`changes/${change}/apply`, body);
      if (!showsResult && !result.failures.length) {
        result.done.slice(0, 3).forEach((sentence) => toast(`${sentence}.`));
        onClose();
      } else update({ step: "result", result, isBusy: false });
      onDone?.(result.details);
    } catch (error) {
      update({ error, isBusy: false, plan: error.content?.plan ?? state.plan });
    }
  };
  const back = fields ? () => update({ step: "fields", error: null }) : null;
  return html`<${Dialog} title=${title} onClose=${onClose} isWide=${state.step !== "fields"}>
    <div class="change">
      ${state.error && html`<div class="notice bad" role="alert">${state.error.message}</div>`}
      ${state.step === "fields" &&
      html`<${Fields} fields=${fields} values=${values} setValues=${setValues} isBusy=${state.isBusy} onSubmit=${preview} />`}
      ${state.step === "plan" && !state.plan && !state.error && html`<${Loading} what="the preview" />`}
      ${state.step === "plan" &&
      state.plan &&
      html`<${Plan}
        key=${state.plan.digest}
        plan=${state.plan}
        title=${title}
        kind=${kind}
        isBusy=${state.isBusy}
        onApply=${apply}
        onBack=${back}
        onClose=${onClose}
      />`}
      ${state.step === "result" && html`<${Result} result=${state.result} onClose=${onClose} />`}
    </div>
  <//>`;
}

/** The parameters that are given: neither null nor undefined. */
function present(parameters) {
  return Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
}

function Fields({ fields: Inputs, values, setValues, isBusy, onSubmit }) {
  const set = (name, value) => setValues((before) => ({ ...before, [name]: value }));
  const bind = (name) => ({ name, value: values[name] ?? "", onInput: (event) => set(name, event.target.value) });
  const submitted = (event) => {
    event.preventDefault();
    onSubmit();
  };
  return html`<form class="form" onSubmit=${submitted}>
    <${Inputs} values=${values} set=${set} bind=${bind} />
    <div class="row"><button class="button primary" disabled=${isBusy}>Preview</button></div>
  </form>`;
}

function Plan({ plan, title, kind, isBusy, onApply, onBack, onClose }) {
  const [confirmation, setConfirmation] = useState("");
  const isReady = !plan.problems.length && confirmation === plan.confirmation;
  const submitted = (event) => {
    event.preventDefault();
    if (isReady && !isBusy) onApply(confirmation);
  };
  return html`<form class="form" onSubmit=${submitted}>
    <p class="change-summary">${plan.summary}</p>
    ${plan.problems.map((sentence) => html`<div class="notice bad" role="alert" key=${sentence}>${sentence}</div>`)}
    ${plan.warnings.map((sentence) => html`<div class="notice warn" key=${sentence}>${sentence}</div>`)}
    ${plan.lines.length > 0 && html`<${ChangeLines} lines=${plan.lines} />`}
    ${plan.command && html`<${Command} text=${plan.command} />`}
    ${plan.confirmation &&
    !plan.problems.length &&
    html`<${Input}
      label=${`Type ${plan.confirmation} to confirm: this cannot be undone`}
      name="confirmation"
      value=${confirmation}
      onInput=${(event) => setConfirmation(event.target.value)}
    />`}
    <div class="row">
      <button class="button ${kind === "danger" ? "danger" : "primary"}" disabled=${!isReady || isBusy}>${title}</button>
      ${onBack && html`<button type="button" class="button" onClick=${onBack}>Back</button>`}
      <button type="button" class="button quiet" onClick=${onClose}>Cancel</button>
    </div>
  </form>`;
}

function Command({ text }) {
  return html`<div class="change-command">
    <code>${text}</code>
    <button type="button" class="button small" onClick=${() => copy(text, "command")}>Copy</button>
  </div>`;
}

function Result({ result, onClose }) {
  const { link } = result.details;
  return html`<div class="form" role="status">
    ${result.failures.length > 0 &&
    html`<div class="notice bad" role="alert">
      Not done:
      <ul class="change-results">
        ${result.failures.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}
      </ul>
    </div>`}
    <ul class="change-results">
      ${result.done.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}
    </ul>
    <div class="row">
      ${link && html`<a class="button primary" href=${address(...link)} onClick=${onClose}>Show</a>`}
      <button class="button" onClick=${onClose}>Close</button>
    </div>
  </div>`;
}
