// kafkajs, mended: committed records only.
//
// Kafka names the aborted transactions of an answer in the order in which they *ended*. kafkajs 2.2.4 takes them for
// ordered by their beginning, and takes up one for each record at most: where two aborted transactions overlap, records
// of one are given out as committed. tests/interop/test_committed.py shows it. Import kafkajs from here.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const ABORT = 0; // the type in the key of a control record: two bytes of version, two of type

/** Return the records that no aborted transaction wrote. */
export function withoutAborted({ messages, abortedTransactions }) {
  if (!abortedTransactions?.length) return messages;
  const begins = [...abortedTransactions].sort((a, b) => Number(BigInt(a.firstOffset) - BigInt(b.firstOffset)));
  const aborted = new Set(); // producers, as strings: ids are numbers of 64 bits
  return messages.filter(({ offset, key, isControlRecord, batchContext: { producerId, inTransaction } }) => {
    while (begins.length && BigInt(begins[0].firstOffset) <= BigInt(offset)) aborted.add(String(begins.shift().producerId));
    if (isControlRecord && Buffer.from(key).readInt16BE(2) === ABORT) aborted.delete(String(producerId));
    return isControlRecord || !(inTransaction && aborted.has(String(producerId)));
  });
}

export const shipped = require("kafkajs/src/consumer/filterAbortedMessages.js");
require.cache[require.resolve("kafkajs/src/consumer/filterAbortedMessages.js")].exports = withoutAborted;
export default require("kafkajs"); // after the change, which its modules load
