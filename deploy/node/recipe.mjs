// What a version's recipe makes of raw events: the part `recipe` of a message.
import { createHash } from "node:crypto";
import { attempt, must } from "./message.mjs";
import { follow, kindOf, quoted, rejected, shown, textOf } from "./values.mjs";

const DAY = 86_400n, MICROS = 1_000_000n, MINUTES = 1440n, LARGEST = 1e100;
const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n), floorMod = (a, b) => ((a % b) + b) % b;
/** Most bits of a hash, as in Python: a message may name any number, and each column is made for an event. */
const MOST_BITS = 10;

const wrong = (path, value, wanted) => rejected(`${shown(path)} is ${textOf(value)}, not ${wanted}`);

/** Return a value that is a number, and not too large. */
function numberOf(value, path, wanted = "a number") {
  if (typeof value !== "number") wrong(path, value, wanted);
  return Math.abs(value) <= LARGEST ? value : rejected(`${shown(path)} is ${textOf(value)}, beyond what can be learned`);
}

const SPACE = "[ \\t\u00a0\u2009\u202f]*", SIGN = "[+\\-\u2212]";
const escaped = (text) => text.replace(/[^A-Za-z0-9]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Return a function from a value to its number by a feature's option parse (if it writes none, the value), and what it has to be. */
function notation({ parse, decimal = ".", thousands = "", currency = "" }) {
  if (parse !== "text") return [(value) => value, "a number"];
  const group = { " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]" }[thousands] ?? escaped(thousands);
  const figures = thousands ? `[0-9]+|[0-9]{1,3}(?:${group}[0-9]{3})+` : "[0-9]+", mark = currency ? escaped(currency) : "(?!)";
  const form = new RegExp(`^${SPACE}(?:(${SIGN})${SPACE})?(?:(${mark})${SPACE})?(?:(${SIGN})${SPACE})?(${figures})?`
    + `(?:${escaped(decimal)}([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?(?:${SPACE}(%))?(?:${SPACE}(${mark}))?${SPACE}$`);
  const read = (value) => {
    const found = (typeof value === "string" && value.length <= 64 && form.exec(value)) || [];
    const [, before, first, behind, whole, fraction, exponent, percent, last] = found;
    if (!(whole || fraction) || (before && behind) || (first && last) || (percent && (exponent || first || last))) return value;
    const sign = (before ?? behind ?? "+") === "+" ? "" : "-";
    return Number(`${sign}${(whole ?? "0").replace(/[^0-9]/g, "")}.${fraction ?? 0}e${percent ? -2 : exponent ?? 0}`);
  };
  const grouped = thousands ? `the thousands separator ${quoted(thousands)}` : "no thousands separator";
  const priced = currency ? `the currency ${quoted(currency)}` : "no currency";
  return [read, `a number, or a text that writes one with the decimal separator ${quoted(decimal)}, ${grouped} and ${priced}`];
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
  const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = "", utc, sign, hours, minutes] = (typeof value === "string" && ISO.exec(value)) || notTime();
  const date = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (year === "0000" || !date.toJSON()?.startsWith(`${year}-${month}-${day}`)) notTime(); // there is no such day
  let seconds = BigInt(date.getTime()) / 1000n;
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
  number: ({ field, clip, unit = 1, log1p = false, buckets = [], ...written }) => {
    const [read, wanted] = notation(written), width = buckets.length + 1;
    return [width, ([value]) => {
      const v = numberOf(read(value), field, wanted), x = (clip ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
      if (buckets.length) return oneOf(width, buckets.filter((border) => x >= border).length);
      return [log1p ? Math.sign(x) * Math.log1p(Math.abs(x)) : x];
    }];
  },
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

/** Return what is known of a feature of a field: how many columns it has, what it needs, and a function from an event to them. */
function ofField({ missing = "reject", ...feature }, zones) {
  const { as: kind, field, since } = feature, [width, evaluate] = KINDS[kind](feature, zones);
  const paths = since ? [field, since] : [field], isMarked = missing === "indicator";
  const columns = (event) => {
    const values = paths.map((path) => follow(event, path)), gone = values.indexOf(undefined);
    if (gone < 0) return isMarked ? [...evaluate(values), 0] : evaluate(values);
    if (missing === "reject") rejected(`${shown(paths[gone])} is missing`);
    if (!isMarked) return evaluate([missing.constant]);
    if (kind === "time") // the field that is there must still be a time
      values.forEach((value, i) => value === undefined || micros(value, paths[i], feature.format, [[0, 0]]));
    return [...Array(width).fill(0), 1];
  };
  const needs = paths.map((path) => ({ path: shown(path), kind, required: missing === "reject" }));
  return { width: width + Number(isMarked), label: shown(field), needs, columns };
}

/** Return what is known of the product of two features. */
function crossed([one, other], { [one]: a, [other]: b }) {
  const columns = (_, made) => made[one].flatMap((x) => made[other].map((z) => x * z));
  return { width: a.width * b.width, label: `${a.label} x ${b.label}`, needs: [], columns };
}

/** Return a function from an event to its columns, as an array; it throws where the recipe rejects the event. */
export function columnsOf({ features, zones = {} }) {
  const known = {}, needs = new Map();
  for (const feature of features) known[feature.name] = feature.as === "cross" ? crossed(feature.of, known) : ofField(feature, zones);
  const parts = features.map(({ name }) => known[name]);
  const columns = (event) => {
    if (kindOf(event) !== "an object") rejected(`the event is ${kindOf(event)}, not an object`);
    const made = {};
    return features.flatMap(({ name }) => (made[name] = known[name].columns(event, made)));
  };
  for (const { path, kind, required } of parts.flatMap((part) => part.needs))
    needs.set(`${kind} ${path}`, { path, kind, required: required || Boolean(needs.get(`${kind} ${path}`)?.required) });
  return Object.assign(columns, { needs: [...needs.values()], fields: parts.flatMap(({ width, label }) => Array(width).fill(label)) });
}

/** Return `columnsOf` the part `recipe`, which makes the columns of its own examples as the message has them; or refuse. */
export function checkedColumns({ recipe, examples }, { names }) {
  return attempt(() => { // its features are of any shape
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
  }, "the part 'recipe' cannot be evaluated");
}
