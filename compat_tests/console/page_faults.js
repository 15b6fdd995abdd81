// Runs in the browser: sentences about faults of a page (accessibility.py)
() => {
  const faults = [];
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pixel = canvas.getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const rgba = (text) => {
    if (!colours.has(text)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = text;
      pixel.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((c) => {
      const share = c / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const describe = (element) => {
    const name = element.id ? `#${element.id}` : `.${String(element.className?.baseVal ?? element.className)}`;
    return `${element.tagName.toLowerCase()}${name} ${JSON.stringify((element.textContent ?? "").trim().slice(0, 40))}`;
  };
  const background = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || !isShown(element)) continue;
    seen.add(element);
    if (element.closest("script, style, noscript, [disabled], .hidden-label, .skip")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const below = background(element);
    const ratio = contrast(over(rgba(style.color), below), below);
    if (ratio < (isLarge ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(2)}: ${describe(element)}`);
  }
  for (const input of document.querySelectorAll("input, select, textarea")) {
    if (!isShown(input) || input.disabled) continue;
    const below = background(input);
    const ratio = contrast(over(rgba(getComputedStyle(input, "::placeholder").color), below), below);
    if (input.placeholder && ratio < 4.5) faults.push(`contrast of a placeholder ${ratio.toFixed(2)}: ${describe(input)}`);
  }

  const textOf = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
  const nameOf = (control) =>
    (control.getAttribute("aria-labelledby") ? textOf(control.getAttribute("aria-labelledby")) : "") ||
    control.getAttribute("aria-label") ||
    [...(control.labels ?? [])].map((label) => label.textContent).join(" ") ||
    (control.matches("input, select, textarea") ? "" : control.textContent) ||
    control.getAttribute("title") || control.querySelector?.("img[alt]")?.alt || "";
  const controls = "a[href], button, input, select, textarea, summary, [tabindex], [role=button], [role=tab], [role=grid], dialog";
  for (const control of document.querySelectorAll(controls)) {
    if (!isShown(control) || control.id === "main") continue;
    if (!nameOf(control).trim()) faults.push(`no name: ${describe(control)}`);
    if (control.tabIndex > 0) faults.push(`tabindex above 0: ${describe(control)}`);
  }
  for (const image of document.querySelectorAll("img")) {
    if (!image.hasAttribute("alt")) faults.push(`no alt: ${describe(image)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) {
    if (ids.filter((each) => each === id).length > 1) faults.push(`the id ${id} is there twice`);
  }
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) faults.push(`${attribute} names ${id}, which is not there`);
      }
    }
  }
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")].filter(isShown);
  if (headings.filter((heading) => heading.tagName === "H1").length !== 1) faults.push("not one h1");
  headings.reduce((before, heading) => {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) faults.push(`a level of headings is left out: ${describe(heading)}`);
    return level;
  }, 0);
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (!document.documentElement.lang) faults.push("no language");
  if (!document.title) faults.push("no title");
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) {
    const far = [...document.querySelectorAll("body *")].filter((e) => isShown(e) && e.getBoundingClientRect().right > innerWidth + 1);
    faults.push(`the page scrolls sideways by ${wide} px: ${far.slice(0, 3).map(describe).join("; ")}`);
  }
  return faults;
}
