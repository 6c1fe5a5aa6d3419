// Which version is to be used: records of the two topics in, models out. No client, no clock, no waiting.
import { createPublicKey, verify } from "node:crypto";
import { RefusedMessage, must } from "./message.mjs";
import { Model, sha256 } from "./model.mjs";

const PEM = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g;

/** Return the public keys (Ed25519) of a text, PEM, one after the other. */
function trustedKeys(text) {
  const keys = [...text.matchAll(PEM)].map(([pem]) => createPublicKey(pem));
  if (!keys.length) throw new Error("`trusted` holds no public key in PEM format");
  if (keys.some((key) => key.asymmetricKeyType !== "ed25519")) throw new Error("`trusted` holds a key that is not of Ed25519");
  return keys;
}

const textOf = (value) => (value === undefined || value === null ? undefined : value.toString());

export class Follower {
  #name; #keys; #named = new Map(); #head = null;

  constructor(name, { trusted } = {}) {
    this.#name = name;
    this.#keys = trusted === undefined ? null : trustedKeys(trusted);
  }

  /** Take in a record of the aliases topic, in its order; one of ours that cannot be read changes nothing, and is refused. */
  note({ key, value }) {
    const name = textOf(key), head = `${this.#name}@head`;
    if (![head, `${this.#name}@current`, `${this.#name}@current#pin`].includes(name)) return;
    let read = null;
    try {
      if (value !== null) read = JSON.parse(value);
    } catch {
      throw new RefusedMessage(`the alias ${name} is not JSON`);
    }
    if (name === head) this.#head = read;
    else if (read === null) this.#named.delete(name);
    else {
      const { number, sha256, offset, why = "", ...unknown } = read;
      must(!Object.keys(unknown).length, `the alias ${name} has the unknown field ${Object.keys(unknown)}`);
      must(typeof why === "string" && Number.isSafeInteger(number) && number > 0 && typeof sha256 === "string" && Number.isSafeInteger(offset) && offset >= 0, `the alias ${name} does not name a version`);
      this.#named.set(name, { number, sha256, offset });
    }
  }

  /** Which version is to be used: the pin if there is one, else what was published last; null if there is neither. */
  get wanted() {
    return this.#named.get(`${this.#name}@current#pin`) ?? this.#named.get(`${this.#name}@current`) ?? null;
  }

  /** Why no version is wanted; empty if one is. */
  get missing() {
    if (this.wanted !== null) return "";
    const why = `there is no alias ${this.#name}@current`, gate = this.#head?.gate;
    if (gate?.outcome !== "refused") return why;
    return `${why}: version ${this.#head.number} was held back, because ${gate.why}`;
  }

  /** Return the model of a record of the models topic that is what is wanted, or refuse it. */
  model({ key, value, headers, offset }) {
    const { wanted } = this, named = `${this.#name}@${wanted?.number}`, place = `offset ${offset}`;
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
