// kafka-node, a row of the matrix: see lines.js.
"use strict";

require("./snappy");
const { promisify } = require("node:util");
const { Consumer, ConsumerGroup, KafkaClient, KeyedMessage, Producer } = require("kafka-node");
const { Collected, HEARTBEAT_MS, main, recordsByPartition, stay } = require("./lines");

const CODECS = { none: 0, gzip: 1, snappy: 2 };
const AS_BYTES = { encoding: "buffer", keyEncoding: "buffer" };

function ready(emitter) {
  return new Promise((resolve, reject) => emitter.once("ready", resolve).once("error", reject));
}

async function produce({ bootstrap, topic, codec }) {
  const client = new KafkaClient({ kafkaHost: bootstrap });
  const producer = new Producer(client, { requireAcks: -1 });
  await ready(producer);
  const parts = await recordsByPartition();
  const payloads = [...parts].map(([partition, records]) => {
    const messages = records.map(toSend);
    return { topic, partition, attributes: CODECS[codec], messages };
  });
  await promisify(producer.send.bind(producer))(payloads);
  await promisify(producer.close.bind(producer))();
}

function toSend({ key, value, timestamp_ms: timestamp }) {
  // By itself it takes the time of now
  return Object.assign(new KeyedMessage(key, value), { timestamp });
}

async function read({ bootstrap, topic, count }) {
  const client = new KafkaClient({ kafkaHost: bootstrap });
  await ready(client);
  const [, { metadata }] = await promisify(client.loadMetadataForTopics.bind(client))([topic]);
  const partitions = Object.keys(metadata[topic]).map(Number);
  const payloads = partitions.map((partition) => ({ topic, partition, offset: 0 }));
  const consumer = new Consumer(client, payloads, { ...AS_BYTES, autoCommit: false, fromOffset: true });
  const collected = await collect(consumer, count);
  await promisify(consumer.close.bind(consumer))(false);
  collected.print();
}

async function group({ bootstrap, topic, group: groupId, count }) {
  const settings = { kafkaHost: bootstrap, groupId, fromOffset: "earliest", autoCommit: false, ...AS_BYTES };
  const consumer = new ConsumerGroup({ ...settings, heartbeatInterval: HEARTBEAT_MS }, topic);
  const collected = await collect(consumer, count);
  await promisify(consumer.commit.bind(consumer))(true);
  await stay();
  await promisify(consumer.close.bind(consumer))(false);
  collected.print();
}

async function collect(consumer, count) {
  const collected = new Collected(count);
  consumer.on("message", ({ partition, offset, timestamp, key, value }) => {
    collected.add({ partition, offset, timestamp_ms: timestamp?.getTime(), key, value });
  });
  consumer.once("error", collected.fail);
  await collected.all;
  return collected;
}

main({ produce, read, group });
