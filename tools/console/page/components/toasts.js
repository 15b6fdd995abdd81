// Short messages at the corner: `toast("Copied.")`, `toast("It failed.", "bad")`.
import { html, useEffect, useState } from "./html.js";

const SHOWN_MS = 6000;
let current = [];
let number = 0;
const listeners = new Set();

function set(next) {
  current = next;
  listeners.forEach((listener) => listener(next));
}

export function toast(text, kind = "") {
  number += 1;
  const key = number;
  set([...current.slice(-4), { key, text, kind }]);
  setTimeout(() => dismiss(key), kind === "bad" ? SHOWN_MS * 2 : SHOWN_MS);
}

function dismiss(key) {
  set(current.filter((each) => each.key !== key));
}

export function Toasts() {
  const [shown, setShown] = useState(current);
  useEffect(() => {
    listeners.add(setShown);
    return () => listeners.delete(setShown);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map(
      ({ key, text, kind }) =>
        html`<div class="toast ${kind}" key=${key}>
          <span>${text}</span>
          <button class="button quiet small" aria-label="Dismiss" onClick=${() => dismiss(key)}>✕</button>
        </div>`,
    )}
  </div>`;
}
