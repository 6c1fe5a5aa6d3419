import * as kafkajs from "kafkajs";
import type { Model } from "./index.js";

/** kafkajs that gives out committed records only, and reads zstd, LZ4 and Snappy; its types are exported by their names, too. */
export default kafkajs;
export type * from "kafkajs";

export interface SubscribeOptions {
  /** The aliases are in the topic of this name + `.aliases`. Default: models. */
  modelsTopic?: string;
  /** The alias to follow. Default: current, which a pin comes before. */
  alias?: string;
  /** Stay with this version instead. If it does not exist, or may be a forgery, the subscriber ends, and `ready` says why. */
  version?: number;
  /** Public keys (Ed25519, PEM), one of which must have signed a version. Default: any version is taken. */
  trusted?: string;
  /** After so long without an answer of a broker `onWaiting` and `missing` say so. Default: 30,000. */
  quietMs?: number;
  /** Throws to refuse a version before it is in use; its text is the reason. */
  check?: (model: Model) => void | Promise<void>;
  /** A version is in use from now on. */
  onVersion?: (model: Model) => void;
  /** A record was refused, and the version in use stays; or the subscriber ended. */
  onRefused?: (why: string) => void;
  /** The wanted version is not in use, or no broker answers, for another reason than before. */
  onWaiting?: (why: string) => void;
  /** A broker answers again, after `quietMs` without an answer. */
  onHeard?: () => void;
}

/** For a health endpoint. */
export interface Readiness {
  /** A version is in use, whether or not a broker answers. */
  ready: boolean;
  /** Such as `pulsar@2`. */
  version: string | null;
  /** Why the wanted version is not in use, or that no broker answers; empty if all is well. */
  missing: string;
  /** When a broker last answered. */
  lastHeard: Date | null;
  /** How long ago the version in use was made; null if its record does not say it. */
  ageMs: number | null;
}

/** Keeps the version that an alias names in use, or one version. */
export interface Subscriber {
  /** The version in use; null before the first. Take it once for each request. */
  readonly model: Model | null;
  /** As in `readiness`. */
  readonly missing: string;
  readonly readiness: Readiness;
  /** Wait for the first version; the error says why there is none. */
  ready(timeoutMs: number): Promise<Model>;
  /** Stop following; the version in use stays. */
  close(): Promise<void>;
}

/** Follow a model, whatever is not there yet; rejects wrong options only. `kafka` is of the kafkajs that this module exports. */
export function subscribe(kafka: kafkajs.Kafka, name: string, options?: SubscribeOptions): Promise<Subscriber>;
