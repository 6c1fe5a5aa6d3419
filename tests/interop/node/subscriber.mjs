// A subscriber of the model topic in Node.js (kafkajs, ONNX Runtime): it follows `current`, or the pin if there is one,
// takes no version whose SHA-256, probes or signature are wrong, and prints one line of JSON for each that it serves.
//
//     node subscriber.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem]
// With public keys (Ed25519) it takes only versions that one of them signed.
// POINTS.json is an array of raw feature vectors, or of raw events where versions have recipes; each line has the decision
// value of each, from the JSON and from ONNX.
//
//     node subscriber.mjs --check MODEL.json POINTS.json
// prints what the value of a version's record makes of each point, which may be an object of names, too, or why nothing.
import { createHash, createPublicKey, randomUUID, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { decompress } from "fzstd";
import kafkajs from "./committed.mjs";
import { checkExamples, columnsOf } from "./features.mjs";
import * as ort from "onnxruntime-node";

const [bootstrap, models, name, pointsFile, keysFile] = process.argv.slice(2);
const pems = keysFile && readFileSync(keysFile, "utf8").match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g);
const keys = pems?.map((pem) => createPublicKey(pem));
const read = (file) => JSON.parse(readFileSync(file, "utf8"));
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({ decompress: async (b) => Buffer.from(decompress(b)) });
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const floats = (base64) => new Float64Array(new Uint8Array(Buffer.from(base64, "base64")).buffer);

/** Return a point's features in the model's order, given as an array or as an object of names; or throw. */
function ordered(x, { names, dimension }) {
  if (typeof x === "object" && x !== null && !Array.isArray(x)) {
    if (!names.length) throw new RangeError("the version names no features: give an array");
    const missing = names.filter((one) => !Object.hasOwn(x, one)), unknown = Object.keys(x).filter((one) => !names.includes(one));
    if (missing.length || unknown.length)
      throw new RangeError(`the names are not the version's features: missing [${missing}], unknown [${unknown}]`);
    x = names.map((one) => x[one]);
  }
  if (!Array.isArray(x) || x.length !== dimension)
    throw new RangeError(`${dimension} features expected, ${Array.isArray(x) ? x.length : "no array"} given`);
  const bad = x.findIndex((value) => !Number.isFinite(value)); // text and null are not, either
  if (bad >= 0) throw new RangeError(`${names[bad] ?? `x[${bad}]`} is ${typeof x[bad] === "string" ? `"${x[bad]}"` : x[bad]}, and a feature must be a finite number`);
  return x;
}

/** Return a function from a point, or a raw event where the version has a recipe, to its columns; it may throw. */
function columnsBy({ features, recipe }) {
  const columns = recipe && columnsOf(recipe);
  return (x) => (columns && typeof x === "object" && x !== null && !Array.isArray(x) ? columns(x) : ordered(x, features));
}

/** Return the decision function of a message: a point or a raw event in, a number out. */
function machine(message) {
  const { features: { mean, scale }, model } = message, columns = columnsBy(message);
  const scaled = (x) => columns(x).map((value, j) => (value - mean[j]) / scale[j]);
  if (model.kernel === "linear")
    return (x) => scaled(x).reduce((sum, z, j) => sum + z * model.coefficients[j], model.intercept);
  const support = floats(model.support_vectors), dual = floats(model.dual_coefficients), d = mean.length;
  return (x) => {
    const z = scaled(x);
    return dual.reduce((sum, a, i) => {
      let distance = 0;
      for (let j = 0; j < d; j++) distance += (z[j] - support[i * d + j]) ** 2;
      return sum + a * Math.exp(-model.gamma * distance);
    }, model.intercept);
  };
}

/** Return the label of a decision value: the second one above the threshold, which format 5 brings. */
const labelOf = ({ labels, threshold }, f) => labels[f > (threshold?.value ?? 0) ? 1 : 0];

/** Return the probability of the second label at a decision value f; i is the first knot beyond it. */
const likely = ({ method, a, b, x, y }, f, i = x?.findIndex((knot) => knot > f)) =>
  method === "sigmoid" ? 1 / (1 + Math.exp(a * f + b)) : i < 0 ? y.at(-1) : i === 0 ? y[0]
    : y[i - 1] + ((f - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);

/** Return a message that is what the alias names and scores its own probes as it says, or throw. */
function checked(record, alias) {
  const found = sha256(record.value);
  if (found !== alias.sha256 || found !== record.headers["streamsvm.sha256"].toString())
    throw new Error(`the SHA-256 is ${found}, not ${alias.sha256}`);
  const signed = Buffer.from(`streamsvm.model.signature/1\n${name}@${alias.number}\n${found}\n`);
  const signature = Buffer.from(record.headers["streamsvm.signature"]?.toString() ?? "", "base64");
  if (keys && !keys.some((key) => verify(null, signed, key, signature)))
    throw new Error("it is signed by none of the trusted keys");
  const message = JSON.parse(record.value);
  if (!["streamsvm.model/4", "streamsvm.model/5", "streamsvm.model/6"].includes(message.format) || message.name !== name || message.version !== alias.number)
    throw new Error(`${message.format} ${message.name}@${message.version} is not what was asked for`);
  if (message.recipe) checkExamples(message);
  const { x, decision, tolerance, probability } = message.probes, decide = machine(message);
  x.forEach((probe, i) => {
    const likelihood = probability ? likely(message.probability, decision[i]) - probability[i] : 0;
    if (!(Math.abs(decide(probe) - decision[i]) <= tolerance[i] && Math.abs(likelihood) <= 1e-9))
      throw new Error(`probe ${i} is scored otherwise`);
  });
  return { message, decide };
}

if (bootstrap === "--check") {
  const message = read(models), decide = machine(message); // the file
  if (message.recipe) checkExamples(message);
  for (const x of read(name)) {
    try {
      const decision = decide(x);
      console.log(JSON.stringify({ decision, label: labelOf(message, decision) }));
    } catch (error) {
      console.log(JSON.stringify({ error: error.message }));
    }
  }
  process.exit(0);
}

const points = read(pointsFile);

/** Return what a function makes of each point; null where it is rejected. */
const each = (decide) => points.map((x) => {
  try {
    return decide(x);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
});

/** Score the points that are not rejected by the ONNX graph. */
async function byOnnx(graph, message) {
  const session = await ort.InferenceSession.create(graph);
  const rows = each(columnsBy(message)).filter((row) => row !== null);
  const input = new ort.Tensor("float64", Float64Array.from(rows.flat()), [rows.length, message.features.dimension]);
  const output = await session.run({ [session.inputNames[0]]: input }, ["decision_function"]);
  return Array.from(output.decision_function.data);
}

const named = {}; // alias or pin, by key
const graphs = new Map(); // ONNX by the SHA-256 of the version's JSON
let wanted = null, serving = "", models_;
async function serve(record) {
  const alias = wanted, { message, decide } = checked(record, alias);
  if (alias.sha256 === serving) return;
  serving = alias.sha256;
  while (!graphs.has(serving)) await setTimeout(20); // of the same transaction, on another topic
  const onnx = await byOnnx(graphs.get(serving), message);
  console.log(JSON.stringify({ version: message.version, sha256: serving, decision: each(decide), onnx }));
}

/** Read partition 0 of a topic, in a group of no meaning since this client knows none without. */
async function follow(topic, eachMessage) {
  const consumer = kafka.consumer({ groupId: `interop-${randomUUID()}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ autoCommit: false, eachMessage: ({ message }) => eachMessage(message) });
  return consumer;
}

await follow(`${models}.onnx`, async ({ headers, value }) => {
  if (sha256(value) === headers["streamsvm.sha256"].toString()) graphs.set(headers["streamsvm.model.sha256"].toString(), value);
});
models_ = await follow(models, async (record) => {
  if (wanted !== null && Number(record.offset) === wanted.offset)
    await serve(record).catch((error) => console.error(`refused ${name}@${wanted.number}: ${error.message}`));
});
await follow(`${models}.aliases`, async ({ key, value }) => {
  named[key.toString()] = value && JSON.parse(value);
  wanted = named[`${name}@current#pin`] ?? named[`${name}@current`] ?? null;
  if (wanted !== null && wanted.sha256 !== serving) models_.seek({ topic: models, partition: 0, offset: `${wanted.offset}` });
});
