// Fields and forms. A form's fields are plain inputs with names; `onSubmit` gets `{name: value}`.
import { html, useState } from "./html.js";

export function Field({ label, hint, error, children }) {
  return html`<label class="field">
    <span>${label}</span>
    ${children} ${hint && html`<span class="hint">${hint}</span>`}
    ${error && html`<span class="badge bad" role="alert">${error}</span>`}
  </label>`;
}

export function Input({ label, hint, error, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} error=${error}>
    <input class="input" autocomplete="off" spellcheck=${false} aria-invalid=${error ? "true" : null} ...${rest} />
  <//>`;
}

/** `options`: `[[value, text]]`. */
export function Select({ label, hint, options, value, ...rest }) {
  return html`<${Field} label=${label} hint=${hint}>
    <select class="input" value=${value} ...${rest}>
      ${options.map(([each, text]) => html`<option value=${each} selected=${each === value}>${text}</option>`)}
    </select>
  <//>`;
}

/** `onSubmit(values)` may be async; while it runs the button is off, and what it throws is shown. */
export function Form({ submit, onSubmit, children }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const submitted = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    setState({ isBusy: true, error: null });
    try {
      await onSubmit(values);
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`<form class="form" onSubmit=${submitted}>
    ${children} ${state.error && html`<div class="notice bad" role="alert">${state.error.message}</div>`}
    <div class="row"><button class="button primary" disabled=${state.isBusy}>${submit}</button></div>
  </form>`;
}

/** The texts of some fields while they are edited: `[values, bind]`, where `bind(name)` are properties of a field. */
export function useFields(initial) {
  const key = JSON.stringify(initial);
  const [state, setState] = useState({ key, values: initial });
  const values = state.key === key ? state.values : initial;
  const set = (name, value) => setState({ key, values: { ...values, [name]: value } });
  const bind = (name) => ({ name, value: values[name] ?? "", onInput: (event) => set(name, event.target.value) });
  return [values, bind];
}
