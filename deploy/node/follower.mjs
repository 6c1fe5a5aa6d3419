// Which version is to be used: records of the two topics in, models out. No client, no clock, no waiting.
import { createPublicKey, verify } from "node:crypto";
import { RefusedMessage, must } from "./message.mjs";
import { Model, sha256 } from "./model.mjs";

const PEM = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g;
const ALIAS = /^[A-Za-z][A-Za-z0-9._-]{0,99}$/, RESERVED = ["head", "owner", "retired"];

/** Return the public keys (Ed25519) of a text, PEM, one after the other. */
function trustedKeys(text) {
  const keys = [...text.matchAll(PEM)].map(([pem]) => createPublicKey(pem));
  if (!keys.length) throw new Error("`trusted` holds no public key in PEM format");
  if (keys.some((key) => key.asymmetricKeyType !== "ed25519")) throw new Error("`trusted` holds a key that is not of Ed25519");
  return keys;
}

const textOf = (value) => (value === undefined || value === null ? undefined : value.toString());
const isCount = (value, least) => Number.isSafeInteger(value) && value >= least;
const named = ({ number, sha256, offset }) => isCount(number, 1) && typeof sha256 === "string" && isCount(offset, 0);

export class Follower {
  #name; #topic; #key; #pin; #keys; #named = new Map(); #head = null; #retired = null;

  constructor(name, { trusted, alias = "current", modelsTopic = "models" } = {}) {
    if (typeof alias !== "string" || !ALIAS.test(alias) || RESERVED.includes(alias))
      throw new TypeError(`${alias} is not a valid alias: it is a letter followed by letters, digits, dots or dashes, and not ${RESERVED.join(", ")}`);
    this.#name = name;
    this.#topic = modelsTopic;
    this.#key = `${name}@${alias}`;
    this.#pin = `${name}@current#pin`;
    this.#keys = trusted === undefined ? null : trustedKeys(trusted);
  }

  /** Take in a record of the aliases topic, in its order; one that cannot be read changes nothing, and of ours is refused. */
  note({ key, value }) {
    const name = textOf(key);
    if (!name?.startsWith(`${this.#name}@`)) return;
    try {
      this.#set(name, value);
    } catch (error) {
      if (!(error instanceof RefusedMessage) || name === this.#key || (name === this.#pin && this.#isCurrent)) throw error;
    }
  }

  #set(name, value) {
    let read = null;
    try {
      if (value !== null) read = JSON.parse(value);
    } catch {
      throw new RefusedMessage(`the alias ${name} is not JSON`);
    }
    must(value === null || (typeof read === "object" && read !== null), `the alias ${name} does not name a version`);
    const other = name.slice(this.#name.length + 1);
    if (["owner", "erased"].includes(other) || (other.includes("#") && name !== this.#pin)) return;
    if (other === "head") {
      must(read === null || named(read), "the head does not name a version");
      this.#head = read;
    } else if (other === "retired") {
      must(read === null || (isCount(read.below, 0) && [read.kept, read.others].every(Array.isArray)), "the record of retired versions has no numbers");
      this.#retired = read;
    } else if (read === null) this.#named.delete(name);
    else {
      const { number, sha256, offset, why = "", ...unknown } = read;
      must(!Object.keys(unknown).length, `the alias ${name} has the unknown field ${Object.keys(unknown)}`);
      must(typeof why === "string" && named(read), `the alias ${name} does not name a version`);
      this.#named.set(name, { number, sha256, offset });
    }
  }

  get #isCurrent() {
    return this.#key === `${this.#name}@current`;
  }

  /** Which version is to be used: the pin if there is one, else what the alias names; null if there is neither. */
  get wanted() {
    return (this.#isCurrent && this.#named.get(this.#pin)) || (this.#named.get(this.#key) ?? null);
  }

  /** Why no version is wanted; empty if one is. */
  get missing() {
    if (this.wanted !== null) return "";
    const why = `${this.#topic}.aliases has no alias ${this.#key}`, gate = this.#isCurrent && this.#head?.gate;
    if (gate?.outcome !== "refused") return why;
    return `${why}: version ${this.#head.number}, the newest, was held back, because ${gate.why}`;
  }

  /** What every other hash follows from: the newest version; where nothing says which it is, all that aliases name. */
  get roots() {
    return this.#head ? [this.#head] : this.named;
  }

  /** What aliases and the pin name. */
  get named() {
    return [...this.#named.values()];
  }

  /** Why there is no version of a number, as far as the aliases topic says; empty if there may be one. */
  fault(number) {
    const newest = Math.max(0, ...this.roots.map((one) => one.number)), { below = 0, kept = [], others = [] } = this.#retired ?? {};
    if (!newest) return `${this.#name} has no version ${number}; ${this.#topic}.aliases names no version of ${this.#name}`;
    if (number > newest) return `${this.#name} has no version ${number}; the newest is ${newest}`;
    const gone = (number < below && !kept.includes(number)) || others.includes(number);
    return gone && !this.named.some((one) => one.number === number) ? `version ${number} of ${this.#name} was retired; the newest is ${newest}` : "";
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
