// Which version is to be used: records of the two topics in, models out (index.d.ts). No client, no clock, no waiting.
import { createPublicKey, verify } from "node:crypto";
import { RefusedMessage, must } from "./message.mjs";
import { Model, sha256 } from "./model.mjs";

const PEM = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g;
const ALIAS = /^[A-Za-z][A-Za-z0-9._-]{0,99}$/, RESERVED = ["head", "owner", "retired"], PIN = "current#pin";

/** Return the public keys (Ed25519) of a text, PEM, one after the other. */
function trustedKeys(text) {
  const keys = [...text.matchAll(PEM)].map(([pem]) => createPublicKey(pem));
  if (!keys.length) throw new Error("`trusted` holds no public key in PEM format");
  if (keys.some((key) => key.asymmetricKeyType !== "ed25519")) throw new Error("`trusted` holds a key that is not of Ed25519");
  return keys;
}

const textOf = (value) => (value === undefined || value === null ? undefined : value.toString());
const isCount = (value, least) => Number.isSafeInteger(value) && value >= least;
const isPlace = ({ number, sha256, offset }) => isCount(number, 1) && typeof sha256 === "string" && isCount(offset, 0);

export class Follower {
  #name; #topic; #ours; #keys; #named = new Map(); #head = null; #retired = null;

  constructor(name, { trusted, alias = "current", modelsTopic = "models" } = {}) {
    if (!ALIAS.test(alias) || RESERVED.includes(alias))
      throw new TypeError(`${alias} is not a valid alias: a letter followed by letters, digits, dots or dashes, and not ${RESERVED.join(", ")}`);
    this.#name = name;
    this.#topic = modelsTopic;
    this.#ours = alias === "current" ? [PIN, alias] : [alias]; // the first that is there counts
    this.#keys = trusted === undefined ? null : trustedKeys(trusted);
  }

  /** One that cannot be read changes nothing, and if it is ours, is refused. */
  note({ key, value }) {
    const [name, alias = ""] = textOf(key)?.split(/@(?=[^@]*$)/) ?? [];
    if (name !== this.#name || ["owner", "erased"].includes(alias) || (alias.includes("#") && alias !== PIN)) return;
    try {
      this.#set(alias, value === null ? null : JSON.parse(value));
    } catch (error) {
      if (!this.#ours.includes(alias)) return;
      throw error instanceof RefusedMessage ? error : new RefusedMessage(`the alias ${name}@${alias} is not JSON`);
    }
  }

  #set(alias, read) {
    if (alias === "head") {
      must(read === null || isPlace(read), "the head does not name a version");
      this.#head = read;
    } else if (alias === "retired") {
      must(read === null || (isCount(read.below, 0) && [read.kept, read.others].every(Array.isArray)), "the retired versions are not numbers");
      this.#retired = read;
    } else if (read === null) this.#named.delete(alias);
    else {
      const { number, sha256, offset, why = "", ...unknown } = read, shown = `the alias ${this.#name}@${alias}`;
      must(!Object.keys(unknown).length, `${shown} has the unknown field ${Object.keys(unknown)}`);
      must(typeof why === "string" && isPlace(read), `${shown} does not name a version`);
      this.#named.set(alias, { number, sha256, offset });
    }
  }

  get wanted() { return this.#ours.map((alias) => this.#named.get(alias)).find(Boolean) ?? null; }
  get missing() {
    if (this.wanted !== null) return "";
    const why = `${this.#topic}.aliases has no alias ${this.#name}@${this.#ours.at(-1)}`, gate = this.#ours.includes(PIN) && this.#head?.gate;
    return gate?.outcome === "refused" ? `${why}: version ${this.#head.number}, the newest, was held back, because ${gate.why}` : why;
  }

  /** What every other hash follows from: the newest version; where nothing says which it is, all that aliases name. */
  get roots() { return this.#head ? [this.#head] : this.named; }
  get named() { return [...this.#named.values()]; }

  /** Why there is no version of a number, as far as the aliases topic says; empty if there may be one. */
  fault(number) {
    const newest = Math.max(0, ...this.roots.map((one) => one.number)), { below = 0, kept = [], others = [] } = this.#retired ?? {};
    if (!newest) return `${this.#name} has no version ${number}; ${this.#topic}.aliases names no version of ${this.#name}`;
    if (number > newest) return `${this.#name} has no version ${number}; the newest is ${newest}`;
    const isRetired = (number < below && !kept.includes(number)) || others.includes(number);
    return isRetired && !this.named.some((one) => one.number === number) ? `version ${number} of ${this.#name} was retired; the newest is ${newest}` : "";
  }

  /** Return the model of a record of the models topic that is what is wanted, or refuse it. */
  model({ key, value, headers, offset }, wanted = this.wanted) {
    const named = `${this.#name}@${wanted?.number}`, place = `offset ${offset}`;
    must(wanted !== null, this.missing);
    must(Number(offset) === wanted.offset, `there is no record at offset ${wanted.offset}, where ${named} should be`);
    must(value !== null, `the record at ${place} is a tombstone: ${named} was retired`);
    must(textOf(key) === named, `the record at ${place} has the key ${textOf(key)}, not ${named}`);
    const found = sha256(value), said = textOf(headers?.["streamsvm.sha256"]) ?? "missing";
    must(found === said, `the record at ${place} has the SHA-256 ${found}, but its header says ${said}`);
    must(found === wanted.sha256, `the record at ${place} has the SHA-256 ${found}, but the alias says ${wanted.sha256}`);
    const signature = Buffer.from(textOf(headers["streamsvm.signature"]) ?? "", "base64");
    const signed = Buffer.from(`streamsvm.model.signature/1\n${named}\n${found}\n`);
    must(!this.#keys || this.#keys.some((one) => verify(null, signed, one, signature)), "it is signed by none of the trusted keys");
    const model = Model.read(value);
    must(model.name === this.#name && model.version === wanted.number, `the record at ${place} holds ${model.name}@${model.version}, not ${named}`);
    return model;
  }
}

/** Which record is a version, proved by the hashes of earlier ones that each names, as in streamsvm/registry/anchoring.py. */
export class Chain {
  #name; #number; #topic; #values = new Map();

  constructor(name, number, topic) {
    [this.#name, this.#number, this.#topic] = [name, number, topic];
  }

  /** Take in a record of the models topic, in their order; of records with the same value the first one counts. */
  see({ key, value, offset }) {
    const number = Number(/@(\d+)$/.exec(textOf(key))?.[1] ?? 0);
    if (value === null || number < this.#number || textOf(key) !== `${this.#name}@${number}`) return;
    let read = null;
    try {
      read = JSON.parse(value);
    } catch {} // it is not what any hash leads to
    if (read?.name !== this.#name || read.version !== number) return;
    const { parent, links } = read.lineage ?? {}, digest = sha256(value);
    const ancestors = [...(parent && number > 1 ? [{ number: number - 1, sha256: parent }] : []), ...(Array.isArray(links) ? links : [])];
    if (!this.#values.has(digest)) this.#values.set(digest, { number, sha256: digest, offset: Number(offset), ancestors });
  }

  /** Go from version to version by the hashes that they name, until it is ours; null if that does not lead there. */
  find(roots) {
    const known = new Set(), waiting = [...roots];
    while (waiting.length) {
      const { number, sha256 } = waiting.pop(), seen = this.#values.get(sha256);
      if (seen?.number !== number || known.has(sha256)) continue;
      if (number === this.#number) return seen;
      known.add(sha256);
      waiting.push(...seen.ancestors);
    }
    return null;
  }

  /** Why it was not found, once everything was seen. */
  get fault() {
    const there = [...this.#values.values()].filter(({ number }) => number === this.#number).map(({ sha256, offset }) => `${sha256} at offset ${offset}`);
    if (!there.length) return `${this.#name}@${this.#number} is not in ${this.#topic}`;
    return `${this.#name}@${this.#number} may be a forgery: no later version that ${this.#topic} still holds names its hash. Values under its number: ${there.join(", ")}`;
  }
}
