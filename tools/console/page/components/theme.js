// Light and dark: as the system has it, until the visitor chooses.
import { html, useEffect, useState } from "./html.js";

const KEY = "headgate.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function currentTheme() {
  return document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("theme"));
}

apply(stored());
system.addEventListener("change", () => dispatchEvent(new Event("theme")));

/** Calls back after each change of the theme. */
export function useTheme() {
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => {
    const changed = () => setTheme(currentTheme());
    addEventListener("theme", changed);
    return () => removeEventListener("theme", changed);
  }, []);
  return theme;
}

export function ThemeSwitch() {
  const theme = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  const choose = () => {
    apply(other);
    try {
      localStorage.setItem(KEY, other);
    } catch {
      // A browser without storage forgets the choice
    }
  };
  return html`<button class="button quiet small" title="Change to ${other} colours" onClick=${choose}>
    <span aria-hidden="true">${theme === "dark" ? "☾" : "☀"}</span>
    <span class="hidden-label">Change to ${other} colours</span>
  </button>`;
}
