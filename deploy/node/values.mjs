// Values as programs have them: fields of objects of any kind, and how a value is shown.
import { types } from "node:util";
import { InvalidFeatures } from "./message.mjs";

/** What Debezium writes for a column that an update of its row did not bring along: a missing value. */
const UNAVAILABLE = "__debezium_unavailable_value";
const LONGEST = 60;
/** Objects of the language whose content is in no field. */
const CLOSED = /^(Date|RegExp|Set|Weak\w+|Promise|\w*ArrayBuffer|DataView|Number|String|Boolean|BigInt|Symbol|\w*Generator|\w*Iterator)$/;

/** Throw what says why a point or an event cannot be scored. */
export const rejected = (what) => { throw new InvalidFeatures(what); };

/** Return a path as text: card.country, items[0].price. */
export const shown = (path) => path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("").replace(/^\./, "");

/** Return what a value is; what can have fields is "an object". */
export function kindOf(value) {
  if (Array.isArray(value) || types.isTypedArray(value)) return "an array";
  if (typeof value !== "object") return { string: "text", boolean: "a boolean", number: "a number", bigint: "a number" }[typeof value] ?? `a ${typeof value}`;
  const [, closed] = CLOSED.exec(Object.prototype.toString.call(value).slice(8, -1)) ?? [];
  return closed ? `a ${closed}` : "an object";
}

/** Return a field of an object: its own, a getter's of its class, of a Map, or what its `toJSON` makes; undefined without. */
export function fieldOf(value, name) {
  if (types.isMap(value)) return value.get(name);
  const isOwn = Object.hasOwn(value, name), isOfClass = !isOwn && name in value && !(name in Object.prototype);
  if (isOwn || (isOfClass && typeof value[name] !== "function")) return value[name];
  const made = typeof value.toJSON === "function" ? value.toJSON() : null;
  return typeof made === "object" && made !== null && made !== value && Object.hasOwn(made, name) ? made[name] : undefined;
}

/** Return a value as JSON has it: what `toJSON` makes of an object, and the number of a BigInt. */
export function asInJson(value) {
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "object" || value === null) return value;
  if (types.isBoxedPrimitive(value)) return asInJson(value.valueOf());
  return (typeof value.toJSON === "function" ? value.toJSON() : value) ?? value; // of an invalid Date it makes null
}

const isMissing = (value) => value === undefined || value === null || value === UNAVAILABLE;

/** Return what stands under a path; undefined where it, or what should hold it, is absent, null or not available. */
export function follow(value, path) {
  try {
    for (const [at, step] of path.entries()) {
      if (isMissing(value)) return undefined;
      const kind = kindOf(value), wanted = typeof step === "number" ? "an array" : "an object";
      if (kind !== wanted) throw new Error(`${shown(path.slice(0, at)) || "the event"} is ${kind}, not ${wanted}`);
      value = typeof step === "number" ? value[step] : fieldOf(value, step);
    }
    const made = asInJson(value);
    return isMissing(made) ? undefined : made;
  } catch (error) { // a getter or a `toJSON` may throw, too
    return rejected(`${shown(path)} cannot be read: ${error?.message ?? error}`);
  }
}

/** Return a value as text, as Python shows it, shortened. */
export function textOf(value) {
  try {
    const text = [...(typeof value === "boolean" ? String(value) : python(value))];
    return text.length <= LONGEST ? text.join("") : `${text.slice(0, LONGEST - 3).join("")}...`;
  } catch { // a getter throws, or it holds itself
    return kindOf(value);
  }
}

function python(value) {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return figure(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null || value === undefined) return "None";
  if (types.isDate(value) || typeof value === "bigint") return String(value);
  const kind = kindOf(value);
  if (kind === "an array") return `[${Array.from(value.slice(0, LONGEST), python).join(", ")}]`;
  if (kind !== "an object" || types.isMap(value)) return kind;
  return `{${Object.keys(value).slice(0, LONGEST).map((name) => `${quoted(name)}: ${python(value[name])}`).join(", ")}}`;
}

/** Return a text as a literal of Python. */
export function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = (one) => {
    const code = one.codePointAt(0), [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": mark === "'" ? "\\'" : "'", " ": " " }[one] ?? `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  };
  return mark + text.replace(/[\\'\p{C}\p{Z}]/gu, escaped) + mark;
}

function figure(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e21) return String(BigInt(value)); // every digit
  const [digits, exponent] = value.toExponential().split("e");
  return exponent < -4 ? `${digits}e-${exponent.slice(1).padStart(2, "0")}` : String(value);
}
