// Records of the scores' topic.
import { RefusedMessage, must } from "./message.mjs";

const FIELDS = ["id", "score", "label", "model", "version", "points"];

/** Return what the scorer made of one record: its source, the version's SHA-256, and a score for each valid row; or refuse it. */
export function readScores({ value, headers = {} }) {
  let read;
  try {
    read = JSON.parse(value);
  } catch (error) {
    throw new RefusedMessage(`the scores are not JSON: ${error.message}`);
  }
  const rows = Array.isArray(read) ? read : [read];
  for (const row of rows) for (const field of FIELDS)
    must(typeof row === "object" && row !== null && Object.hasOwn(row, field), `the record is not a score: it lacks the field ${field}`);
  const text = (name) => headers[name]?.toString() ?? null;
  return { source: text("streamsvm.source"), modelSha256: text("streamsvm.model.sha256"), rows };
}
