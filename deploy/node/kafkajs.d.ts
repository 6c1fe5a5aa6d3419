import type { Kafka } from "kafkajs";
import type * as kafkajs from "kafkajs";
import type { Model } from "./index.js";

/** kafkajs that gives out committed records only, and reads zstd, LZ4 and Snappy. */
declare const mended: typeof kafkajs;
export default mended;

export interface SubscribeOptions {
  /** The aliases are in the topic of this name + `.aliases`. Default: models. */
  modelsTopic?: string;
  /** Public keys (Ed25519, PEM), one of which must have signed a version. Default: any version is taken. */
  trusted?: string;
  /** How the names of the consumer groups begin (kafkajs reads in a group only); they are deleted at the end. */
  groupId?: string;
  /** A version is in use from now on. */
  onVersion?: (model: Model) => void;
  /** A record was refused; the version in use stays. */
  onRefused?: (why: string) => void;
  /** No version is in use, for another reason than before. */
  onWaiting?: (why: string) => void;
}

/** Keeps the version that `name@current` names loaded; a pin comes before it. */
export interface Subscriber {
  /** The version in use; null before the first. Take it once for each request. */
  readonly model: Model | null;
  /** Why the wanted version is not in use; empty if it is. */
  readonly missing: string;
  /** Wait for the first version; the error says why there is none. */
  ready(timeoutMs: number): Promise<Model>;
  /** Stop following; the version in use stays. */
  close(): Promise<void>;
}

/** Follow a model; `kafka` is of the kafkajs that this module exports. */
export function subscribe(kafka: Kafka, name: string, options?: SubscribeOptions): Promise<Subscriber>;
