// kafkajs, driven by subcommands with flags; records are lines of JSON: see lines.js.
//
//   produce --bootstrap a --topic t --codec zstd     sends the records of standard input, until its end
//   offsets --bootstrap a --topic t --at s           prints the offset of each partition
//   member  --bootstrap a --topic t --group g        is in a group until the end of standard input: see groups/lines.py
//   read    --bootstrap a --topic t --count 100      prints so many records, in a group that nothing is committed for
//   group   --bootstrap a --topic t --group g --count 100   the same in a group, and commits
//   transact --bootstrap a --topic t --transactional-id x --group g   sends transactions: see matrix/client.py
//
// s is "earliest", "latest" or "time:1700000000000"; a time after the last record is the end. It reads in groups only,
// and shares by round robin. Every subcommand takes --package kafkajs-1.12: that version.
"use strict";

const { readFileSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { Collected, HEARTBEAT_MS, main, records, say, stay, transactions } = require("./lines");

const CHUNK = 500;
const CODECS = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };

// gzip is its own; the others are plugged in, as its documentation has it
function plugIn({ CompressionCodecs, CompressionTypes }) {
  const lz4 = require("lz4-napi");
  const { ZstdCodec } = require("zstd-codec");
  let loaded;
  // Not its Simple, which reads only what says how long it is: Java and librdkafka do not say it
  const load = (resolve) => ZstdCodec.run(({ Streaming }) => resolve(new Streaming()));
  const zstd = () => (loaded ??= new Promise(load));
  CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from((await zstd()).compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from((await zstd()).decompress(buffer)),
  });
}

// Paths of PEM files, the client's own optional: see security/client_security.py
function tls(text) {
  const { ca, certificate, key } = JSON.parse(text);
  const own = certificate ? { cert: readFileSync(certificate), key: readFileSync(key) } : {};
  return { ca: [readFileSync(ca)], ...own };
}

// The fields of a login are there too, if there is one
function sasl(text) {
  const { mechanism, user, password, token } = JSON.parse(text);
  if (mechanism === undefined) {
    return undefined;
  }
  const name = mechanism.toLowerCase();
  return name === "oauthbearer"
    ? { mechanism: name, oauthBearerProvider: async () => ({ value: token }) }
    : { mechanism: name, username: user, password };
}

function client({ bootstrap, package: name }) {
  const library = require(name);
  plugIn(library);
  // Its retries, five by default, would end before a broker is back
  const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 100 };
  // Ten seconds before the end of a session, by default: sessions of tests are shorter
  const reauthenticationThreshold = 1000;
  const usual = { clientId: "compat", brokers: [bootstrap], logLevel: library.logLevel.NOTHING };
  const settings = { ...usual, retry, reauthenticationThreshold };
  const text = process.env.COMPAT_TLS;
  if (text && sasl(text)) {
    retry.retries = 2; // the tests want to see why it is refused
  }
  return new library.Kafka(text ? { ...settings, ssl: tls(text), sasl: sasl(text) } : settings);
}

async function produce(target) {
  const { topic, codec } = target;
  if (!(codec in CODECS)) {
    throw new Error(`unknown codec ${codec}: ${Object.keys(CODECS).join(", ")}`);
  }
  const compression = require(target.package).CompressionTypes[CODECS[codec]];
  const producer = client(target).producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    let messages = [];
    const send = () => producer.send({ topic, compression, messages });
    for await (const record of records()) {
      messages.push(toSend(record));
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

async function transact(target) {
  const { topic, group, "transactional-id": transactionalId } = target;
  const producer = client(target).producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    for await (const { records: found, offset, end } of transactions()) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: found.map(toSend) });
      const topics = [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }];
      await transaction.sendOffsets({ consumerGroupId: group, topics });
      await transaction[end]();
    }
  } finally {
    await producer.disconnect();
  }
}

function toSend(record) {
  // An object: headers of one name are one entry with a list
  const headers = {};
  for (const { name, value } of record.headers) {
    headers[name] = name in headers ? [headers[name], value].flat() : value;
  }
  const { partition, timestamp_ms, key, value } = record;
  return { partition, timestamp: String(timestamp_ms), key, value, headers };
}

async function offsets(target) {
  const { topic, at } = target;
  const admin = client(target).admin();
  await admin.connect();
  try {
    for (const { partition, offset } of await ask(admin, topic, at)) {
      say({ partition, offset: Number(offset) });
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

async function member(target) {
  const { topic, group, "session-ms": session } = target;
  const settings = { groupId: group, sessionTimeout: Number(session), heartbeatInterval: 500, maxWaitTimeInMs: 100 };
  const consumer = client(target).consumer(settings);
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
}

async function read(target) {
  const collected = await readInGroup({ ...target, group: `read-${process.pid}` }, async () => {});
  collected.print();
}

async function group(target) {
  const toCommit = ([partition, offset]) => ({ topic: target.topic, partition, offset: String(offset) });
  const collected = await readInGroup(target, async (consumer, next) => {
    await consumer.commitOffsets([...next].map(toCommit));
    await stay();
  });
  collected.print();
}

async function readInGroup(target, commit) {
  const settings = { groupId: target.group, heartbeatInterval: HEARTBEAT_MS, maxWaitTimeInMs: HEARTBEAT_MS };
  // What it reads by default is committed
  settings.readUncommitted = target.isolation === "read_uncommitted";
  const consumer = client(target).consumer(settings);
  const collected = new Collected(target.count);
  consumer.on(consumer.events.CRASH, ({ payload }) => collected.fail(payload.error));
  await consumer.connect();
  await consumer.subscribe({ topic: target.topic, fromBeginning: true });
  const eachMessage = async ({ partition, message }) => {
    const { key, value, headers: named = {} } = message;
    const headers = Object.entries(named).flatMap(([name, found]) => [found].flat().map((one) => [name, one]));
    const timestamp_ms = Number(message.timestamp);
    collected.add({ partition, offset: Number(message.offset), timestamp_ms, key, value, headers });
  };
  await consumer.run({ autoCommit: false, eachMessage });
  await collected.all;
  await commit(consumer, collected.next());
  await consumer.disconnect();
  return collected;
}

main(
  { produce, offsets, member, read, group, transact },
  {
    at: { type: "string", default: "latest" },
    package: { type: "string", default: "kafkajs" },
    isolation: { type: "string" },
    "transactional-id": { type: "string" },
    assignor: { type: "string", default: "roundrobin" },
    "session-ms": { type: "string", default: "30000" },
  },
);
