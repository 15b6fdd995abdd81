// Runs in the browser: the next Tab goes to the first control of the page, or of an open dialog (accessibility.py)
() => {
  window.headgateStops = undefined;
  const start = document.createElement("span");
  start.tabIndex = -1;
  (document.querySelector("dialog[open]") ?? document.body).prepend(start);
  start.focus();
  start.remove();
}
