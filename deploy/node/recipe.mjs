// What a version's recipe makes of raw events: the part `recipe` of a message.
import { createHash } from "node:crypto";
import { RefusedMessage, must } from "./message.mjs";
import { follow, kindOf, quoted, rejected, shown, textOf } from "./values.mjs";

const DAY = 86_400n, MICROS = 1_000_000n, MINUTES = 1440n;
const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n), floorMod = (a, b) => ((a % b) + b) % b;
/** Most bits of a hash, as in Python: a message may name any number, and each column is made for an event. */
const MOST_BITS = 10;
const LARGEST = 1e100;

const wrong = (path, value, wanted) => rejected(`${shown(path)} is ${textOf(value)}, not ${wanted}`);

/** Return a value that is a number, and not too large. */
function numberOf(value, path, wanted = "a number") {
  if (typeof value !== "number") wrong(path, value, wanted);
  return Math.abs(value) <= LARGEST ? value : rejected(`${shown(path)} is ${textOf(value)}, beyond what can be learned`);
}

const SPACE = "[ \\t\u00a0\u2009\u202f]*", SIGN = "[+\\-\u2212]";
const escaped = (text) => text.replace(/[^A-Za-z0-9]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Return a function from a value to the number that it writes by a feature's option parse; NaN if it writes none. */
function notation({ parse, decimal = ".", thousands = "", currency = "" }) {
  if (parse === "text") {
    const group = { " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]" }[thousands] ?? escaped(thousands);
    const figures = thousands ? `[0-9]+|[0-9]{1,3}(?:${group}[0-9]{3})+` : "[0-9]+", mark = currency ? escaped(currency) : "(?!)";
    const form = new RegExp(`^${SPACE}(?:(${SIGN})${SPACE})?(?:(${mark})${SPACE})?(?:(${SIGN})${SPACE})?(${figures})?`
      + `(?:${escaped(decimal)}([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?(?:${SPACE}(%))?(?:${SPACE}(${mark}))?${SPACE}$`);
    return (value) => {
      const found = typeof value === "string" && value.length <= 64 ? form.exec(value) : null;
      if (!found) return NaN;
      const [, before, first, behind, whole, fraction, exponent, percent, last] = found;
      if (!(whole || fraction) || (before && behind) || (first && last) || (percent && (exponent || first || last))) return NaN;
      const sign = (before ?? behind ?? "+") === "+" ? "" : "-";
      return Number(`${sign}${(whole ?? "0").replace(/[^0-9]/g, "")}.${fraction ?? 0}e${percent ? -2 : exponent ?? 0}`);
    };
  }
  return () => NaN;
}

/** Say what a value of a number has to be. */
function wantedBy({ parse, decimal = ".", thousands = "", currency = "" }) {
  if (parse !== "text") return "a number";
  const group = thousands ? `the thousands separator ${quoted(thousands)}` : "no thousands separator";
  return `a number, or a text that writes one with the decimal separator ${quoted(decimal)}, ${group} and ${currency ? `the currency ${quoted(currency)}` : "no currency"}`;
}

/** Return the text by which a category or a hash compares a value. */
function text(value, path) {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  if (!Number.isInteger(value)) wrong(path, value, "text, an integer or a boolean");
  return Number.isSafeInteger(value) ? String(BigInt(value)) : wrong(path, value, "an integer of at most 53 bits: send such an identifier as text");
}

/** Return a zone's offset from UTC, in seconds, at a time in seconds. */
const offset = (table, seconds) => BigInt((table.findLast(([since]) => BigInt(since) <= seconds) ?? table[0])[1]);

const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(?:(Z)|([+-])([01]\d|2[0-3]):?([0-5]\d))?)?$/;

/** Return a time in microseconds since the epoch. */
function micros(value, path, format = "iso8601", table) {
  const isInRange = (at) => at >= -62_135_596_800n * MICROS && at < 253_402_300_800n * MICROS;
  if (format !== "iso8601") {
    const at = BigInt(Math.floor(numberOf(value, path) * { s: 1e6, ms: 1e3, us: 1 }[format]));
    return isInRange(at) ? at : rejected(`${shown(path)} is ${textOf(value)}, beyond what can be learned`);
  }
  const notTime = () => wrong(path, value, "a time such as 2026-01-31T12:00:00Z");
  const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = "", utc, sign, hours, minutes] = (typeof value === "string" && ISO.exec(value)) || notTime();
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (year === "0000" || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== +day) notTime();
  let seconds = BigInt(date.getTime()) / 1000n + BigInt(hour) * 3600n + BigInt(minute) * 60n + BigInt(second);
  if (sign) seconds -= BigInt(`${sign === "-" ? "-" : ""}${Number(hours) * 3600 + Number(minutes) * 60}`);
  else if (!utc) seconds -= offset(table, seconds - offset(table, seconds));
  const at = seconds * MICROS + BigInt(fraction.slice(0, 6).padEnd(6, "0"));
  return !sign || isInRange(at) ? at : notTime();
}

const wave = (k, n) => [Math.sin((2 * Math.PI * k) / n), Math.cos((2 * Math.PI * k) / n)];
const PARTS = {
  hour: (local) => wave(Number(floorMod(floorDiv(local, 60n), MINUTES)), 1440),
  weekday: (local) => wave(Number(floorMod(floorDiv(local, DAY) + 3n, 7n)), 7),
  month: (local) => wave(new Date(Number(local) * 1000).getUTCMonth(), 12),
};

/** How many columns a feature of a field has, and what its values become. */
const KINDS = {
  number: ({ field, clip, unit = 1, log1p = false, buckets = [], ...written }, _, read = notation(written)) => [buckets.length + 1, ([value]) => {
    const made = typeof value === "number" ? value : read(value), v = numberOf(Number.isNaN(made) ? value : made, field, wantedBy(written));
    const x = (clip ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
    if (buckets.length) return oneOf(buckets.length + 1, buckets.filter((border) => x >= border).length);
    return [log1p ? Math.sign(x) * Math.log1p(Math.abs(x)) : x];
  }],
  category: ({ field, values }) => [values.length + 1, ([v]) => {
    const at = values.indexOf(text(v, field));
    return oneOf(values.length + 1, at < 0 ? values.length : at);
  }],
  hash: ({ field, bits, seed = 0 }) => {
    must(Number.isInteger(bits) && bits >= 1 && bits <= MOST_BITS, `the part 'recipe' hashes into 2^${bits} columns`);
    return [2 ** bits, ([v]) => {
      const digest = createHash("sha256").update(`${seed}:${text(v, field)}`).digest();
      return oneOf(2 ** bits, digest.readUInt32BE(0) % 2 ** bits, digest[4] % 2 ? -1 : 1);
    }];
  },
  flag: ({ field }) => [1, ([v]) => ([true, false, 1, 0].includes(v) ? [Number(v)] : wrong(field, v, "true or false"))],
  time: ({ field, since, parts, format, zone = "UTC" }, zones) => {
    const table = zone === "UTC" ? [[0, 0]] : zones[zone];
    return [parts.reduce((sum, part) => sum + (part === "age" ? 1 : 2), 0), ([v, begun]) => {
      const at = micros(v, field, format, table), seconds = floorDiv(at, MICROS), local = seconds + offset(table, seconds);
      return parts.flatMap((part) => (part === "age" ? [Number(at - micros(begun, since, format, table)) / 86_400e6] : PARTS[part](local)));
    }];
  },
};
const oneOf = (width, at, value = 1) => Object.assign(Array(width).fill(0), { [at]: value });

/** Return a function from an event to its columns, as an array; it throws where the recipe rejects the event. */
export function columnsOf({ features, zones = {} }) {
  const widths = {}; // how many columns each feature has
  const compiled = features.map((feature) => {
    widths[feature.name] = feature.as === "cross" ? feature.of.reduce((product, one) => product * widths[one], 1) : 0;
    if (feature.as === "cross")
      return (event, made) => made[feature.of[0]].flatMap((x) => made[feature.of[1]].map((z) => x * z));
    const { missing = "reject", field, since } = feature, [width, evaluate] = KINDS[feature.as](feature, zones);
    widths[feature.name] = width + (missing === "indicator" ? 1 : 0);
    return (event) => {
      const paths = since ? [field, since] : [field];
      let values = paths.map((path) => follow(event, path));
      const gone = values.includes(undefined);
      if (gone && missing === "reject") rejected(`${shown(paths[values.indexOf(undefined)])} is missing`);
      if (gone && missing.constant !== undefined) values = [missing.constant];
      const harmless = gone && missing === "indicator";
      if (harmless && feature.as === "time") // the field that is there must still be a time
        values.forEach((value, i) => value === undefined || micros(value, paths[i], feature.format, [[0, 0]]));
      const own = harmless ? Array(width).fill(0) : evaluate(values);
      return missing === "indicator" ? [...own, Number(gone)] : own;
    };
  });
  const named = {}; // the field of each feature, or both of a cross
  for (const { name, of, field } of features) named[name] = of ? of.map((one) => named[one]).join(" x ") : shown(field);
  const columns = (event) => {
    if (kindOf(event) !== "an object") rejected(`the event is ${kindOf(event)}, not an object`);
    const made = {};
    features.forEach(({ name }, i) => (made[name] = compiled[i](event, made)));
    return features.flatMap(({ name }) => made[name]);
  };
  columns.fields = features.flatMap(({ name }) => Array(widths[name]).fill(named[name])); // of each column
  const needs = new Map(); // what events need, by path and kind
  for (const { as: kind, field, since, missing = "reject" } of features)
    for (const path of kind === "cross" ? [] : since ? [field, since] : [field]) {
      const one = { path: shown(path), kind, required: missing === "reject" }, key = `${kind} ${one.path}`;
      needs.set(key, { ...one, required: one.required || Boolean(needs.get(key)?.required) });
    }
  columns.needs = [...needs.values()];
  return columns;
}

/** Return `columnsOf` the part `recipe`, which makes the columns of its own examples as the message has them; or refuse. */
export function checkedColumns({ recipe, examples }, { names }) {
  try {
    const columns = columnsOf(recipe);
    examples.forEach(({ event, columns: given }, i) => {
      const made = columns(event);
      must(made.length === names.length, `the part 'recipe' makes ${made.length} columns of ${names.length} features`);
      made.forEach((value, j) => {
        const expected = given[names[j]] ?? 0, close = Math.abs(value - expected) <= 1e-12 * Math.max(1, Math.abs(expected));
        must(close, `the part 'recipe', example ${i}: ${names[j]} is ${value} here, ${expected} in the message`);
      });
    });
    return columns;
  } catch (error) { // its features are of any shape
    throw error instanceof RefusedMessage ? error : new RefusedMessage(`the part 'recipe' cannot be evaluated: ${error.message}`);
  }
}
