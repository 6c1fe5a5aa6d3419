// A version as a model: it scores points and raw events, and says why.
import { createHash } from "node:crypto";
import { types } from "node:util";
import { InvalidFeatures, attempt, must, opened } from "./message.mjs";
import { checkedColumns } from "./recipe.mjs";
import { asInJson, fieldOf, kindOf, quoted, textOf } from "./values.mjs";

const LEAST = 1e-9, PROBABILITY_TOLERANCE = 1e-8;
/** A tolerance is so much of the size of a machine's terms, rounded; expanding a squared distance counts more. */
const LARGEST_TOLERANCE = 1.02e-9, EXPANSION = 1e-5;

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** Return the numbers of so many bits that a field of the model has in base64, little-endian, as an array of float64. */
function floats(model, field, bits) {
  const { buffer } = new Uint8Array(Buffer.from(`${model[field]}`, "base64"));
  must(buffer.byteLength % (bits / 8) === 0, `model.${field} has ${buffer.byteLength} bytes, which are not numbers of ${bits} bits`);
  return bits === 32 ? Float64Array.from(new Float32Array(buffer)) : new Float64Array(buffer);
}

/** Return s support vectors that are places on the grids of columns: the value at a place is low + place * step. */
function unpacked(text, columns, s) {
  const bytes = Buffer.from(`${text}`, "base64"), each = Math.ceil(columns.reduce((sum, [, , bits]) => sum + bits, 0) / 8);
  must(bytes.length === s * each, `model.support_vectors has ${bytes.length} bytes for ${s} vectors of ${each}`);
  must(s * columns.length <= 2 ** 26, "model.support_vectors has too many entries");
  const support = new Float64Array(s * columns.length);
  for (let i = 0, k = 0; i < s; i++) {
    let bit = 8 * i * each;
    for (const [low, step, bits] of columns) {
      let place = 0;
      for (let at = 0; at < bits; at++, bit++) place |= ((bytes[bit >> 3] >> (bit & 7)) & 1) << at;
      support[k++] = low + place * step;
    }
  }
  return support;
}

/** Return the pairs of K labels that machines of one against one are of. */
const pairsOf = (K) => Array.from({ length: K }, (_, i) => Array.from({ length: K - 1 - i }, (_, j) => [i, i + 1 + j])).flat();

/** Return where a value lies among knots: the index of the last one not beyond it, and how far it is towards the next. */
function placed(value, knots) {
  const inside = Math.min(Math.max(value, knots[0]), knots.at(-1));
  let i = 0;
  while (i < knots.length - 2 && inside >= knots[i + 1]) i++;
  return [i, (inside - knots[i]) / (knots[i + 1] - knots[i])];
}

const between = (values, [i, share]) => values[i] * (1 - share) + values[i + 1] * share;

/** Return what each curve, then each surface, of an additive machine adds at scaled features. */
const readings = ({ curves, surfaces }, z) => [
  ...curves.map(({ knots, values }, j) => (knots.length ? between(values, placed(z[j], knots)) : 0)),
  ...surfaces.map(({ features: [a, b], rows, columns, values }) => {
    const [i, share] = placed(z[a], rows), column = placed(z[b], columns);
    return between([between(values[i], column), between(values[i + 1], column)], [0, share]);
  }),
];

/** Return scaled features. */
const scaledBy = ({ mean, scale }, x) => x.map((value, j) => (value - mean[j]) / scale[j]);

/** Return what is summed to the decision value of the first machine, which is no kernel's: a term for each column, then for each surface. */
const termsOf = ({ features, model, parts: { additive } }, x) =>
  additive ? readings(additive.machines[0], scaledBy(features, x)) : scaledBy(features, x).map((value, j) => value * model.coefficients[0][j]);

/** Return a function from columns to a value for each machine, or where it is asked to, to the size of the terms of each. */
function machinesOf(message) {
  const { features, model, parts: { additive, packed } } = message;
  const { intercepts, gamma } = model, scaled = (x) => scaledBy(features, x);
  const sums = (terms, weights, size) => intercepts.map((intercept, k) => size
    ? terms.reduce((total, term, i) => total + Math.abs(term * weights[k][i]) * size, Math.abs(intercept))
    : terms.reduce((total, term, i) => total + term * weights[k][i], intercept));
  if (model.kernel === "linear") return (x, sized = false) => sums(scaled(x), model.coefficients, sized ? 1 : 0);
  if (additive) {
    const size = (term, sized) => (sized ? Math.abs(term) : term);
    return (x, sized = false) => {
      const z = scaled(x);
      return additive.machines.map((one, k) => readings(one, z).reduce((total, term) => total + size(term, sized), size(intercepts[k], sized)));
    };
  }
  const d = features.dimension, dual = floats(model, "dual_coefficients", packed ? 32 : 64);
  const support = packed ? unpacked(model.support_vectors, packed.columns, dual.length) : floats(model, "support_vectors", 64), s = support.length / d;
  must(Number.isInteger(s) && dual.length === s * intercepts.length, "model.support_vectors do not fit model.dual_coefficients");
  const vectors = Array.from({ length: s }, (_, i) => support.subarray(i * d, (i + 1) * d));
  const weights = intercepts.map((_, k) => dual.subarray(k * s, (k + 1) * s));
  const norm = (z) => z.reduce((total, value) => total + value * value, 0), longest = vectors.reduce((most, one) => Math.max(most, norm(one)), 0);
  return (x, sized = false) => {
    const z = scaled(x), kernels = vectors.map((one) => {
      let distance = 0;
      for (let j = 0; j < d; j++) distance += (z[j] - one[j]) ** 2;
      return Math.exp(-gamma * distance);
    });
    return sums(kernels, weights, sized ? 1 + EXPANSION * gamma * (norm(z) + longest) : 0);
  };
}

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

/** Return the probability of each label, or of the second of two, at the decision values of the machines. */
function probabilities({ parts: { probability, classes }, labels }, f) {
  let each = probability.functions.map(({ a, b }, m) => 1 / (1 + Math.exp(a * f[m] + b)));
  if (!classes) return each;
  if (classes.scheme === "one_vs_one") {
    const inverse = labels.map(() => 2 - labels.length);
    pairsOf(labels.length).forEach(([i, j], m) => {
      const r = Math.min(Math.max(each[m], LEAST), 1 - LEAST);
      inverse[j] += 1 / r;
      inverse[i] += 1 / (1 - r);
    });
    each = inverse.map((sum) => 1 / sum);
  }
  const total = each.reduce((sum, p) => sum + p, 0);
  return each.map((p) => (total > 0 ? p / total : 1 / each.length));
}

/** Refuse a version whose probes get other decision values or probabilities here. */
function checkProbes(message, machines) {
  const { x, decision, tolerance } = message.probes, { probability } = message.parts;
  x.forEach((probe, i) => {
    const shares = probability ? probabilities(message, decision[i]) : [];
    must(machines(probe).every((f, k) => Math.abs(f - decision[i][k]) <= tolerance[i][k]), `probe ${i} is scored otherwise`);
    must(machines(probe, true).every((size, k) => tolerance[i][k] <= LARGEST_TOLERANCE * size), `probe ${i} has a tolerance that is too large`);
    must(shares.every((p, k) => Math.abs(p - probability.probes[i][k]) <= PROBABILITY_TOLERANCE), `probe ${i} has another probability in the part 'probability'`);
  });
}

export class Model {
  #message; #machines; #recipe; #fields;

  constructor(message, digest) {
    this.#message = message;
    this.#machines = machinesOf(message);
    checkProbes(message, this.#machines);
    const { name, version, labels, features: { names, dimension }, parts: { recipe } } = message;
    this.#recipe = recipe && checkedColumns(recipe, message.features);
    this.#fields = this.#recipe?.fields ?? Array.from({ length: dimension }, (_, j) => names[j] ?? `x[${j}]`);
    const fields = this.#recipe?.needs ?? this.#fields.map((path) => ({ path, kind: "number", required: true }));
    Object.freeze(Object.assign(this, { name, version, sha256: digest, labels, featureNames: names, takesEvents: Boolean(recipe), fields }));
  }

  static read(value) {
    return new Model(opened(attempt(() => JSON.parse(value), "the value is not JSON")), sha256(value));
  }

  score(point) {
    const message = this.#message, values = this.#machines(this.columns(point)), score = labelValues(message, values);
    const { labels, parts: { threshold, probability } } = message, several = Array.isArray(score);
    if ([score].flat().some(Number.isNaN)) throw new InvalidFeatures("it has no score, because a feature is too large");
    const label = several ? labels[score.indexOf(Math.max(...score))] : labels[score > (threshold?.value ?? 0) ? 1 : 0];
    if (!probability) return { score, label };
    const shares = probabilities(message, values);
    return { score, label, probability: several ? shares : shares[0] };
  }

  reasons(point, most) {
    const message = this.#message, { model, parts: { additive } } = message;
    if (model.kernel === "rbf" || model.intercepts.length !== 1)
      throw new TypeError("reasons are of linear and additive versions of two labels; for a kernel ask how much each field matters by permutation");
    const surfaces = (additive?.machines[0].surfaces ?? []).map(({ features: [a, b] }) => `${this.#fields[a]} & ${this.#fields[b]}`);
    const fields = [...this.#fields, ...surfaces], adds = new Map(fields.map((field) => [field, 0]));
    termsOf(message, this.columns(point)).forEach((term, j) => adds.set(fields[j], adds.get(fields[j]) + term));
    const sorted = [...adds].map(([field, adds]) => ({ field, adds })).sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
    const rest = sorted.splice(most).reduce((sum, { adds }) => sum + adds, 0);
    return { baseline: model.intercepts[0], fields: sorted.filter(({ adds }) => adds !== 0), rest };
  }

  columns(point) {
    const isEvent = this.#recipe && typeof point === "object" && point !== null && kindOf(point) !== "an array";
    return isEvent ? this.#recipe(point) : ordered(point, this.#message.features);
  }
}

const listed = (names) => names.slice(0, 5).map((one) => quoted(String(one))).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");

/** Return a point's features in the model's order, given as an array or as an object of names; or throw. */
function ordered(x, { names, dimension }) {
  if (typeof x === "object" && x !== null && kindOf(x) === "an object") {
    if (!names.length) throw new InvalidFeatures("the version has no feature names, so a name cannot be matched to its features");
    const found = names.map((one) => fieldOf(x, one)), missing = names.filter((_, j) => found[j] === undefined);
    const unknown = [...(types.isMap(x) ? x.keys() : Object.keys(x))].filter((one) => !names.includes(one));
    const faults = Object.entries({ missing, unknown }).filter(([, which]) => which.length).map(([what, which]) => `${what} ${listed(which)}`);
    const isOfClass = !types.isMap(x) && (x.constructor ?? Object) !== Object;
    if (faults.length && (missing.length || !isOfClass)) // an object of a class may have more
      throw new InvalidFeatures(`the names do not match the version's ${dimension} features: ${faults.join("; ")}`);
    x = found;
  }
  const isArray = typeof x === "object" && x !== null && kindOf(x) === "an array";
  if (!isArray || x.length !== dimension) throw new InvalidFeatures(`${dimension} features expected, ${isArray ? x.length : "no array"} given`);
  return Array.from(x, (given, j) => {
    const value = asInJson(given), where = names.length ? quoted(names[j]) : `x[${j}]`;
    if (Number.isFinite(value)) return value; // text and null are not, either
    throw new InvalidFeatures(typeof value === "number" ? `${where} is ${textOf(value)}; a feature must be a finite number` : `${where} is ${textOf(value)}, not a number`);
  });
}
