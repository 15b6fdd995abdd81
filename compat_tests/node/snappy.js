// What kafka-node and no-kafka take for snappy is the native module of that name, as it was at version 6. This gives
// its functions to the one in JavaScript, which package.json installs in its place.
"use strict";

const snappy = require("snappy");

const { compress, uncompress } = snappy;

function later(work) {
  return (data, callback) => {
    let result;
    try {
      result = work(data);
    } catch (error) {
      return setImmediate(callback, error);
    }
    return setImmediate(callback, null, result);
  };
}

Object.assign(snappy, {
  compress: later(compress),
  compressSync: (data) => compress(data),
  uncompress: later(uncompress),
  uncompressSync: (data) => uncompress(data),
});
