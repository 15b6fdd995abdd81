// Numbers, bytes, times as text. Each function takes null for what is not known, and returns "–" then.
export const UNKNOWN = "–";

const grouped = new Intl.NumberFormat("en", { useGrouping: "always", maximumFractionDigits: 0 });
const fraction = new Intl.NumberFormat("en", { useGrouping: "always", maximumFractionDigits: 1 });
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNT_UNITS = ["", "k", "M", "G", "T"];

export function isKnown(value) {
  return value !== null && value !== undefined && !Number.isNaN(value);
}

/** 1234567 -> "1\u202f234\u202f567". */
export function formatNumber(value) {
  return isKnown(value) ? grouped.format(value).replaceAll(",", "\u202f") : UNKNOWN;
}

function scaled(value, base, units) {
  let index = 0;
  let left = Math.abs(value);
  while (left >= base && index < units.length - 1) {
    left /= base;
    index += 1;
  }
  const digits = left >= 100 || index === 0 ? 0 : left >= 10 ? 1 : 2;
  const rounded = index === 0 && left < 10 && !Number.isInteger(left) ? fraction.format(left) : left.toFixed(digits);
  return [`${value < 0 ? "-" : ""}${rounded}`, units[index]];
}

/** 1536 -> "1.50 KiB". */
export function formatBytes(value) {
  return isKnown(value) ? scaled(value, 1024, BYTE_UNITS).join("\u00a0") : UNKNOWN;
}

/** 15360 -> "15.0 KiB/s". */
export function formatByteRate(value) {
  return isKnown(value) ? `${formatBytes(value)}/s` : UNKNOWN;
}

/** 12345 -> "12.3k": for figures and axes; tables show `formatNumber`. */
export function formatCount(value) {
  return isKnown(value) ? scaled(value, 1000, COUNT_UNITS).join("") : UNKNOWN;
}

/** 1234 -> "1.23k/s". */
export function formatRate(value) {
  return isKnown(value) ? `${formatCount(value)}/s` : UNKNOWN;
}

/** 0.031 -> "3.1 %". */
export function formatShare(value) {
  return isKnown(value) ? `${(value * 100).toFixed(value >= 0.1 ? 0 : 1)}\u00a0%` : UNKNOWN;
}

/** 90061000 -> "1 d 1 h"; 1500 -> "1.5 s"; 0.4 -> "0.4 ms". */
export function formatDuration(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1000) return `${ms >= 100 || Number.isInteger(ms) ? Math.round(ms) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)}\u00a0ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)}\u00a0s`;
  const parts = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first];
  const whole = Math.floor(seconds / size);
  const [next, nextUnit] = parts[first + 1] ?? [0, ""];
  const rest = next ? Math.floor((seconds - whole * size) / next) : 0;
  return `${whole}\u00a0${unit}${rest ? ` ${rest}\u00a0${nextUnit}` : ""}`;
}

function padded(value, size = 2) {
  return String(value).padStart(size, "0");
}

/** A time of day or a date in the visitor's zone: "2026-11-28 09:15:02.123". */
export function formatTime(ms, { hasMillis = false } = {}) {
  if (!isKnown(ms) || ms < 0) return UNKNOWN;
  const time = new Date(ms);
  if (Number.isNaN(time.getTime())) return UNKNOWN;
  const date = `${time.getFullYear()}-${padded(time.getMonth() + 1)}-${padded(time.getDate())}`;
  const clock = `${padded(time.getHours())}:${padded(time.getMinutes())}:${padded(time.getSeconds())}`;
  return `${date} ${clock}${hasMillis ? `.${padded(time.getMilliseconds(), 3)}` : ""}`;
}

/** A time in full, in UTC, for titles. */
export function exactTime(ms) {
  return isKnown(ms) && ms >= 0 && ms <= 8.64e15 ? `${new Date(ms).toISOString()} (${ms})` : "";
}

/** The text of an input of the type datetime-local, in the visitor's zone, from ms. */
export function inputTime(ms) {
  const time = new Date(Number(ms));
  if (!ms || Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 23);
}

/** The ms of such a text as text; null if it is no time. */
export function inputMs(text) {
  const ms = text ? new Date(text).getTime() : NaN;
  return Number.isNaN(ms) ? null : String(ms);
}

/** "3 min ago". */
export function formatAgo(ms, now = Date.now()) {
  if (!isKnown(ms) || ms < 0) return UNKNOWN;
  const age = now - ms;
  return age < 1000 ? "now" : `${formatDuration(age).split(" ")[0]} ago`;
}

/** The kinds of a table's columns: how a value is shown, and in full for the title. */
export const KINDS = {
  text: { show: (value) => (isKnown(value) ? String(value) : UNKNOWN), isNumber: false },
  number: { show: formatNumber, isNumber: true },
  bytes: { show: formatBytes, exact: (value) => `${formatNumber(value)} bytes`, isNumber: true },
  byteRate: { show: formatByteRate, exact: (value) => `${formatNumber(value)} bytes a second`, isNumber: true },
  rate: { show: formatRate, exact: (value) => `${value} a second`, isNumber: true },
  duration: { show: formatDuration, exact: (value) => `${formatNumber(value)} ms`, isNumber: true },
  time: { show: formatTime, exact: exactTime, isNumber: true },
  ago: { show: formatAgo, exact: exactTime, isNumber: true },
  share: { show: formatShare, isNumber: true },
};
