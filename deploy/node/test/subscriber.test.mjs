// The subscriber with a log in memory: what it waits for, what it refuses, and how it finds a version by its number.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { LogError, Subscriber, Unanswered } from "../subscribing.mjs";

const message = JSON.parse(readFileSync(new URL("../../../tests/golden/0.1.0/model-1-linear.json", import.meta.url)));
const sha256 = (value) => createHash("sha256").update(value).digest("hex");

/** Two topics, as far as they are there, and a broker that can be away. */
class Broker {
  topics = new Map(); isAway = false; reads = 0;

  create(...names) {
    for (const name of names) this.topics.set(name, []);
    return this;
  }

  append(topic, key, value, headers = {}) {
    const log = this.topics.get(topic), offset = log.length;
    log.push({ key: Buffer.from(key), value: value === null ? null : Buffer.from(value), headers, offset: `${offset}` });
    return offset;
  }

  /** Write a version, whose parent and links are given; return what an alias of it says. */
  publish(number, { parent = null, links = [], time } = {}) {
    const value = JSON.stringify({ ...message, version: number, lineage: { ...message.lineage, parent, links } }), digest = sha256(value);
    const headers = { "streamsvm.sha256": Buffer.from(digest), ...(time && { "streamsvm.time": Buffer.from(time) }) };
    return { number, sha256: digest, offset: this.append("models", `pulsar@${number}`, value, headers) };
  }

  say(key, said) {
    this.append("models.aliases", `pulsar@${key}`, said && JSON.stringify(said));
  }

  #records(topic, heard) {
    if (this.isAway) throw new Unanswered("no broker answered at here:1");
    heard();
    if (!this.topics.has(topic)) throw new LogError(`topic ${topic} does not exist at here:1`);
    return this.topics.get(topic);
  }

  connect = (turn, heard) => ({
    servers: "here:1",
    range: async (topic) => [0, this.#records(topic, heard).length],
    fetch: async (topic, offset) => {
      await sleep(2);
      const records = this.#records(topic, heard).slice(offset);
      return { records, next: offset + records.length };
    },
    record: async (topic, offset) => {
      this.reads++;
      return this.#records(topic, heard)[offset] ?? null;
    },
    close() {},
  });
}

/** Follow a broker's model; what it says stands in `said`. */
function following(t, broker, options = {}) {
  const said = [], hear = (name) => (what) => said.push(`${name}: ${what?.version ?? what ?? ""}`);
  const calls = { onVersion: hear("version"), onRefused: hear("refused"), onWaiting: hear("waiting"), onHeard: hear("heard") };
  const subscriber = new Subscriber("pulsar", { ...calls, ...options }, broker.connect);
  t.after(() => subscriber.close());
  return { subscriber, said };
}

async function until(holds, what) {
  for (let left = 1_000; !holds(); left--) {
    assert.ok(left, what());
    await sleep(5);
  }
}

test("it waits for brokers, topics and a version, and says each once", async (t) => {
  const broker = new Broker();
  broker.isAway = true;
  const { subscriber, said } = following(t, broker), waits = (why) => until(() => subscriber.missing === why, () => subscriber.missing);
  assert.equal(subscriber.model, null);
  await waits("no broker answered at here:1");
  await sleep(350); // some more attempts
  assert.deepEqual(said, ["waiting: waiting for pulsar@current: no broker answered at here:1"]);
  assert.deepEqual(subscriber.readiness, { ready: false, version: null, missing: "no broker answered at here:1", lastHeard: null, ageMs: null });
  broker.isAway = false;
  await waits("topic models.aliases does not exist at here:1");
  broker.create("models.aliases");
  await waits("topic models does not exist at here:1");
  broker.create("models");
  await waits("models.aliases has no alias pulsar@current");
  broker.say("head", { ...broker.publish(1), gate: { outcome: "refused", why: "it knows nothing" } });
  await waits("models.aliases has no alias pulsar@current: version 1, the newest, was held back, because it knows nothing");
  broker.say("current", broker.publish(2, { time: new Date(Date.now() - 60_000).toISOString() }));
  assert.equal((await subscriber.ready(5_000)).version, 2);
  assert.equal(said.length, 6);
  const { ready, version, missing, lastHeard, ageMs } = subscriber.readiness;
  assert.deepEqual([ready, version, missing], [true, "pulsar@2", ""]);
  assert.ok(Date.now() - lastHeard < 5_000 && ageMs >= 60_000 && ageMs < 70_000);
});

test("it says after a while that no broker answers, and when one does again", async (t) => {
  const broker = new Broker().create("models", "models.aliases");
  broker.say("current", broker.publish(3));
  const { subscriber, said } = following(t, broker, { quietMs: 300 });
  await subscriber.ready(5_000);
  broker.isAway = true;
  await sleep(150);
  assert.equal(subscriber.missing, "");
  const why = "no broker answered at here:1 for 0.3 s; pulsar@3 serves on";
  await until(() => subscriber.missing === why, () => subscriber.missing);
  await sleep(400);
  assert.ok(subscriber.readiness.ready);
  assert.deepEqual(said, ["version: 3", `waiting: waiting for pulsar@current: ${why}`]);
  broker.isAway = false;
  await until(() => said.length > 2, () => String(said));
  assert.equal(said[2], "heard: ");
  assert.equal(subscriber.missing, "");
});

test("an application refuses a version, and is asked once", async (t) => {
  const broker = new Broker().create("models", "models.aliases"), asked = [];
  const check = async ({ version }) => {
    asked.push(version);
    if (version === 4) throw new Error("it is four");
  };
  broker.say("current", broker.publish(3));
  const { subscriber, said } = following(t, broker, { check });
  await subscriber.ready(5_000);
  broker.say("current", broker.publish(4));
  await until(() => subscriber.missing === "refused pulsar@4: it is four", () => subscriber.missing);
  broker.isAway = true;
  await sleep(150);
  broker.isAway = false;
  await sleep(400);
  assert.equal(subscriber.model.version, 3);
  assert.equal(subscriber.missing, "refused pulsar@4: it is four");
  broker.say("current", broker.publish(5));
  await until(() => subscriber.model.version === 5, () => subscriber.missing);
  assert.deepEqual(asked, [3, 4, 5]);
  assert.deepEqual(said, ["version: 3", "refused: refused pulsar@4: it is four", "version: 5"]);
});

test("a record that is not there yet is asked for again", async (t) => {
  const broker = new Broker().create("models", "models.aliases"), place = broker.publish(1);
  const [record] = broker.topics.get("models").splice(0);
  broker.say("current", place);
  const { subscriber } = following(t, broker);
  const why = "refused pulsar@1: there is no record at offset 0, where pulsar@1 should be";
  await until(() => subscriber.missing === why, () => subscriber.missing);
  broker.topics.get("models").push(record);
  assert.equal((await subscriber.ready(5_000)).version, 1);
});

test("an alias of one's own is followed, whatever the pin says", async (t) => {
  const broker = new Broker().create("models", "models.aliases"), [one, two] = [broker.publish(1), broker.publish(2)];
  broker.say("current", two);
  broker.say("current#pin", two);
  const { subscriber } = following(t, broker, { alias: "stable" });
  await until(() => subscriber.missing === "models.aliases has no alias pulsar@stable", () => subscriber.missing);
  broker.say("stable", one);
  assert.equal((await subscriber.ready(5_000)).version, 1);
});

/** Versions 1 to 700, each of which names its parent; only the head has the hash of the last. */
function chained(change = () => {}) {
  const broker = new Broker().create("models", "models.aliases"), places = [];
  for (let number = 1, parent = null; number <= 700; number++) {
    change(broker, number);
    places.push(broker.publish(number, { parent }));
    parent = places.at(-1).sha256;
  }
  broker.say("head", places.at(-1));
  return { broker, places };
}

test("a version is found by its number, and a forgery is not", async (t) => {
  const { broker, places } = chained((broker, number) => number === 650 && broker.publish(3, { links: [{ number: 2, sha256: "0" }] }));
  const { subscriber, said } = following(t, broker, { version: 3 });
  assert.equal((await subscriber.ready(20_000)).sha256, places[2].sha256);
  assert.deepEqual(said, ["version: 3"]);
  broker.topics.get("models")[places[2].offset].value = null; // only the forgery is left
  const other = following(t, broker, { version: 3 });
  await assert.rejects(other.subscriber.ready(20_000), /^RefusedMessage: pulsar@3 may be a forgery: no later version that models still holds names its hash/);
  assert.match(other.subscriber.missing, /forgery/);
  assert.equal(other.said.length, 1);
});

test("a number that was never published, or was retired, ends the subscriber with an error", async (t) => {
  const broker = new Broker().create("models", "models.aliases");
  await assert.rejects(following(t, broker, { version: 1 }).subscriber.ready(5_000), /pulsar has no version 1; models.aliases names no version of pulsar/);
  const one = broker.publish(1);
  broker.say("head", broker.publish(2, { parent: one.sha256 }));
  await assert.rejects(following(t, broker, { version: 3 }).subscriber.ready(5_000), /pulsar has no version 3; the newest is 2/);
  broker.say("retired", { below: 2, kept: [], others: [] });
  await assert.rejects(following(t, broker, { version: 1 }).subscriber.ready(5_000), /version 1 of pulsar was retired; the newest is 2/);
  broker.say("stable", one);
  assert.equal((await following(t, broker, { version: 1 }).subscriber.ready(5_000)).version, 1);
  const { subscriber } = following(t, broker, { version: 2, check: () => { throw new Error("not that one"); } });
  await assert.rejects(subscriber.ready(5_000), /refused pulsar@2: not that one/);
});

test("wrong options are refused at once", () => {
  const { connect } = new Broker();
  for (const options of [{ tursted: "" }, { alias: "head" }, { alias: "a b" }, { version: 0 }, { version: "3" }, { quietMs: 0 }, { check: "yes" }, { trusted: "no key" }])
    assert.throws(() => new Subscriber("pulsar", options, connect), Error, JSON.stringify(options));
  assert.throws(() => new Subscriber(undefined, {}, connect), TypeError);
});
