// Tabs: arrows change between them, and the chosen one stands in the address.
import { html, useEffect, useRef } from "./html.js";
import { showInRow } from "./scrolling.js";
import { setQuery } from "./route.js";

/** `onChoose` of tabs with different lists: the filter of the list before is left out. */
export function chooseTab(name) {
  setQuery({ tab: name, filter: null });
}

/** `tabs`: `[{name, title}]`; `chosen`: a name. The parameter `tab` of the address changes, or `onChoose(name)` is called. */
export function Tabs({ tabs, chosen, onChoose, label }) {
  const list = useRef(null);
  useEffect(() => showInRow(list.current, list.current.querySelector("[aria-selected=true]")), [chosen]);
  const choose = (name) => (onChoose ? onChoose(name) : setQuery({ tab: name === tabs[0].name ? null : name }));
  const pressed = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = (tabs.findIndex((tab) => tab.name === chosen) + step + tabs.length) % tabs.length;
    choose(tabs[index].name);
    list.current.children[index].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${pressed}>
    ${tabs.map(
      ({ name, title }) =>
        html`<button
          key=${name}
          role="tab"
          aria-selected=${String(name === chosen)}
          tabindex=${name === chosen ? 0 : -1}
          onClick=${() => choose(name)}
        >
          ${title}
        </button>`,
    )}
  </div>`;
}
