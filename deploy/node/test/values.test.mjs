// Points and events as programs have them: what is there counts, or is refused with its path.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";
import { InvalidFeatures, Model } from "streamsvm-reader";
import { columnsOf } from "../recipe.mjs";

const features = [
  { name: "amount", as: "number", field: ["amount"] },
  { name: "os", as: "category", field: ["device", "os"], values: ["ios"], missing: "indicator" },
  { name: "first", as: "number", field: ["items", 0], missing: { constant: 0 } },
  { name: "at", as: "time", field: ["at"], parts: ["hour"], missing: "indicator" },
];
const columns = columnsOf({ features }), plain = { amount: 3, device: { os: "ios" }, items: [5], at: "2026-01-31T12:00:00.000Z" };

class Device { get os() { return "ios"; } name() {} }
class Tablet extends Device {}
class Hidden { #os = "ios"; toJSON() { return { os: this.#os }; } }
class Event {
  #given = plain;
  get amount() { return this.#given.amount; }
  get device() { return new Tablet(); }
  get items() { return this.#given.items; }
  get at() { return this.#given.at; }
}
const foreign = runInContext("({ device: Object.create({ os: 'ios' }), map: new Map([['os', 'ios']]) })", createContext());

test("a field counts, whatever holds it", () => {
  const same = {
    "a getter": { device: new Device() }, "an inherited getter": { device: new Tablet() }, "a Map": { device: new Map([["os", "ios"]]) },
    "toJSON": { device: new Hidden() }, "no prototype": { device: Object.assign(Object.create(null), { os: "ios", hasOwnProperty: 1 }) },
    "another realm": { device: foreign.device }, "its Map": { device: foreign.map }, "a BigInt": { amount: 3n }, "a boxed number": { amount: new Number(3) },
    "a typed array": { items: Float64Array.of(5) }, "a BigInt64Array": { items: BigInt64Array.of(5n) }, "a Date": { at: new Date(plain.at) },
    "a Proxy": { device: new Proxy({ os: "ios" }, {}) },
  };
  for (const [what, change] of Object.entries(same)) assert.deepEqual(columns({ ...plain, ...change }), columns(plain), what);
  assert.deepEqual(columns(new Event()), columns(plain));
  assert.deepEqual(columns(new Map(Object.entries(plain))), columns(plain));
});

test("what cannot count is refused with its path", () => {
  const refused = {
    "amount is nan, beyond what can be learned": { amount: NaN }, "amount is '3', not a number": { amount: "3" }, "amount is missing": { amount: undefined },
    "amount is a Set, not a number": { amount: new Set([3]) }, "amount is a function, not a number": { amount: () => 3 },
    "amount is [3], not a number": { amount: Uint8Array.of(3) }, "device.os cannot be read: device is a Set, not an object": { device: new Set(["os"]) },
    "device.os cannot be read: device is a Promise, not an object": { device: Promise.resolve({}) }, "device.os cannot be read: device is text, not an object": { device: "ios" },
    "device.os cannot be read: device is an array, not an object": { device: ["ios"] }, "device.os cannot be read: it is gone": { device: { get os() { throw new Error("it is gone"); } } },
    "items[0] cannot be read: items is an object, not an array": { items: { 0: 5 } }, "at is Invalid Date, not a time such as 2026-01-31T12:00:00Z": { at: new Date(NaN) },
  };
  for (const [message, change] of Object.entries(refused))
    assert.throws(() => columns({ ...plain, ...change }), { name: "InvalidFeatures", message }, message);
  assert.throws(() => columns({ ...plain, device: { os: 2n ** 60n } }), /device.os is \d+, not an integer of at most 53 bits: send such an identifier as text/);
  assert.throws(() => columns(Promise.resolve(plain)), { message: "the event is a Promise, not an object" });
  assert.deepEqual(columns({ ...plain, device: { constructor: 1 } }).slice(1, 4), [0, 0, 1]); // a field that is not there is missing
  assert.deepEqual(columns({ ...plain, device: new (class { os() {} })() }).slice(1, 4), [0, 0, 1]); // a method is no field
});

test("what is refused is refused in the words of Python", () => {
  const { recipe, event, rejected } = JSON.parse(readFileSync(new URL("../../../tests/contract/inputs.json", import.meta.url)));
  const made = columnsOf(recipe), otherNumbers = /\d{30}|-0\.0|1e\+20/; // JavaScript has their values, but not their digits
  assert.ok(made(event).length);
  for (const { given, says } of rejected) {
    const message = otherNumbers.test(given) ? new RegExp(`^${says.split(" is ")[0]} is `) : says;
    assert.throws(() => made({ ...event, ...JSON.parse(given) }), { name: "InvalidFeatures", message }, given);
  }
});

test("what events need is said", () => {
  assert.deepEqual(columns.needs, [
    { path: "amount", kind: "number", required: true }, { path: "device.os", kind: "category", required: false },
    { path: "items[0]", kind: "number", required: false }, { path: "at", kind: "time", required: false },
  ]);
});

test("points are read like events", () => {
  const model = Model.read(readFileSync(new URL("../../../tests/golden/0.1.0/model-1-linear.json", import.meta.url))), [a, b, c] = model.featureNames;
  const { score } = model.score([1, -2, 4]), named = { [a]: 1, [b]: -2, [c]: 4 };
  class Row { id = 7; get [a]() { return 1; } get [b]() { return -2n; } get [c]() { return 4; } }
  for (const point of [Float64Array.of(1, -2, 4), [1n, -2, 4], named, new Map(Object.entries(named)), new Row()]) assert.equal(model.score(point).score, score);
  assert.deepEqual(model.fields[0], { path: a, kind: "number", required: true });
  const refused = {
    "3 features expected, 2 given": [1, 2], "3 features expected, no array given": "1, 2, 3", "'mean' is nan; a feature must be a finite number": [NaN, 2, 3],
    "'mean' is None, not a number": [null, 2, 3], "the names do not match the version's 3 features: missing 'mean'; unknown 'maen'": { maen: 1, [b]: -2, [c]: 4 },
  };
  for (const [message, point] of Object.entries(refused)) assert.throws(() => model.score(point), { name: "InvalidFeatures", message });
  assert.throws(() => model.score(Promise.resolve(named)), InvalidFeatures);
});
