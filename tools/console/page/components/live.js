// The stream of live figures, as arrays for plots. One stream a page; it ends while the page is hidden.
import { useRef, useState } from "./html.js";
import { useStream } from "./resource.js";

const MOST_POINTS = 600;
const FIXED = 3; // number, time, latency

/** The points of one broker, in columns. */
function emptyBroker(address) {
  return { address, name: address, numbers: [], timesMs: [], latency: [], values: [], apis: [], conditions: null, error: null };
}

function append(broker, columns, points) {
  for (const point of points) {
    broker.numbers.push(point[0]);
    broker.timesMs.push(point[1]);
    broker.latency.push(point[2]);
    columns.forEach((name, index) => (broker.values[name] ??= []).push(point[index + FIXED]));
  }
  const excess = broker.numbers.length - MOST_POINTS;
  if (excess <= 0) return;
  for (const column of [broker.numbers, broker.timesMs, broker.latency, ...Object.values(broker.values)]) column.splice(0, excess);
}

function takeBrokers(store, brokers) {
  for (const [address, news] of Object.entries(brokers)) {
    const broker = (store.brokers[address] ??= emptyBroker(address));
    // After an interruption the stream begins again with the whole history
    const last = broker.numbers.at(-1) ?? 0;
    if (news.points.length && news.points[0][0] <= last) Object.assign(broker, emptyBroker(address));
    append(broker, store.columns, news.points);
    broker.name = news.name;
    broker.apis = news.apis;
    broker.error = news.error;
    if (news.conditions !== undefined) broker.conditions = news.conditions;
  }
}

function takeEndOffsets(store, event) {
  store.wire.times.push(event.at_ms / 1000);
  store.wire.records.push(event.in_records_per_s);
  if (store.wire.times.length > MOST_POINTS) [store.wire.times, store.wire.records].forEach((column) => column.shift());
  store.wire.topics = event.topics;
  store.wire.partitions = event.partitions;
}

/** `{source, brokers, wire, missing, error, isOpen}`; `source` is null before the first event. */
export function useLive() {
  const store = useRef({ source: null, columns: [], brokers: {}, wire: { times: [], records: [], topics: [] }, missing: {} });
  const [, setTurn] = useState(0);
  const onEvent = (event) => {
    const kept = store.current;
    if (event.source) {
      kept.source = event.source;
      kept.columns = event.columns ?? [];
      kept.missing = event.missing;
    }
    if (event.brokers && !event.source) takeBrokers(kept, event.brokers);
    if (event.at_ms) takeEndOffsets(kept, event);
    setTurn((turn) => turn + 1);
  };
  const { error, isOpen } = useStream("live", {}, onEvent, { isLasting: true });
  return { ...store.current, error, isOpen };
}

/** Times in seconds and one series: the sum over brokers of a figure. Null where no broker has it. */
export function summed(brokers, figure) {
  const first = brokers.reduce((longest, broker) => (broker.numbers.length > longest.numbers.length ? broker : longest), brokers[0]);
  const byNumber = brokers.map((broker) => new Map(broker.numbers.map((number, index) => [number, broker.values[figure]?.[index]])));
  return first.numbers.map((number) => {
    const known = byNumber.map((values) => values.get(number)).filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });
}

/** The last known value of a figure, summed over the brokers that answer; null if none has it. */
export function latest(brokers, figure) {
  const answering = brokers.filter((broker) => !broker.error);
  const known = answering.map((broker) => broker.values[figure]?.findLast((value) => value !== null)).filter((value) => value !== undefined);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

export function times(brokers) {
  const first = brokers.reduce((longest, broker) => (broker.numbers.length > longest.numbers.length ? broker : longest), brokers[0]);
  return first.timesMs.map((ms) => ms / 1000);
}

/** Values of one broker at the numbers of the longest history. */
export function aligned(brokers, broker, figure) {
  const first = brokers.reduce((longest, each) => (each.numbers.length > longest.numbers.length ? each : longest), brokers[0]);
  const values = new Map(broker.numbers.map((number, index) => [number, broker.values[figure]?.[index] ?? null]));
  return first.numbers.map((number) => values.get(number) ?? null);
}

/** The APIs of all brokers, the busiest first: the sum of the rates, the mean over all, the 99th percentile of the slowest broker. */
export function mergedApis(brokers) {
  const found = new Map();
  for (const broker of brokers) {
    for (const { api, requests_per_s: rate, mean_ms: mean, p99_ms: p99 } of broker.apis) {
      const sum = found.get(api) ?? { api, requests_per_s: 0, measured_per_s: 0, mean_ms: null, p99_ms: null, slowest: null };
      found.set(api, sum);
      sum.requests_per_s += rate;
      if (mean !== null) {
        sum.mean_ms = ((sum.mean_ms ?? 0) * sum.measured_per_s + mean * rate) / (sum.measured_per_s + rate);
        sum.measured_per_s += rate;
      }
      if (p99 !== null && (sum.p99_ms === null || p99 > sum.p99_ms)) Object.assign(sum, { p99_ms: p99, slowest: broker.name });
    }
  }
  return [...found.values()].sort((a, b) => b.requests_per_s - a.requests_per_s);
}
