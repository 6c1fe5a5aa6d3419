// The reader against the golden files of tests/golden: what Python answers, and the numbers of every notation.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { InvalidFeatures, Model, RefusedMessage, readScores } from "streamsvm-reader";
import { columnsOf } from "../recipe.mjs";

const golden = (name) => readFileSync(new URL(`../../../tests/golden/0.1.0/${name}`, import.meta.url));
const { models, scores } = JSON.parse(golden("answers.json")), cells = JSON.parse(golden("notations.json"));

/** Compare numbers within 1e-12, relative beyond 1, and all else exactly. */
function close(found, expected, where) {
  if (typeof expected === "number" && typeof found === "number")
    assert.ok(Math.abs(found - expected) <= 1e-12 * Math.max(1, Math.abs(expected)), `${where}: ${found}, not ${expected}`);
  else if (typeof expected === "object" && expected !== null) {
    assert.deepEqual(Object.keys(found).sort(), Object.keys(expected).sort(), where);
    for (const key of Object.keys(expected)) close(found[key], expected[key], `${where}.${key}`);
  } else assert.equal(found, expected, where);
}

for (const { model: file, points, answers } of models)
  test(`${file} answers as in Python`, () => {
    const model = Model.read(golden(file));
    points.forEach((point, i) => {
      const { error, decision, reasons, ...expected } = answers[i];
      if (error) return assert.throws(() => model.score(point), InvalidFeatures);
      close(model.score(point), { score: decision, ...expected }, `${file} ${i}`);
      if (reasons) close(model.reasons(point, reasons.fields.length || 1), reasons, `${file} ${i}`);
      else assert.throws(() => model.reasons(point, 1), TypeError);
    });
  });

test("numbers mean the same in every notation, to the bit", () => {
  cells.forEach(({ options, value, number }, i) => {
    const columns = columnsOf({ features: [{ name: "a", field: ["a"], as: "number", missing: { constant: 0 }, ...options }] });
    if (number === null) assert.throws(() => columns({ a: value }), InvalidFeatures, `cell ${i}`);
    else assert.equal(columns({ a: value })[0], number === "missing" ? 0 : number, `cell ${i}`);
  });
});

test("a changed version is refused", () => {
  const value = golden("model-1-linear.json"), message = JSON.parse(value);
  message.model.intercepts[0] += 1;
  assert.throws(() => Model.read(JSON.stringify(message)), { name: "RefusedMessage", message: "probe 0 is scored otherwise" });
  assert.throws(() => Model.read(value.subarray(0, 100)), RefusedMessage);
});

test("scores are read, with their version and their reasons", () => {
  const headers = Object.fromEntries(Object.entries(scores.headers).map(([name, text]) => [name, Buffer.from(text)]));
  const { source, modelSha256, rows } = readScores({ value: Buffer.from(scores.value), headers });
  assert.deepEqual([source, modelSha256], [scores.headers["streamsvm.source"], scores.headers["streamsvm.model.sha256"]]);
  assert.deepEqual(rows, JSON.parse(scores.value));
  assert.deepEqual(readScores({ value: Buffer.from(JSON.stringify(rows[1])) }).rows, [rows[1]]);
  assert.throws(() => readScores({ value: Buffer.from("[1]") }), RefusedMessage);
  assert.throws(() => readScores({ value: null }), RefusedMessage);
});
