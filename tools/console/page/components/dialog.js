// A dialog over the page. Esc and a click beside it close it; the focus returns to what opened it.
import { html, useEffect, useRef } from "./html.js";

/** `actions`: buttons at its foot. Render it while it is open. */
export function Dialog({ title, onClose, isWide = false, actions, children }) {
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  const clicked = (event) => event.target === element.current && onClose();
  const cancelled = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog
    ref=${element}
    class="dialog ${isWide ? "wide" : ""}"
    aria-label=${title}
    onCancel=${cancelled}
    onClick=${clicked}
  >
    <div class="dialog-head">
      <h2>${title}</h2>
      <button class="button quiet small" aria-label="Close" onClick=${onClose}>✕</button>
    </div>
    <div class="dialog-body">${children}</div>
    ${actions && html`<div class="dialog-foot">${actions}</div>`}
  </dialog>`;
}
