// The command line that the programs of this directory share: subcommands with flags, records as lines of JSON
// (matrix/client.py, go/lines/lines.go). Exit status 0: all was done; otherwise standard error says why not.
"use strict";

const { createInterface } = require("node:readline");
const { setTimeout } = require("node:timers/promises");
const { parseArgs } = require("node:util");

// How long a client may take for a subcommand that ends by itself
const LIMIT_MS = 60_000;

// The only member of a group says often that it is alive, and stays for some of its heartbeats
const HEARTBEAT_MS = 100;
const STAY_MS = 350;

function bytes(text) {
  return text === null ? null : Buffer.from(text, "base64");
}

function text(data) {
  return data === null || data === undefined ? null : Buffer.from(data).toString("base64");
}

// The records of standard input, their bytes as buffers
async function* records() {
  for await (const line of createInterface({ input: process.stdin })) {
    yield record(JSON.parse(line));
  }
}

function record(found) {
  const headers = found.headers.map(({ name, value }) => ({ name, value: bytes(value) }));
  return { ...found, key: bytes(found.key), value: bytes(found.value), headers };
}

// The same in transactions, with their ends, "commit" or "abort", and the count of all records up to there
async function* transactions() {
  let offset = 0;
  let held = [];
  for await (const line of createInterface({ input: process.stdin })) {
    const found = JSON.parse(line);
    if (typeof found === "string") {
      offset += held.length;
      yield { records: held, offset, end: found };
      held = [];
    } else {
      held.push(record(found));
    }
  }
}

// The same by partition
async function recordsByPartition() {
  const parts = new Map();
  for await (const record of records()) {
    if (!parts.has(record.partition)) {
      parts.set(record.partition, []);
    }
    parts.get(record.partition).push(record);
  }
  return parts;
}

function stay() {
  return setTimeout(STAY_MS);
}

function say(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

// Records until there are so many; `all` is kept when they are, or not in time. Headers are pairs of name and bytes.
class Collected {
  constructor(count) {
    this.count = count;
    this.records = [];
    this.all = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.fail = reject;
      const late = () => reject(new Error(`after ${LIMIT_MS} ms only ${this.records.length} records had come`));
      this.timer = globalThis.setTimeout(late, LIMIT_MS);
    });
  }

  add({ partition, offset, timestamp_ms = -1, key, value, headers = [] }) {
    if (this.records.length === this.count) {
      return;
    }
    const shown = headers.map(([name, data]) => ({ name, value: text(data) }));
    this.records.push({ partition, offset, timestamp_ms, key: text(key), value: text(value), headers: shown });
    if (this.records.length === this.count) {
      clearTimeout(this.timer);
      this.resolve();
    }
  }

  // The offset after the last record of each partition
  next() {
    return new Map(this.records.map(({ partition, offset }) => [partition, offset + 1]));
  }

  print() {
    this.records.forEach(say);
  }
}

// Runs the subcommand of the process's arguments, with its options
function main(subcommands, more = {}) {
  const options = {
    bootstrap: { type: "string" },
    topic: { type: "string" },
    codec: { type: "string", default: "none" },
    count: { type: "string", default: "0" },
    group: { type: "string" },
    ...more,
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const subcommand = subcommands[positionals[0]];
  const fail = (error) => {
    console.error(error instanceof Error ? error.stack : String(error));
    process.exit(1);
  };
  if (subcommand === undefined) {
    fail(`unknown subcommand ${positionals[0]}: ${Object.keys(subcommands).join(", ")}`);
  }
  // Timers of a client that was closed may keep the process for a while; what was printed has to be out by then
  const done = () => process.stdout.write("", () => process.exit(0));
  Promise.resolve(subcommand({ ...values, count: Number(values.count) })).then(done, fail);
}

module.exports = { Collected, HEARTBEAT_MS, main, records, recordsByPartition, say, stay, transactions };
