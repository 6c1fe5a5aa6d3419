// What the tests run of the reader in Node.js (deploy/node) without packages: each mode prints lines of JSON.
//
//     node answers.mjs --check POINTS.json MODEL.json...     a line for each file: an answer for each point
//     node answers.mjs --events MODEL.json EVENTS.jsonl [K]  a line for each event, with K reasons
//     node answers.mjs --contract CASES.json GOLDEN POINTS.json   a line for each case of a model, an alias or scores
import { readFileSync } from "node:fs";
import { Follower, InvalidFeatures, Model, RefusedMessage, readScores } from "streamsvm-reader";

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

/** Return a message with the edits of a case. */
function edited(message, edits = []) {
  for (const { set, remove, insert, to } of edits) {
    let [...path] = set ?? remove ?? insert;
    if (!path.length) message = to;
    if (!path.length) continue;
    const part = Object.hasOwn(message, path[0]) ? -1 : (message.parts ?? []).findIndex((one) => one?.part === path[0]);
    if (part >= 0) path = ["parts", part, ...path.slice(1)];
    const last = path.pop(), holder = path.reduce((inside, step) => inside[step], message);
    if (set) holder[last] = to;
    else if (insert) holder.splice(last, 0, to);
    else if (Array.isArray(holder)) holder.splice(last, 1);
    else delete holder[last];
  }
  return message;
}

/** Return what the reader makes of a case: answers of a model, the version that an alias names, where scores come from. */
function contracted({ read: kind, of, edits, text, base64, headers = {} }, golden, points) {
  const value = text === undefined && base64 === undefined ? null : Buffer.from(text ?? base64, text === undefined ? "base64" : "utf8");
  if (kind === "alias") {
    const follower = new Follower("pulsar");
    follower.note({ key: Buffer.from("pulsar@current"), value });
    return follower.wanted;
  }
  if (kind === "scores") {
    const { source, modelSha256, rows } = readScores({ value, headers });
    return { source, modelSha256, scores: rows.length, ids: rows.map(({ id }) => String(id)) };
  }
  const whole = readFileSync(`${golden}/model-1-${of}.json`);
  const model = Model.read(edits ? JSON.stringify(edited(JSON.parse(whole), edits)) : whole);
  return { answers: points.map((point) => answer(model, point)) };
}

const [mode, first, second, ...more] = process.argv.slice(2), read = (file) => readFileSync(file, "utf8");
const say = (what) => console.log(JSON.stringify(what));
if (mode === "--check") {
  const points = JSON.parse(read(first));
  for (const file of [second, ...more])
    say(told(() => {
      const model = Model.read(readFileSync(file));
      return points.map((point) => answer(model, point));
    }, RefusedMessage, "refused"));
} else if (mode === "--contract") {
  const points = JSON.parse(read(more[0]));
  for (const one of JSON.parse(read(first)).cases.filter((one) => ["model", "alias", "scores"].includes(one.read)))
    say({ case: one.case, told: told(() => contracted(one, second, points), RefusedMessage, "refused") });
} else {
  const model = Model.read(readFileSync(first));
  const lines = read(second).trimEnd().split("\n").map((line) => answer(model, JSON.parse(line), Number(more[0] ?? 0)));
  console.log(lines.map((line) => JSON.stringify(line)).join("\n"));
}
