// The core takes records, and has no client: aliases, pins, and what is refused.
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Follower, RefusedMessage } from "streamsvm-reader";

const value = readFileSync(new URL("../../../tests/golden/0.1.0/model-1-linear.json", import.meta.url));
const sha256 = createHash("sha256").update(value).digest("hex");
const alias = { number: 42, sha256, offset: 5 };
const record = (change = {}) => ({ key: Buffer.from("pulsar@42"), value, offset: "5", headers: { "streamsvm.sha256": Buffer.from(sha256) }, ...change });
const noted = (key, said) => ({ key: Buffer.from(key), value: said && Buffer.from(JSON.stringify(said)) });

function following(options) {
  const follower = new Follower("pulsar", options);
  follower.note(noted("pulsar@current", alias));
  return follower;
}

test("a pin comes before what was published last, until it is removed", () => {
  const follower = following(), pinned = { ...alias, number: 41 };
  assert.deepEqual(follower.wanted, alias);
  follower.note(noted("pulsar@current#pin", pinned));
  follower.note(noted("quasar@current", { ...alias, number: 7 }));
  assert.deepEqual(follower.wanted, pinned);
  follower.note(noted("pulsar@current#pin", null));
  assert.deepEqual(follower.wanted, alias);
  assert.equal(follower.missing, "");
});

test("an alias that cannot be read changes nothing", () => {
  const follower = following();
  assert.throws(() => follower.note({ key: Buffer.from("pulsar@current"), value: Buffer.from("{") }), RefusedMessage);
  assert.throws(() => follower.note(noted("pulsar@current", { number: 0, sha256, offset: 5 })), RefusedMessage);
  assert.deepEqual(follower.wanted, alias);
});

test("why nothing is wanted is said", () => {
  const follower = new Follower("pulsar");
  assert.equal(follower.missing, "models.aliases has no alias pulsar@current");
  follower.note(noted("pulsar@head", { ...alias, number: 1, gate: { outcome: "refused", why: "it knows nothing" } }));
  assert.match(follower.missing, /version 1, the newest, was held back, because it knows nothing/);
  assert.throws(() => follower.model(record()), RefusedMessage);
});

test("what the alias names becomes a model, and nothing else does", () => {
  assert.equal(following().model(record()).version, 42);
  const broken = {
    "another offset": record({ offset: "6" }),
    "a tombstone": record({ value: null }),
    "another key": record({ key: Buffer.from("pulsar@41") }),
    "no header": record({ headers: {} }),
    "another value": record({ value: Buffer.concat([value, Buffer.from(" ")]) }),
  };
  for (const [name, one] of Object.entries(broken)) assert.throws(() => following().model(one), RefusedMessage, name);
});

test("only what a trusted key signed is taken", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519"), stranger = generateKeyPairSync("ed25519").privateKey;
  const trusted = publicKey.export({ type: "spki", format: "pem" });
  const signed = (key) => ({ "streamsvm.sha256": sha256, "streamsvm.signature": sign(null, Buffer.from(`streamsvm.model.signature/1\npulsar@42\n${sha256}\n`), key).toString("base64") });
  assert.equal(following({ trusted }).model(record({ headers: signed(privateKey) })).sha256, sha256);
  for (const headers of [signed(stranger), { "streamsvm.sha256": sha256 }, { ...signed(stranger), "streamsvm.signature": "?" }])
    assert.throws(() => following({ trusted }).model(record({ headers })), /signed by none of the trusted keys/);
  assert.throws(() => new Follower("pulsar", { trusted: "no key" }), /no public key/);
});
