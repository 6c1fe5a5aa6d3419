// Records of the scores' topic.
import { randomUUID } from "node:crypto";
import { attempt, must } from "./message.mjs";

const FIELDS = ["id", "score", "label", "model", "version", "points"];
/** Text of JSON, or a number of it. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const BIG = `${randomUUID()}:`; // no text of a record begins so

/** Parse JSON whose integers beyond 2^53 become BigInt: `JSON.parse` rounds them, and its `context.source` needs Node.js 21. */
function parsed(text) {
  const rounded = JSON.parse(text);
  const marked = text.replace(TOKEN, (token) => (/^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${BIG}${token}"` : token));
  if (marked === text) return rounded;
  return JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(BIG) ? BigInt(value.slice(BIG.length)) : value));
}

export function readScores({ value, headers = {} }) {
  const rows = [attempt(() => parsed(String(value)), "the scores are not JSON")].flat();
  for (const row of rows) for (const field of FIELDS)
    must(typeof row === "object" && row !== null && Object.hasOwn(row, field), `the record is not a score: it lacks the field ${field}`);
  const text = (name) => headers[name]?.toString() ?? null;
  return { source: text("streamsvm.source"), modelSha256: text("streamsvm.model.sha256"), rows };
}
