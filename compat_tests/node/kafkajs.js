// kafkajs, driven by subcommands with flags; records are lines of JSON, as for the Go clients (go/lines/lines.go).
//
//   produce --bootstrap a --topic t --codec zstd     sends the records of standard input, until its end
//   offsets --bootstrap a --topic t --at s           prints the offset of each partition
//   member  --bootstrap a --topic t --group g        is in a group until the end of standard input: see groups/lines.py
//
// s is "earliest", "latest" or "time:1700000000000"; a time after the last record is the end. It reads in groups only,
// and shares by round robin.
// Exit status 0: all was done; otherwise standard error says why not.
"use strict";

const { createInterface } = require("node:readline");
const { parseArgs } = require("node:util");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");

const CHUNK = 500;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

// gzip is its own; the others are plugged in, as its documentation has it
function plugIn() {
  const lz4 = require("lz4-napi");
  const { ZstdCodec } = require("zstd-codec");
  const zstd = new Promise((resolve) => ZstdCodec.run((library) => resolve(new library.Simple())));
  CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
  });
}

function client(bootstrap) {
  // Its retries, five by default, would end before a broker is back
  const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 100 };
  return new Kafka({ clientId: "compat", brokers: [bootstrap], logLevel: logLevel.NOTHING, retry });
}

async function produce({ bootstrap, topic, codec }) {
  if (!(codec in CODECS)) {
    throw new Error(`unknown codec ${codec}: ${Object.keys(CODECS).join(", ")}`);
  }
  plugIn();
  const producer = client(bootstrap).producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    let messages = [];
    const send = () => producer.send({ topic, compression: CODECS[codec], messages });
    for await (const line of createInterface({ input: process.stdin })) {
      messages.push(toSend(JSON.parse(line)));
      if (messages.length === CHUNK) {
        await send();
        messages = [];
      }
    }
    if (messages.length > 0) {
      await send();
    }
  } finally {
    await producer.disconnect();
  }
}

function toSend(record) {
  // An object: headers of one name are one entry with a list
  const headers = {};
  for (const { name, value } of record.headers) {
    headers[name] = name in headers ? [headers[name], bytes(value)].flat() : bytes(value);
  }
  const timestamp = String(record.timestamp_ms);
  return { partition: record.partition, timestamp, key: bytes(record.key), value: bytes(record.value), headers };
}

function bytes(text) {
  return text === null ? null : Buffer.from(text, "base64");
}

async function offsets({ bootstrap, topic, at }) {
  const admin = client(bootstrap).admin();
  await admin.connect();
  try {
    for (const { partition, offset } of await ask(admin, topic, at)) {
      console.log(JSON.stringify({ partition, offset: Number(offset) }));
    }
  } finally {
    await admin.disconnect();
  }
}

async function ask(admin, topic, at) {
  const [kind, timestamp] = at.split(":");
  if (kind === "time") {
    return admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp));
  }
  if (kind !== "earliest" && kind !== "latest") {
    throw new Error(`unknown offsets ${at}: earliest, latest or time:1700000000000`);
  }
  const found = await admin.fetchTopicOffsets(topic);
  return found.map(({ partition, low, high }) => ({ partition, offset: kind === "earliest" ? low : high }));
}

function say(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

async function member({ bootstrap, topic, group, "session-ms": session }) {
  const settings = { groupId: group, sessionTimeout: Number(session), heartbeatInterval: 500, maxWaitTimeInMs: 100 };
  const consumer = client(bootstrap).consumer(settings);
  let positions = {};
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const owned = [...(payload.memberAssignment[topic] ?? [])].sort((one, other) => one - other);
    positions = Object.fromEntries(Object.entries(positions).filter(([partition]) => owned.includes(Number(partition))));
    say({ owned });
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const eachMessage = async ({ partition, message }) => {
    positions[partition] = Number(message.offset) + 1;
    say({ partition, offset: Number(message.offset) });
  };
  await consumer.run({ autoCommit: false, eachMessage });
  for await (const _ of createInterface({ input: process.stdin })) {
    const offsets = Object.entries(positions).map(([partition, offset]) => ({
      topic,
      partition: Number(partition),
      offset: String(offset),
    }));
    try {
      await consumer.commitOffsets(offsets);
      say({ committed: "" });
    } catch (error) {
      say({ committed: String(error) });
    }
  }
  await consumer.disconnect();
  // After a restart of the broker, ours or Kafka's, one of its connections may stay open, and node with it
  process.exit(0);
}

const SUBCOMMANDS = { produce, offsets, member };

async function main() {
  const options = {
    bootstrap: { type: "string" },
    topic: { type: "string" },
    codec: { type: "string", default: "none" },
    at: { type: "string", default: "latest" },
    group: { type: "string" },
    assignor: { type: "string", default: "roundrobin" },
    "session-ms": { type: "string", default: "30000" },
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const subcommand = SUBCOMMANDS[positionals[0]];
  if (subcommand === undefined) {
    throw new Error(`unknown subcommand ${positionals[0]}: ${Object.keys(SUBCOMMANDS).join(", ")}`);
  }
  await subcommand(values);
}

main().catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
