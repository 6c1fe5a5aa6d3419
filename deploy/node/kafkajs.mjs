// kafkajs, mended, and a subscriber that uses it: committed records only, and every compression.
//
// Kafka names the aborted transactions of an answer in the order in which they *ended*. kafkajs 2.2.4 takes them for
// ordered by their beginning, and takes up one for each record at most: where two aborted transactions overlap, records
// of one are given out as committed. tests/interop/test_packages.py shows it. Import kafkajs from here.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { decompress } from "fzstd";
import { lz4, snappy } from "./codecs.mjs";
import { Follower } from "./follower.mjs";
import { RefusedMessage } from "./message.mjs";

const require = createRequire(import.meta.url);
const FILTER = require.resolve("kafkajs/src/consumer/filterAbortedMessages.js");
const ABORT = 0; // the type in the key of a control record: two bytes of version, two of type
const IDLE_FETCHES = 10, RETRY_MS = 5_000, MAX_WAIT_MS = 100;

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

/** Return a codec that reads. */
const reads = (decompressed) => () => ({
  compress: async () => { throw new Error("streamsvm-reader/kafkajs only reads this compression: produce with gzip or none"); },
  decompress: async (buffer) => Buffer.from(decompressed(buffer)),
});
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = reads(decompress);
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.LZ4] = reads(lz4);
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = reads(snappy);

/** Keeps the version that `name@current` names loaded; a pin comes before it. Make one by `subscribe`. */
class Subscriber {
  model = null;
  missing;
  #follower; #name; #models; #calls; #settled = null; #caughtUp = false; #consumers = []; #admin; #groups = []; #retry; #waiting = new Set();

  constructor(name, models, { trusted, onVersion, onRefused, onWaiting }) {
    this.#follower = new Follower(name, { trusted });
    this.#name = name;
    this.#models = models;
    this.#calls = { onVersion, onRefused, onWaiting };
    this.missing = `reading ${models}.aliases`;
  }

  async start(kafka, groupId) {
    const aliases = `${this.#models}.aliases`, group = () => `${groupId}-${randomUUID()}`;
    this.#admin = kafka.admin();
    await this.#admin.connect();
    const [{ high }] = (await this.#admin.fetchTopicOffsets(aliases)).filter(({ partition }) => partition === 0);
    const [versions, follower] = [this.#models, aliases].map((topic) => this.#consumer(kafka, group(), topic));
    let idle = 0;
    const reached = (offset) => {
      if (this.#caughtUp || offset < BigInt(high)) return;
      this.#caughtUp = true;
      this.#settle();
    };
    follower.on(follower.events.END_BATCH_PROCESS, ({ payload: { lastOffset } }) => {
      idle = 0;
      reached(BigInt(lastOffset) + 1n);
    });
    follower.on(follower.events.FETCH, () => { // the log may end in records that were compacted away
      if (++idle > IDLE_FETCHES) reached(BigInt(high));
    });
    let joined = false; // before that, and after a crash, kafkajs can neither pause nor seek
    this.#pause = () => versions.pause([{ topic: this.#models }]);
    this.#seek = (offset) => {
      if (!joined) return;
      versions.seek({ topic: this.#models, partition: 0, offset: `${offset}` });
      versions.resume([{ topic: this.#models }]);
    };
    versions.on(versions.events.STOP, () => (joined = false));
    versions.on(versions.events.GROUP_JOIN, () => {
      joined = true;
      this.#pause();
      this.#settle();
    });
    await this.#run(versions, this.#models, false, (record) => this.#take(record));
    await this.#run(follower, aliases, true, (record) => this.#note(record));
    this.#retry = setInterval(() => this.#settle(), RETRY_MS);
    this.#retry.unref();
    return this;
  }

  #pause; #seek;

  #consumer(kafka, groupId, topic) {
    const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: MAX_WAIT_MS, allowAutoTopicCreation: false });
    this.#groups.push(groupId);
    this.#consumers.push(consumer);
    consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
      if (!restart) this.#lack(`reading ${topic} ended: ${error.message}`);
    });
    return consumer;
  }

  async #run(consumer, topic, fromBeginning, eachMessage) {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning });
    await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => partition === 0 && eachMessage(message) });
  }

  #note(record) {
    try {
      this.#follower.note(record);
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      this.#call("onRefused", `${error.message} (${this.#models}.aliases[0]@${record.offset})`);
    }
    if (this.#caughtUp) this.#settle();
  }

  /** Fetch what is wanted, unless it is in use or was refused. */
  #settle() {
    const { wanted, missing } = this.#follower;
    if (!this.#caughtUp) return;
    if (wanted === null) this.#lack(missing);
    if (wanted === null || same(wanted, this.#settled)) return;
    if (this.model?.sha256 === wanted.sha256) { // an alias moved away and back
      this.#settled = wanted;
      this.missing = "";
      return;
    }
    this.missing = `fetching ${this.#name}@${wanted.number} from ${this.#models}[0]@${wanted.offset}`;
    this.#seek(wanted.offset);
  }

  #take(record) {
    const { wanted } = this.#follower;
    if (wanted === null || same(wanted, this.#settled) || Number(record.offset) < wanted.offset) return;
    this.#pause();
    try {
      const gone = Number(record.offset) > wanted.offset; // it is asked for again
      if (!gone) this.#settled = wanted;
      this.model = this.#follower.model(record);
      this.missing = "";
      this.#call("onVersion", this.model);
      for (const tell of this.#waiting) tell(this.model);
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      const why = `refused ${this.#name}@${wanted.number}: ${error.message}`;
      if (why !== this.missing) this.#call("onRefused", why);
      this.missing = why;
    }
  }

  #lack(why) {
    if (why !== this.missing) this.#call("onWaiting", `waiting for ${this.#name}@current: ${why}`);
    this.missing = why;
  }

  #call(name, what) {
    try {
      this.#calls[name]?.(what);
    } catch (error) {
      console.error(`${name} of ${this.#name} failed:`, error);
    }
  }

  /** Wait for the first version; the error says why there is none. */
  async ready(timeoutMs) {
    if (this.model !== null) return this.model;
    let timer, tell;
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.add((tell = resolve));
        timer = setTimeout(() => reject(new Error(`no version of ${this.#name} within ${timeoutMs} ms: ${this.missing}`)), timeoutMs);
      });
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(tell);
    }
  }

  /** Stop following; the version in use stays. */
  async close() {
    clearInterval(this.#retry);
    await Promise.all(this.#consumers.map((consumer) => consumer.disconnect()));
    await this.#admin.deleteGroups(this.#groups).catch(() => {}); // they hold nothing, and the broker forgets them in time
    await this.#admin.disconnect();
  }
}

const same = (a, b) => b !== null && a.number === b.number && a.sha256 === b.sha256 && a.offset === b.offset;

/** Follow a model; `kafka` is of the kafkajs that this module exports. */
export async function subscribe(kafka, name, { modelsTopic = "models", groupId = "streamsvm-reader", ...given } = {}) {
  const subscriber = new Subscriber(name, modelsTopic, given);
  try {
    return await subscriber.start(kafka, groupId);
  } catch (error) {
    await subscriber.close().catch(() => {});
    throw error;
  }
}
