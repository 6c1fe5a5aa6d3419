// A subscriber that the tests run, of the reader in Node.js (deploy/node) with kafkajs, and of ONNX Runtime.
//
//     node subscriber.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem]
// prints a line of JSON for each version that it serves, with the decision values of the points, from the JSON and from
// ONNX. Where a version has no copy in ONNX it waits for it.
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { InvalidFeatures } from "streamsvm-reader";
import kafkajs, { subscribe } from "streamsvm-reader/kafkajs";
import * as ort from "onnxruntime-node";

const [bootstrap, models, name, pointsFile, keysFile] = process.argv.slice(2);
const points = JSON.parse(readFileSync(pointsFile, "utf8")), trusted = keysFile && readFileSync(keysFile, "utf8");
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });

/** Return what a function makes of each point; null where it is rejected. */
const each = (make) => points.map((x) => {
  try {
    return make(x);
  } catch (error) {
    if (error instanceof InvalidFeatures) return null;
    throw error;
  }
});

/** Score the points that are not rejected by the ONNX graph. */
async function byOnnx(graph, model) {
  const session = await ort.InferenceSession.create(graph);
  const rows = each((x) => model.columns(x)).filter((row) => row !== null);
  const input = new ort.Tensor("float64", Float64Array.from(rows.flat()), [rows.length, rows[0].length]);
  const output = await session.run({ [session.inputNames[0]]: input }, ["decision_function"]);
  const values = Array.from(output.decision_function.data), classes = output.decision_function.dims[1];
  return classes ? rows.map((_, i) => values.slice(i * classes, (i + 1) * classes)) : values;
}

const graphs = new Map(); // ONNX by the SHA-256 of the version's JSON
let turn = Promise.resolve();
async function serve(model) {
  while (!graphs.has(model.sha256)) await setTimeout(20); // of the same transaction, on another topic
  const onnx = await byOnnx(graphs.get(model.sha256), model);
  console.log(JSON.stringify({ version: model.version, sha256: model.sha256, decision: each((x) => model.score(x).score), onnx }));
}

const copies = kafka.consumer({ groupId: `interop-${randomUUID()}`, maxWaitTimeInMs: 100 });
await copies.connect();
await copies.subscribe({ topic: `${models}.onnx`, fromBeginning: true });
await copies.run({ autoCommit: false, eachMessage: async ({ message: { headers, value } }) => {
  if (createHash("sha256").update(value).digest("hex") === headers["streamsvm.sha256"].toString())
    graphs.set(headers["streamsvm.model.sha256"].toString(), value);
} });
await subscribe(kafka, name, {
  modelsTopic: models, trusted, onRefused: console.error, onWaiting: console.error,
  onVersion: (model) => (turn = turn.then(() => serve(model))),
});
