// A subscriber of the model topic in Node.js (kafkajs, ONNX Runtime): it follows `current`, or the pin if there is one,
// takes no version whose SHA-256, probes or signature are wrong, and prints one line of JSON for each that it serves.
//
//     node subscriber.mjs BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem]
// With public keys (Ed25519) it takes only versions that one of them signed.
// POINTS.json is an array of raw feature vectors, or of raw events where versions have recipes; each line has the decision
// value of each, from the JSON and from ONNX.
//
//     node subscriber.mjs --check POINTS.json MODEL.json...
// prints a line of JSON for each value of a version's record: what it makes of each point, which may be an object of names,
// too, or why nothing; or why the value is refused. Of more than two labels each decision is an array, a value for each.
import { createHash, createPublicKey, randomUUID, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { decompress } from "fzstd";
import kafkajs from "./committed.mjs";
import { checkedColumns } from "./features.mjs";
import { Refusal, must, opened } from "./message.mjs";
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

/** Return the numbers of so many bits that a field of the model has in base64, little-endian, as an array of float64. */
function floats(model, field, bits) {
  const { buffer } = new Uint8Array(Buffer.from(`${model[field]}`, "base64"));
  must(buffer.byteLength % (bits / 8) === 0, `model.${field} has ${buffer.byteLength} bytes, which are not numbers of ${bits} bits`);
  if (bits === 16) return Float64Array.from(new Uint16Array(buffer), (one) => half(one));
  return bits === 32 ? Float64Array.from(new Float32Array(buffer)) : new Float64Array(buffer);
}

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
function columnsBy({ features, parts: { recipe } }) {
  const columns = recipe && checkedColumns(recipe, features);
  return (x) => (columns && typeof x === "object" && x !== null && !Array.isArray(x) ? columns(x) : ordered(x, features));
}

/** Return the decision function of a message: a point or a raw event in, a value for each machine out. */
function machine(message) {
  const { features: { mean, scale }, model, parts } = message, { intercepts } = model, columns = columnsBy(message);
  const scaled = (x) => columns(x).map((value, j) => (value - mean[j]) / scale[j]);
  const sum = (terms, weights, k) => terms.reduce((total, term, i) => total + term * weights[i], intercepts[k]);
  if (model.kernel === "linear")
    return (x) => {
      const z = scaled(x);
      return intercepts.map((_, k) => sum(z, model.coefficients[k], k));
    };
  const [wide, narrow] = parts.half_precision ? [32, 16] : [64, 64];
  const support = floats(model, "support_vectors", narrow), dual = floats(model, "dual_coefficients", wide), d = mean.length, s = support.length / d;
  must(Number.isInteger(s) && dual.length === s * intercepts.length, "model.support_vectors do not fit model.dual_coefficients");
  return (x) => {
    const z = scaled(x), kernels = Array.from({ length: s }, (_, i) => {
      let distance = 0;
      for (let j = 0; j < d; j++) distance += (z[j] - support[i * d + j]) ** 2;
      return Math.exp(-model.gamma * distance);
    });
    return intercepts.map((_, k) => sum(kernels, dual.subarray(k * s, (k + 1) * s), k));
  };
}

/** Return the pairs of K labels that machines of one against one are of. */
const pairsOf = (K) => Array.from({ length: K }, (_, i) => Array.from({ length: K - 1 - i }, (_, j) => [i, i + 1 + j])).flat();

/** Return the decision values of the labels, by those of the machines; of two labels the one value, a number. */
function labelValues({ parts: { classes }, labels }, values) {
  if (!classes) return values[0];
  if (classes.scheme === "one_vs_rest") return values;
  const votes = labels.map(() => 0), sums = labels.map(() => 0);
  pairsOf(labels.length).forEach(([i, j], m) => {
    votes[values[m] > 0 ? j : i] += 1;
    sums[j] += values[m];
    sums[i] -= values[m];
  });
  return votes.map((won, k) => won + sums[k] / (3 * Math.abs(sums[k]) + 3));
}

/** Return the label of a decision: the second one above the threshold, where there is that part; or that of the greatest. */
const labelOf = ({ labels, parts: { threshold } }, f) =>
  Array.isArray(f) ? labels[f.indexOf(Math.max(...f))] : labels[f > (threshold?.value ?? 0) ? 1 : 0];

/** Return the probability of the second label at a decision value f; i is the first knot beyond it. */
const likely = ({ method, a, b, x, y }, f, i = x?.findIndex((knot) => knot > f)) =>
  method === "sigmoid" ? 1 / (1 + Math.exp(a * f + b)) : i < 0 ? y.at(-1) : i === 0 ? y[0]
    : y[i - 1] + ((f - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);

/** Return the probability of each label, or of the second of two, at the decision values of the machines. */
function probabilities({ parts: { probability, classes }, labels }, f) {
  let each = probability.functions.map((one, m) => likely(one, f[m]));
  if (!classes) return each;
  if (classes.scheme === "one_vs_one") {
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
  must(found === alias.sha256 && found === record.headers["streamsvm.sha256"].toString(), `the SHA-256 is ${found}, not ${alias.sha256}`);
  const signed = Buffer.from(`streamsvm.model.signature/1\n${name}@${alias.number}\n${found}\n`);
  const signature = Buffer.from(record.headers["streamsvm.signature"]?.toString() ?? "", "base64");
  must(!keys || keys.some((key) => verify(null, signed, key, signature)), "it is signed by none of the trusted keys");
  const message = opened(JSON.parse(record.value));
  must(message.name === name && message.version === alias.number, `${message.name}@${message.version} is not what was asked for`);
  return { message, decide: probed(message) };
}

/** Return the decision function of a message that scores its own probes as it says, or throw. */
function probed(message) {
  const { x, decision, tolerance } = message.probes, { probability } = message.parts, decide = machine(message);
  x.forEach((probe, i) => {
    const likelihoods = probability ? probabilities(message, decision[i]) : [];
    must(decide(probe).every((f, k) => Math.abs(f - decision[i][k]) <= tolerance[i][k]), `probe ${i} is scored otherwise`);
    must(likelihoods.every((p, k) => Math.abs(p - probability.probes[i][k]) <= 1e-8), `probe ${i} has another probability in the part 'probability'`);
  });
  return (x) => labelValues(message, decide(x));
}

/** Return what a message makes of each point, or why it is refused. */
function answersOf(file, points) {
  try {
    const message = opened(read(file)), decide = probed(message);
    return points.map((x) => {
      try {
        const decision = decide(x);
        return { decision, label: labelOf(message, decision) };
      } catch (error) {
        if (error instanceof RangeError) return { error: error.message };
        throw error;
      }
    });
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}

if (bootstrap === "--check") {
  const [pointsFile, ...files] = process.argv.slice(3), points = read(pointsFile);
  for (const file of files) console.log(JSON.stringify(answersOf(file, points)));
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
  const head = named[`${name}@head`]; // says of the newest version why it is not current
  if (wanted === null && head?.gate && key.toString() === `${name}@head`)
    console.error(`waiting for ${name}@current: version ${head.number} was held back, because ${head.gate.why}`);
  if (wanted !== null && wanted.sha256 !== serving) models_.seek({ topic: models, partition: 0, offset: `${wanted.offset}` });
});
