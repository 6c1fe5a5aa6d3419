// A subscriber that the tests run, of the reader in Node.js (deploy/node) with kafkajs.
//
//     node subscriber.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem]
// prints a line of JSON for each version that it serves, with the decision values of the points.
import { readFileSync } from "node:fs";
import { InvalidFeatures } from "streamsvm-reader";
import kafkajs, { subscribe } from "streamsvm-reader/kafkajs";

const [bootstrap, models, name, pointsFile, keysFile] = process.argv.slice(2);
const points = JSON.parse(readFileSync(pointsFile, "utf8")), trusted = keysFile && readFileSync(keysFile, "utf8");
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

const subscriber = await subscribe(kafka, name, {
  modelsTopic: models, trusted, onRefused: console.error, onWaiting: console.error,
  onVersion: (model) => console.log(JSON.stringify({
    version: model.version, sha256: model.sha256, decision: each((x) => model.score(x).score),
  })),
});
process.once("SIGTERM", async () => {
  await subscriber.close();
  process.exit(0);
});
