export type Label = number | string | boolean;

/** What a client gives of a record. Header values may be bytes or text. */
export interface ReadRecord {
  key?: Buffer | string | null;
  value: Buffer | null;
  headers?: Record<string, unknown>;
  offset: string | number;
}

/** What a version says of a point. Of two labels `score` and `probability` (of the second one) are numbers, of more lists. */
export interface Answer {
  score: number | number[];
  label: Label;
  /** Only of a version that has probabilities. */
  probability?: number | number[];
}

/** A decision value is the sum of the mean row's (baseline), what the fields add, and what all others add (rest). */
export interface Reasons {
  baseline: number;
  /** Those that add most, the largest first: path in the event, or name of the feature. */
  fields: { field: string; adds: number }[];
  rest: number;
}

/** What a point or an event needs. */
export interface Field {
  /** Such as `card.country`, or the name of the feature. */
  path: string;
  kind: "number" | "category" | "hash" | "flag" | "time";
  /** Whether an event without it is refused. */
  required: boolean;
}

/** A version that scores its own probes as it says. */
export class Model {
  private constructor();
  /** Read the value of a version's record; throws RefusedMessage. */
  static read(value: Buffer | string): Model;
  readonly name: string;
  readonly version: number;
  /** Of the version's value, in hexadecimal. */
  readonly sha256: string;
  readonly labels: readonly Label[];
  /** Empty where the features have no names. */
  readonly featureNames: readonly string[];
  readonly fields: readonly Field[];
  /** Whether an object is a raw event. */
  readonly takesEvents: boolean;
  /** A point: its features in the version's order, or by their names; or a raw event. Throws InvalidFeatures. */
  score(point: object): Answer;
  /** Linear and additive versions of two labels; throws TypeError for others, InvalidFeatures as `score` does. */
  reasons(point: object, most: number): Reasons;
  /** The features of a point, or the columns of a raw event. */
  columns(point: object): number[];
}

/** Which version is to be used: committed records of both topics' partition 0 in, a model out. Without a client. */
export class Follower {
  /** `trusted`: public keys (Ed25519, PEM), one of which must have signed a version. `alias`: current by default. */
  constructor(name: string, options?: { trusted?: string; alias?: string; modelsTopic?: string });
  /** Take in a record of the aliases topic, from its beginning, in its order; throws RefusedMessage for one that cannot be read. */
  note(record: Pick<ReadRecord, "key" | "value">): void;
  /** What the alias names, of `current` the pin if there is one. Ask at the end of the aliases topic, not before. */
  readonly wanted: { number: number; sha256: string; offset: number } | null;
  /** Why no version is wanted; empty if one is. */
  readonly missing: string;
  /** The model of the record of the models topic at `wanted.offset`; throws RefusedMessage. */
  model(record: ReadRecord): Model;
}

/** The score of one row. */
export interface Score extends Answer {
  /** An integer beyond `Number.MAX_SAFE_INTEGER` is a bigint, here and in `passed`: `String(id)` has its digits. */
  id: string | number | bigint | null;
  model: string;
  version: number;
  /** How many points the version learned. */
  points: number;
  /** Fields of the event by their paths (`scoring.pass_fields`). */
  passed?: Record<string, unknown>;
  /** `scoring.reasons`. */
  reasons?: Reasons;
  /** Index of the row in its record, where that is an array. */
  row?: number;
  /** What another version would have answered (`scoring.shadow`). */
  shadow?: Answer & { model: string; version: number };
}

/** What the scorer made of one record. */
export interface Scores {
  /** topic/partition/offset of the scored record. */
  source: string | null;
  /** Of the version that scored. */
  modelSha256: string | null;
  rows: Score[];
}

/** Read a record of the scores' topic; throws RefusedMessage. */
export function readScores(record: Pick<ReadRecord, "value" | "headers">): Scores;

/** A version, or another record, must not be used; the text says why. */
export class RefusedMessage extends Error {}

/** A point or a raw event that a version cannot score; the text has the name of the feature or the field. */
export class InvalidFeatures extends RangeError {}
