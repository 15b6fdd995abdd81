// Runs in the browser: the control with the focus, with its number in the order of Tab (accessibility.py)
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  window.headgateStops ??= new Map();
  if (!window.headgateStops.has(element)) window.headgateStops.set(element, window.headgateStops.size);
  return {
    number: window.headgateStops.get(element),
    name: (element.getAttribute("aria-label") || element.textContent || element.id || element.name || "").trim().slice(0, 60),
    tag: element.tagName.toLowerCase(),
    isSeen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    hasOutline: hasOutline || style.boxShadow !== "none",
  };
}
