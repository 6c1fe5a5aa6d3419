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
// Of a version of more than two labels (format 7) each decision is an array, a value for each label.
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
/** Return the number of the 16 bits of a float16. */
const half = (bits, exponent = (bits >> 10) & 31, rest = bits & 1023) =>
  (bits >> 15 ? -1 : 1) * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -24 * rest);

/** Return numbers of so many bits in base64, little-endian, as an array of float64. */
const floats = (base64, bits = 64, { buffer } = new Uint8Array(Buffer.from(base64, "base64"))) =>
  bits === 16 ? Float64Array.from(new Uint16Array(buffer), (one) => half(one))
    : bits === 32 ? Float64Array.from(new Float32Array(buffer)) : new Float64Array(buffer);

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

/** Return the decision function of a message: a point or a raw event in, a number out, or an array, one for each label. */
function machine(message) {
  const { features: { mean, scale }, model } = message, columns = columnsBy(message), several = "intercepts" in model;
  const scaled = (x) => columns(x).map((value, j) => (value - mean[j]) / scale[j]);
  const intercepts = several ? model.intercepts : [model.intercept];
  const answer = (values) => (several ? values : values[0]);
  const sum = (terms, weights, k) => terms.reduce((total, term, i) => total + term * weights[i], intercepts[k]);
  if (model.kernel === "linear") {
    const coefficients = several ? model.coefficients : [model.coefficients];
    return (x) => {
      const z = scaled(x);
      return answer(intercepts.map((_, k) => sum(z, coefficients[k], k)));
    };
  }
  const [wide, narrow] = model.precision === "half" ? [32, 16] : [64, 64];
  const support = floats(model.support_vectors, narrow), dual = floats(model.dual_coefficients, wide), d = mean.length, s = support.length / d;
  return (x) => {
    const z = scaled(x), kernels = Array.from({ length: s }, (_, i) => {
      let distance = 0;
      for (let j = 0; j < d; j++) distance += (z[j] - support[i * d + j]) ** 2;
      return Math.exp(-model.gamma * distance);
    });
    return answer(intercepts.map((_, k) => sum(kernels, dual.subarray(k * s, (k + 1) * s), k)));
  };
}

/** Return the pairs of K labels that machines of one against one are of. */
const pairsOf = (K) => Array.from({ length: K }, (_, i) => Array.from({ length: K - 1 - i }, (_, j) => [i, i + 1 + j])).flat();

/** Return the decision values of the labels, by those of the machines; of two labels the one value. */
function labelValues({ scheme, labels }, values) {
  if (scheme !== "one_vs_one") return values;
  const votes = labels.map(() => 0), sums = labels.map(() => 0);
  pairsOf(labels.length).forEach(([i, j], m) => {
    votes[values[m] > 0 ? j : i] += 1;
    sums[j] += values[m];
    sums[i] -= values[m];
  });
  return votes.map((won, k) => won + sums[k] / (3 * Math.abs(sums[k]) + 3));
}

/** Return the label of a decision: the second one above the threshold, which format 5 brings; or that of the greatest. */
const labelOf = ({ labels, threshold }, f) =>
  Array.isArray(f) ? labels[f.indexOf(Math.max(...f))] : labels[f > (threshold?.value ?? 0) ? 1 : 0];

/** Return the probability of the second label at a decision value f; i is the first knot beyond it. */
const likely = ({ method, a, b, x, y }, f, i = x?.findIndex((knot) => knot > f)) =>
  method === "sigmoid" ? 1 / (1 + Math.exp(a * f + b)) : i < 0 ? y.at(-1) : i === 0 ? y[0]
    : y[i - 1] + ((f - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);

/** Return the probability of each label, or of the second of two, at a decision. */
function probabilities({ probability, scheme, labels }, f) {
  if (!Array.isArray(f)) return [likely(probability, f)];
  let each = probability.map((one, m) => likely(one, f[m]));
  if (scheme === "one_vs_one") {
    const inverse = labels.map(() => 2 - labels.length);
    pairsOf(labels.length).forEach(([i, j], m) => {
      const r = Math.min(Math.max(each[m], 1e-9), 1 - 1e-9);
      inverse[j] += 1 / r;
      inverse[i] += 1 / (1 - r);
    });
    each = inverse.map((sum) => 1 / sum);
  }
  const total = each.reduce((sum, p) => sum + p, 0);
  return each.map((p) => (total > 0 ? p / total : 1 / each.length));
}

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
  if (!["streamsvm.model/4", "streamsvm.model/5", "streamsvm.model/6", "streamsvm.model/7", "streamsvm.model/8"].includes(message.format) || message.name !== name || message.version !== alias.number)
    throw new Error(`${message.format} ${message.name}@${message.version} is not what was asked for`);
  if (message.recipe) checkExamples(message);
  return { message, decide: probed(message) };
}

/** Return the decision function of a message that scores its own probes as it says, or throw. */
function probed(message) {
  const { x, decision, tolerance, probability } = message.probes, decide = machine(message);
  x.forEach((probe, i) => {
    const found = [decide(probe)].flat(), given = [decision[i]].flat(), allowed = [tolerance[i]].flat();
    const likelihoods = probability ? probabilities(message, decision[i]) : [];
    const sound = found.every((f, k) => Math.abs(f - given[k]) <= allowed[k]);
    if (!sound || !likelihoods.every((p, k) => Math.abs(p - [probability[i]].flat()[k]) <= 1e-8))
      throw new Error(`probe ${i} is scored otherwise`);
  });
  return (x) => labelValues(message, decide(x));
}

if (bootstrap === "--check") {
  const message = read(models), decide = probed(message); // the file
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
  const values = Array.from(output.decision_function.data), classes = output.decision_function.dims[1];
  return classes ? rows.map((_, i) => values.slice(i * classes, (i + 1) * classes)) : values;
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
