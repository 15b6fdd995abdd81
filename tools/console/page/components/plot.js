// A plot over time by uPlot: `<Plot title unit=${formatByteRate} times=${seconds} series=${[{label, values}]} />`.
import uPlot from "uplot";
import { formatByteRate, formatBytes } from "./format.js";
import { html, useEffect, useRef } from "./html.js";
import { useTheme } from "./theme.js";

const HEIGHT_PX = 140;
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

function colour(element, name) {
  element.style.color = `var(${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

function options(element, width, labels, format) {
  const soft = colour(element, "--text-soft");
  const line = colour(element, "--line");
  const isBytes = format === formatBytes || format === formatByteRate;
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width,
    height: HEIGHT_PX,
    padding: [8, 26, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, size: 26, space: 80, values: (made, times) => (made.data[0].length ? times.map(clock) : times.map(() => "")) },
      { ...axis, size: 70, space: 32, values: (_, values) => values.map(format), ...(isBytes ? { incrs: BINARY_STEPS } : {}) },
    ],
    series: [
      {},
      ...labels.map((label, index) => ({
        label,
        stroke: colour(element, `--plot-${(index % 6) + 1}`),
        width: 1.6,
        points: { show: false },
      })),
    ],
  };
}

function clock(seconds) {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

/**
 * `times`: seconds since 1970; `series`: `[{label, values}]`, each as long as `times`, null where nothing is known.
 * `format`: the text of a value. The newest values stand in the legend; those under the pointer while it is there.
 */
export function Plot({ title, times, series, format, note }) {
  const area = useRef(null);
  const legend = useRef(null);
  const plot = useRef(null);
  const theme = useTheme();
  const labels = series.map(({ label }) => label);
  const data = [times, ...series.map(({ values }) => values)];
  const latest = useRef(data);
  latest.current = data;
  const show = (index) => {
    latest.current.slice(1).forEach((values, each) => {
      const node = legend.current?.children[each]?.querySelector(".value");
      if (node) node.textContent = format(values[index ?? values.length - 1] ?? null);
    });
  };
  useEffect(() => {
    const made = new uPlot(options(area.current, area.current.clientWidth || 300, labels, format), latest.current, area.current);
    made.root.setAttribute("aria-hidden", "true");
    plot.current = made;
    made.over.addEventListener("mousemove", () => show(made.cursor.idx));
    made.over.addEventListener("mouseleave", () => show(null));
    const observer = new ResizeObserver(([entry]) => made.setSize({ width: entry.contentRect.width, height: HEIGHT_PX }));
    observer.observe(area.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, labels.join("\n")]);
  useEffect(() => {
    plot.current?.setData(data);
    show(plot.current?.cursor.idx ?? null);
  });
  return html`<section class="card">
    <div class="plot-head">
      <h2>${title}</h2>
      <ul class="plot-legend" ref=${legend}>
        ${labels.map(
          (label, index) =>
            html`<li key=${label}>
              <span class="key" style=${{ background: `var(--plot-${(index % 6) + 1})` }}></span>
              <span class="soft">${label}</span> <span class="value"></span>
            </li>`,
        )}
      </ul>
    </div>
    <div class="plot-area" ref=${area}></div>
    ${note && html`<p class="soft">${note}</p>`}
  </section>`;
}
