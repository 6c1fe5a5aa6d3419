// The value of a version's record in Node.js: a fixed trunk and named parts, as deploy/FORMATS.md says.
import { isDeepStrictEqual } from "node:util";

const FORMAT = "streamsvm.model/1", MOST_EXAMPLES = 4;
const MACHINES = { one_vs_one: (labels) => (labels * (labels - 1)) / 2, one_vs_rest: (labels) => labels };
const MODEL = {
  additive: ["kernel", "intercepts"],
  linear: ["kernel", "coefficients", "intercepts"],
  rbf: ["kernel", "gamma", "support_vectors", "dual_coefficients", "intercepts"],
};
const TRUNK = ["format", "name", "version", "labels", "features", "model", "training", "stream", "lineage", "probes", "parts"];
/** The fields of each part that an answer depends on. */
const PARTS = {
  additive: ["part", "machines"],
  classes: ["part", "scheme", "machines"],
  packed: ["part", "columns", "support_vectors", "whole_error", "error"],
  probability: ["part", "functions", "probes"],
  recipe: ["part", "recipe", "examples"],
  threshold: ["part", "value", "figure", "asked", "chosen", "met", "points", "positives", "precision", "recall", "alarm_rate", "cost"],
};

export class RefusedMessage extends Error {
  name = "RefusedMessage";
}

export class InvalidFeatures extends RangeError {
  name = "InvalidFeatures";
}

/** Throw a refusal unless something holds. */
export function must(holds, otherwise) {
  if (!holds) throw new RefusedMessage(otherwise);
}

/** Return what a function makes; what it throws is a refusal. */
export function attempt(make, otherwise) {
  try {
    return make();
  } catch (error) {
    throw error instanceof RefusedMessage ? error : new RefusedMessage(`${otherwise}: ${error.message}`);
  }
}

/** Refuse what is not an object of exactly these fields. */
function exactly(value, fields, what) {
  must(typeof value === "object" && value !== null && !Array.isArray(value), `${what} is not an object`);
  const missing = fields.filter((one) => !Object.hasOwn(value, one)), unknown = Object.keys(value).filter((one) => !fields.includes(one));
  must(!missing.length, `${what} lacks the field ${missing}`);
  must(!unknown.length, `${what} has the unknown field ${unknown}`);
}

const isList = (values, length) => Array.isArray(values) && values.length === length && values.every(Number.isFinite);
const isTable = (rows, count, width) => Array.isArray(rows) && rows.length === count && rows.every((row) => isList(row, width));

/** Return the parts of a message that answers depend on, by their names. */
function partsOf(message) {
  const found = {}, wrote = message.lineage?.build?.streamsvm;
  const remedy = wrote ? `. Upgrade the reader to streamsvm ${wrote}, which wrote it, or later` : "";
  let before = "";
  for (const part of message.parts) {
    const name = part?.part;
    must(typeof name === "string" && name, "an entry of `parts` has no name");
    must(name !== before, `the part '${name}' is there twice`);
    must(name > before, `the part '${name}' stands after '${before}': parts are in ascending order of their names`);
    before = name;
    if (Object.hasOwn(PARTS, name)) {
      exactly(part, PARTS[name], `the part '${name}'`);
      found[name] = part;
    } else must(name.startsWith("info_"), `it has the part '${name}', which this reader does not know${remedy}`);
  }
  return found;
}

/** Return a message with its parts, by their names, in the place of the list; every shape that a score needs is checked. */
export function opened(message) {
  must(message?.format === FORMAT, `the format is ${message?.format}, and this reader knows ${FORMAT}`);
  must(Array.isArray(message.parts), "the message has no list `parts`");
  exactly(message, TRUNK, "the message");
  const found = partsOf(message), { features, labels, model, probes } = message;
  const machines = machinesOf(labels, found);
  must(Number.isSafeInteger(message.version) && message.version > 0, `there is no version ${message.version}`);
  exactly(features, ["dimension", "names", "mean", "scale"], "features");
  must(Object.hasOwn(MODEL, model?.kernel), `model has the unknown kernel ${model?.kernel}`);
  exactly(model, MODEL[model.kernel], "model");
  exactly(probes, ["x", "decision", "tolerance"], "probes");
  const { dimension } = features, count = probes.x?.length;
  must(Array.isArray(features.names) && [0, dimension].includes(features.names.length), `features.names are not those of ${dimension} features`);
  must(isList(features.mean, dimension) && isList(features.scale, dimension), "features do not fit their dimension");
  must(isList(model.intercepts, machines), `model.intercepts are not those of ${machines} machines`);
  must(model.kernel !== "linear" || isTable(model.coefficients, machines, dimension), "model.coefficients do not fit");
  must(count > 0 && isTable(probes.x, count, dimension), "there are no probes of these features");
  must(isTable(probes.decision, count, machines) && isTable(probes.tolerance, count, machines), "probes do not fit the machines");
  checkParts(found, message, machines);
  return { ...message, parts: found };
}

/** Return the number of machines of a message. */
function machinesOf(labels, { classes }) {
  must(Array.isArray(labels) && labels.length > 1, "there are no two labels");
  must(new Set(labels).size === labels.length && new Set(labels.map((one) => typeof one)).size === 1, "labels mixes types, or holds the same label twice");
  if (!classes) {
    must(labels.length === 2, `there are ${labels.length} labels, but the part 'classes' is missing`);
    return 1;
  }
  const { scheme, machines } = classes, count = Object.hasOwn(MACHINES, scheme) ? MACHINES[scheme](labels.length) : -1;
  must(labels.length > 2, "the part 'classes' is for more than two labels");
  must(Array.isArray(machines) && machines.length === count, `the part 'classes' has not the machines of ${labels.length} labels`);
  return count;
}

/** Refuse parts whose content cannot be used with the trunk. */
function checkParts({ additive, classes, packed, probability, recipe, threshold }, { features, labels, lineage, model, probes }, machines) {
  must(Boolean(additive) === (model.kernel === "additive"), "the part 'additive' and the kernel 'additive' belong together");
  if (additive) {
    must(Array.isArray(additive.machines) && additive.machines.length === machines, `the part 'additive' has not ${machines} machines`);
    for (const one of additive.machines) checkAdditive(one, features.dimension);
  }
  must(!packed || (!classes && model.kernel === "rbf"), "the part 'packed' is for rbf machines of two labels");
  must(!packed || (isTable(packed.columns, features.dimension, 3) && packed.columns.every(([, step, bits]) => step > 0 && Number.isInteger(bits) && bits >= 0 && bits <= 16)),
    "the part 'packed' has no columns of these features");
  must(!threshold || (!classes && Number.isFinite(threshold.value)), "the part 'threshold' has no number for two labels");
  must(!recipe || (Array.isArray(recipe.recipe?.features) && Array.isArray(recipe.examples)), "the part 'recipe' has no features or no list of examples");
  must(!recipe || recipe.examples.length <= MOST_EXAMPLES, `the part 'recipe' has more than ${MOST_EXAMPLES} examples`);
  const label = recipe?.recipe.label;
  must(!label || isDeepStrictEqual(label.labels ?? [label.negative?.[0], label.positive?.[0]], labels), "the labels of the part 'recipe' are not the version's");
  must(!recipe || isDeepStrictEqual(recipe.recipe, lineage?.configuration?.features), "the part 'recipe' is not the one in lineage.configuration");
  if (!probability) return;
  const { functions, probes: given } = probability;
  must(Array.isArray(functions) && functions.length === machines, "the part 'probability' has not a function for each machine");
  for (const one of functions) {
    must(one?.method === "sigmoid", `a function of the part 'probability' has the unknown method ${one?.method}`);
    exactly(one, ["method", "a", "b"], "a function of the part 'probability'");
    must(isList([one.a, one.b], 2), "a function of the part 'probability' has no numbers");
  }
  must(isTable(given, probes.x.length, classes ? labels.length : 1), "the part 'probability' has not the probabilities of each probe");
}

/** Refuse curves and surfaces that do not fit the features, or whose values do not fit their knots. */
function checkAdditive(machine, dimension) {
  exactly(machine, ["curves", "surfaces"], "a machine of the part 'additive'");
  const { curves, surfaces } = machine;
  const isAscending = (knots) => Array.isArray(knots) && knots.length > 1 && isList(knots, knots.length) && knots.every((one, i) => !i || one > knots[i - 1]);
  must(Array.isArray(curves) && curves.length === dimension && Array.isArray(surfaces), `the part 'additive' has not the curves of ${dimension} features`);
  for (const one of curves) {
    exactly(one, ["knots", "values"], "a curve of the part 'additive'");
    must(isList(one.knots, 0) || isAscending(one.knots), "knots of the part 'additive' are not two or more in ascending order");
    must(isList(one.values, one.knots.length), "a curve of the part 'additive' has not a value for each knot");
  }
  for (const one of surfaces) {
    exactly(one, ["features", "rows", "columns", "values"], "a surface of the part 'additive'");
    must(isAscending(one.rows) && isAscending(one.columns), "knots of the part 'additive' are not two or more in ascending order");
    must(isList(one.features, 2) && one.features.every((j) => Number.isInteger(j) && j >= 0 && j < dimension) && isTable(one.values, one.rows.length, one.columns.length),
      "a surface of the part 'additive' does not fit its features or its knots");
  }
}
