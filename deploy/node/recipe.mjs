// What a version's recipe makes of raw events: the part `recipe` of a message.
import { createHash } from "node:crypto";
import { InvalidFeatures, RefusedMessage, must } from "./message.mjs";

const DAY = 86_400n, MICROS = 1_000_000n, MINUTES = 1440n;
const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n), floorMod = (a, b) => ((a % b) + b) % b;
const rejected = (what) => { throw new InvalidFeatures(what); };
/** Most bits of a hash, as in Python: a message may name any number, and each column is made for an event. */
const MOST_BITS = 10;
const isNumber = (value) => typeof value === "number" && Math.abs(value) <= 1e100;

/** What Debezium writes for a column that an update of its row did not bring along: a missing value. */
const UNAVAILABLE = "__debezium_unavailable_value";

/** Return what stands under a path; undefined where it, or what should hold it, is absent, null or not available. */
function follow(value, path) {
  for (const step of path) {
    if (value === undefined || value === null || value === UNAVAILABLE) return undefined;
    const fits = typeof step === "number" ? Array.isArray(value) : typeof value === "object" && !Array.isArray(value);
    if (!fits) rejected(`${path.join(".")} cannot be read`);
    value = Object.hasOwn(value, step) ? value[step] : undefined;
  }
  return value === UNAVAILABLE ? undefined : value ?? undefined;
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

/** Return the text by which a category or a hash compares a value. */
function text(value) {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  return Number.isSafeInteger(value) ? String(BigInt(value)) : rejected(`${value} is not text, an integer or a boolean`);
}

/** Return a zone's offset from UTC, in seconds, at a time in seconds. */
const offset = (table, seconds) => BigInt((table.findLast(([since]) => BigInt(since) <= seconds) ?? table[0])[1]);

const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(?:(Z)|([+-])([01]\d|2[0-3]):?([0-5]\d))?)?$/;

/** Return a time in microseconds since the epoch. */
function micros(value, format = "iso8601", table) {
  const inRange = (found) => (found >= -62_135_596_800n * MICROS && found < 253_402_300_800n * MICROS ? found : rejected(`${value} is out of range`));
  if (format !== "iso8601")
    return isNumber(value) ? inRange(BigInt(Math.floor(value * { s: 1e6, ms: 1e3, us: 1 }[format]))) : rejected(`${value} is not a number`);
  const found = typeof value === "string" ? ISO.exec(value) : null;
  if (!found) rejected(`${value} is not a time`);
  const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = "", utc, sign, hours, minutes] = found;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (year === "0000" || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== +day) rejected(`${value} is not a time`);
  let seconds = BigInt(date.getTime()) / 1000n + BigInt(hour) * 3600n + BigInt(minute) * 60n + BigInt(second);
  const rest = BigInt(fraction.slice(0, 6).padEnd(6, "0"));
  if (sign) return inRange((seconds - BigInt(`${sign === "-" ? "-" : ""}${Number(hours) * 3600 + Number(minutes) * 60}`)) * MICROS + rest);
  if (!utc) seconds -= offset(table, seconds - offset(table, seconds));
  return seconds * MICROS + rest;
}

const wave = (k, n) => [Math.sin((2 * Math.PI * k) / n), Math.cos((2 * Math.PI * k) / n)];
const PARTS = {
  hour: (local) => wave(Number(floorMod(floorDiv(local, 60n), MINUTES)), 1440),
  weekday: (local) => wave(Number(floorMod(floorDiv(local, DAY) + 3n, 7n)), 7),
  month: (local) => wave(new Date(Number(local) * 1000).getUTCMonth(), 12),
};

/** How many columns a feature of a field has, and what its values become. */
const KINDS = {
  number: ({ clip, unit = 1, log1p = false, buckets = [], ...written }, _, read = notation(written)) => [buckets.length + 1, ([value]) => {
    const v = typeof value === "number" ? value : read(value);
    if (!isNumber(v)) rejected(`${JSON.stringify(value)} is not a number`);
    const x = (clip ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
    if (buckets.length) return oneOf(buckets.length + 1, buckets.filter((border) => x >= border).length);
    return [log1p ? Math.sign(x) * Math.log1p(Math.abs(x)) : x];
  }],
  category: ({ values }) => [values.length + 1, ([v]) => {
    const at = values.indexOf(text(v));
    return oneOf(values.length + 1, at < 0 ? values.length : at);
  }],
  hash: ({ bits, seed = 0 }) => {
    must(Number.isInteger(bits) && bits >= 1 && bits <= MOST_BITS, `the part 'recipe' hashes into 2^${bits} columns`);
    return [2 ** bits, ([v]) => {
      const digest = createHash("sha256").update(`${seed}:${text(v)}`).digest();
      return oneOf(2 ** bits, digest.readUInt32BE(0) % 2 ** bits, digest[4] % 2 ? -1 : 1);
    }];
  },
  flag: () => [1, ([v]) => ([true, false, 1, 0].includes(v) ? [Number(v)] : rejected(`${JSON.stringify(v)} is not true or false`))],
  time: ({ parts, format, zone = "UTC" }, zones) => {
    const table = zone === "UTC" ? [[0, 0]] : zones[zone];
    return [parts.reduce((sum, part) => sum + (part === "age" ? 1 : 2), 0), ([v, since]) => {
      const at = micros(v, format, table), seconds = floorDiv(at, MICROS), local = seconds + offset(table, seconds);
      return parts.flatMap((part) => (part === "age" ? [Number(at - micros(since, format, table)) / 86_400e6] : PARTS[part](local)));
    }];
  },
};
const oneOf = (width, at, value = 1) => Object.assign(Array(width).fill(0), { [at]: value });

/** Return a path as text: card.country, items[0].price. */
const shown = (path) => path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("").replace(/^\./, "");

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
      let values = [field, ...(since ? [since] : [])].map((path) => follow(event, path));
      const gone = values.includes(undefined);
      if (gone && missing === "reject") rejected(`${field.join(".")} is missing`);
      if (gone && missing.constant !== undefined) values = [missing.constant];
      const harmless = gone && missing === "indicator";
      if (harmless && feature.as === "time") // the field that is there must still be a time
        values.filter((value) => value !== undefined).forEach((value) => micros(value, feature.format, [[0, 0]]));
      const own = harmless ? Array(width).fill(0) : evaluate(values);
      return missing === "indicator" ? [...own, Number(gone)] : own;
    };
  });
  const named = {}; // the field of each feature, or both of a cross
  for (const { name, of, field } of features) named[name] = of ? of.map((one) => named[one]).join(" x ") : shown(field);
  const columns = (event) => {
    const made = {};
    features.forEach(({ name }, i) => (made[name] = compiled[i](event, made)));
    return features.flatMap(({ name }) => made[name]);
  };
  columns.fields = features.flatMap(({ name }) => Array(widths[name]).fill(named[name])); // of each column
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
