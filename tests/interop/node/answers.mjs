// What the tests run of the reader in Node.js (deploy/node) without packages: each mode prints lines of JSON.
//
//     node answers.mjs --check POINTS.json MODEL.json...     a line for each file: an answer for each point
//     node answers.mjs --events MODEL.json EVENTS.jsonl [K]  a line for each event, with K reasons
import { readFileSync } from "node:fs";
import { InvalidFeatures, Model, RefusedMessage } from "streamsvm-reader";

/** Return what a function makes, or under a name why it refuses it. */
function told(make, refusal, name) {
  try {
    return make();
  } catch (error) {
    if (error instanceof refusal) return { [name]: error.message };
    throw error;
  }
}

/** Return what a model makes of a point, with as many reasons. */
const answer = (model, point, most = 0) => told(() => {
  const { score: decision, ...more } = model.score(point);
  return { decision, ...more, ...(most && { reasons: model.reasons(point, most) }) };
}, InvalidFeatures, "error");

const [mode, first, second, ...more] = process.argv.slice(2), read = (file) => readFileSync(file, "utf8");
const say = (what) => console.log(JSON.stringify(what));
if (mode === "--check") {
  const points = JSON.parse(read(first));
  for (const file of [second, ...more])
    say(told(() => {
      const model = Model.read(readFileSync(file));
      return points.map((point) => answer(model, point));
    }, RefusedMessage, "refused"));
} else {
  const model = Model.read(readFileSync(first));
  const lines = read(second).trimEnd().split("\n").map((line) => answer(model, JSON.parse(line), Number(more[0] ?? 0)));
  console.log(lines.map((line) => JSON.stringify(line)).join("\n"));
}
