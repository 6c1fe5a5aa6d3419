// A subscriber that the tests run, of the reader in Node.js (deploy/node) with kafkajs.
//
//     node subscriber.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem | OPTIONS.json]
// prints a line of JSON for each version that it serves, with the decision values of the points.
import { readFileSync } from "node:fs";
import { InvalidFeatures } from "streamsvm-reader";
import kafkajs, { subscribe } from "streamsvm-reader/kafkajs";

const [bootstrap, models, name, pointsFile, optionsFile = ""] = process.argv.slice(2);
const read = (file) => readFileSync(file, "utf8"), points = JSON.parse(read(pointsFile));
const { refused, quiet_s: quietS = 30, ...options } = optionsFile.endsWith(".json") ? JSON.parse(read(optionsFile)) : {};
if (optionsFile.endsWith(".pem")) options.trusted = read(optionsFile);
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR, ...JSON.parse(process.env.KAFKAJS_OPTIONS ?? "{}") });

/** Return what a function makes of each point; null where it is rejected. */
const each = (make) => points.map((x) => {
  try {
    return make(x);
  } catch (error) {
    if (error instanceof InvalidFeatures) return null;
    throw error;
  }
});

await subscribe(kafka, name, {
  ...options, modelsTopic: models, quietMs: 1000 * quietS, onRefused: console.error, onWaiting: console.error,
  check: (model) => { if (model.version === refused) throw new Error("not wanted here"); },
  onVersion: (model) => console.log(JSON.stringify({
    version: model.version, sha256: model.sha256, decision: each((x) => model.score(x).score),
  })),
});
