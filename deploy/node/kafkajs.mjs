// kafkajs, mended: committed records only, and every compression; and what a subscriber reads by it.
//
// Kafka names the aborted transactions of an answer in the order in which they *ended*. kafkajs 2.2.4 takes them for
// ordered by their beginning, and takes up one for each record at most: where two aborted transactions overlap, records
// of one are given out as committed. tests/interop/test_packages.py shows it. Import kafkajs from here.
import { createRequire } from "node:module";
import { decompress } from "fzstd";
import lz4 from "lz4js";
import { uncompress } from "snappyjs";
import { LogError, Subscriber, Unanswered, within } from "./subscribing.mjs";

const require = createRequire(import.meta.url);
const FILTER = require.resolve("kafkajs/src/consumer/filterAbortedMessages.js");
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

if (require.cache[require.resolve("kafkajs/src/consumer/batch.js")])
  throw new Error("kafkajs was loaded before it could be mended: import streamsvm-reader/kafkajs first, and kafkajs from it");
require(FILTER);
require.cache[FILTER].exports = withoutAborted;
const kafkajs = require("kafkajs"); // after the change, which its modules load
export default kafkajs;

const IN_BLOCKS = Buffer.from("\x82SNAPPY\0", "latin1"), HEADER = 16; // as Java's client writes Snappy
function snappy(buffer) {
  if (!buffer.subarray(0, IN_BLOCKS.length).equals(IN_BLOCKS)) return uncompress(buffer);
  const blocks = [];
  for (let at = HEADER, end; at < buffer.length; at = end) {
    end = at + 4 + buffer.readUInt32BE(at);
    blocks.push(uncompress(buffer.subarray(at + 4, end)));
  }
  return Buffer.concat(blocks);
}

const reads = (decompressed) => () => ({
  compress: async () => { throw new Error("streamsvm-reader/kafkajs only reads this compression: produce with gzip or none"); },
  decompress: async (buffer) => Buffer.from(decompressed(buffer)),
});
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = reads(decompress);
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.LZ4] = reads(lz4.decompress);
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = reads(snappy);

/** The options of each client, which kafkajs keeps to itself. */
const configs = new WeakMap(), { Kafka } = kafkajs;
kafkajs.Kafka = class extends Kafka {
  constructor(config) {
    super(config);
    configs.set(this, config);
  }
};

const Batch = require("kafkajs/src/consumer/batch.js");
const COMMITTED = 1, PATIENCE_MS = 4_000, EARLIEST = true;
/** Errors of a client to which no broker said anything. */
const UNANSWERED = ["ConnectionError", "ConnectionClosedError", "RequestTimeoutError", "LockTimeout", "Timeout"].map((name) => `KafkaJS${name}`);
const OF_THE_NETWORK = /^(ECONN|EHOST|ENET|ENOT|EAI_|ETIMEDOUT|EPIPE)/; // others are of TLS, and worth reading

/**
 * Committed records of partition 0 of topics, by offsets. kafkajs's consumer reads in a group only, which must be permitted,
 * and waits for members: this is of the parts below it. One that failed is of no further use.
 */
class Log {
  #cluster; #heard; servers = "";

  /** `turn`: which of the addresses is asked first. `heard` is called whenever a broker answered. */
  constructor({ brokers, ...config }, turn, heard) {
    const inTurn = async () => {
      const given = typeof brokers === "function" ? await brokers() : brokers;
      this.servers = given.join(",");
      return given.map((_, i) => given[(turn + i) % given.length]);
    };
    const client = new Kafka({ ...config, brokers: inTurn, retry: { retries: 0 }, logLevel: kafkajs.logLevel.NOTHING });
    const create = Object.getOwnPropertySymbols(client).find(({ description }) => description === "private:Kafka:createCluster");
    this.#cluster = client[create]({ isolationLevel: COMMITTED, allowAutoTopicCreation: false });
    this.#heard = heard;
  }

  /** Return the offsets at which a topic begins, and after its last committed record. */
  range(topic) {
    return this.#ask(topic, async () => {
      await this.#cluster.connect();
      await this.#cluster.addMultipleTargetTopics([topic]);
      const offset = async (fromBeginning) => {
        const [{ partitions }] = await this.#cluster.fetchTopicsOffset([{ topic, partitions: [{ partition: 0 }], fromBeginning }]);
        return Number(partitions[0].offset);
      };
      return [await offset(EARLIEST), await offset(!EARLIEST)];
    });
  }

  /** Return records from an offset on, and where to go on; waits so long for the first. */
  fetch(topic, offset, maxWaitTime = 0, maxBytes = 1 << 20) {
    return this.#ask(topic, async () => {
      const [nodeId] = Object.keys(this.#cluster.findLeaderForPartitions(topic, [0])), broker = await this.#cluster.findBroker({ nodeId });
      const topics = [{ topic, partitions: [{ partition: 0, fetchOffset: `${offset}`, maxBytes }] }];
      const asked = broker.fetch({ maxWaitTime, minBytes: 1, maxBytes, isolationLevel: COMMITTED, topics });
      const { responses: [{ partitions: [found] }] } = await (maxWaitTime ? within(asked, maxWaitTime + PATIENCE_MS, () => new kafkajs.KafkaJSTimeout("Timeout")) : asked);
      // Batches may have lost records, or all, to compaction: then the next offset is in the same batch, or behind it.
      const last = Number(found.messages.at(-1)?.offset ?? -1), isBehind = offset < Number(found.lastStableOffset);
      return { records: new Batch(topic, `${offset}`, found).messages, next: last < offset ? offset + Number(isBehind) : last + 1 };
    });
  }

  /** Return the record at an offset; null if there is none. */
  async record(topic, offset) {
    const [begin, end] = await this.range(topic);
    if (offset < begin || offset >= end) return null;
    const { records: [first] } = await this.fetch(topic, offset, 0, 1); // an answer has at least one batch
    return Number(first?.offset) === offset ? first : null;
  }

  /** End all connections at once: a client that disconnects waits for answers, which may not come. */
  close() {
    const { seedBroker, brokers } = this.#cluster.brokerPool;
    const connections = [seedBroker, ...Object.values(brokers)].flatMap((broker) => broker?.connectionPool.pool ?? []);
    for (const { socket } of connections) socket?.destroy(new Error("closed"));
    this.#cluster.disconnect().catch(() => {});
  }

  async #ask(topic, ask) {
    try {
      const answer = await ask();
      this.#heard();
      return answer;
    } catch (error) {
      const { name, type, message, code } = origin(error), isAnswered = !UNANSWERED.includes(name);
      if (isAnswered) this.#heard();
      if (type === "UNKNOWN_TOPIC_OR_PARTITION") throw new LogError(`topic ${topic} does not exist at ${this.servers}`);
      if (type === "TOPIC_AUTHORIZATION_FAILED") throw new LogError(`${message}; missing is read on topic ${topic}`);
      if (isAnswered) throw new LogError(`${topic}: ${message}`);
      throw new Unanswered(`no broker answered at ${this.servers}${this.servers && (!code || OF_THE_NETWORK.test(code)) ? "" : `: ${message}`}`);
    }
  }
}

const origin = (error) => (error.cause ? origin(error.cause) : error);

export async function subscribe(kafka, name, options = {}) {
  const config = configs.get(kafka);
  if (!config) throw new TypeError("`kafka` is not of the kafkajs that streamsvm-reader/kafkajs exports");
  const isList = Array.isArray(config.brokers) && config.brokers.length > 0 && config.brokers.every((one) => one && typeof one === "string");
  if (!isList && typeof config.brokers !== "function") throw new TypeError("`brokers` is not a list of addresses");
  return new Subscriber(name, options, (turn, heard) => new Log(config, turn, heard));
}
