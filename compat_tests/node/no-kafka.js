// no-kafka, a row of the matrix: see lines.js.
"use strict";

require("./snappy");
const Kafka = require("no-kafka");
const { Collected, HEARTBEAT_MS, main, recordsByPartition, stay } = require("./lines");

const CODECS = { none: Kafka.COMPRESSION_NONE, gzip: Kafka.COMPRESSION_GZIP, snappy: Kafka.COMPRESSION_SNAPPY };

function settings(bootstrap) {
  // Sets that are compressed side by side share a buffer, and overwrite each other
  return { connectionString: bootstrap, logger: { logLevel: 0 }, idleTimeout: 20, asyncCompression: false };
}

async function produce({ bootstrap, topic, codec }) {
  const producer = new Kafka.Producer({ ...settings(bootstrap), requiredAcks: -1, codec: CODECS[codec] });
  await producer.init();
  const messages = [...(await recordsByPartition())].flatMap(([partition, records]) =>
    records.map(({ key, value }) => ({ topic, partition, message: { key, value } })),
  );
  for (const { error } of await producer.send(messages)) {
    if (error) {
      throw error;
    }
  }
  await producer.end();
}

async function read({ bootstrap, topic, count }) {
  const consumer = new Kafka.SimpleConsumer(settings(bootstrap));
  const collected = new Collected(count);
  await consumer.init();
  await consumer.subscribe(topic, { time: Kafka.EARLIEST_OFFSET }, (messages, _, partition) => {
    add(collected, messages, partition);
  });
  await collected.all;
  await consumer.end();
  collected.print();
}

async function group({ bootstrap, topic, group: groupId, count }) {
  const more = { groupId, startingOffset: Kafka.EARLIEST_OFFSET, heartbeatTimeout: HEARTBEAT_MS };
  const consumer = new Kafka.GroupConsumer({ ...settings(bootstrap), ...more });
  const collected = new Collected(count);
  const handler = async (messages, _, partition) => add(collected, messages, partition);
  await consumer.init({ subscriptions: [topic], handler });
  await collected.all;
  // It is told the last offset, and commits the next
  const last = [...collected.next()].map(([partition, offset]) => ({ topic, partition, offset: offset - 1 }));
  for (const { error } of await consumer.commitOffset(last)) {
    if (error) {
      throw error;
    }
  }
  await stay();
  await consumer.end();
  collected.print();
}

function add(collected, messages, partition) {
  for (const { offset, message } of messages) {
    collected.add({ partition, offset, key: message.key, value: message.value });
  }
}

main({ produce, read, group });
