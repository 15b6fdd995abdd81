// Texts of records: characters that cannot be seen, or that turn others round, are shown by their names.
import { html } from "./html.js";

// C0 and C1 controls but for tab and line feed; zero width; direction marks, embeddings, overrides, isolates; BOM
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const MOST_MARKS = 2000;
const NAMES = ["NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR"];

function nameOf(character) {
  const code = character.codePointAt(0);
  if (code === 0x1b) return "ESC";
  return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The text with names in place of hidden characters, for titles and the clipboard's preview. */
export function visibleText(text) {
  return text.replace(HIDDEN, (character) => `⟨${nameOf(character)}⟩`);
}

/** Text nodes, with marks in place of hidden characters. */
export function Visible({ text }) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (parts.length >= MOST_MARKS) return html`<bdi>${visibleText(text)}</bdi>`;
    if (match.index > last) parts.push(text.slice(last, match.index));
    parts.push(html`<span class="hidden-character">${nameOf(match[0])}</span>`);
    last = match.index + match[0].length;
  }
  parts.push(text.slice(last));
  return html`<bdi>${parts}</bdi>`;
}
