// A subscriber without ONNX: `node follow.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json` prints a line for each version.
import { readFileSync } from "node:fs";
import kafkajs, { subscribe } from "streamsvm-reader/kafkajs";

const [bootstrap, modelsTopic, name, file] = process.argv.slice(2), points = JSON.parse(readFileSync(file, "utf8"));
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });
await subscribe(kafka, name, {
  modelsTopic, onRefused: console.error, onWaiting: console.error,
  onVersion: (model) => console.log(JSON.stringify({ version: model.version, sha256: model.sha256, decision: points.map((x) => model.score(x).score) })),
});
