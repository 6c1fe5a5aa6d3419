// Which record is version N, proved by hashes, as in streamsvm/registry/anchoring.py: the newest version's hash stands in
// the aliases topic, and each version names the hashes of earlier ones. Who may write to the models topic alone cannot
// put another record in the place of a version.
import { sha256 } from "./model.mjs";

/** What records of the models topic, from its end backwards, say of the way to one version. */
export class Chain {
  #name; #number; #topic; #values = new Map();

  constructor(name, number, topic) {
    this.#name = name;
    this.#number = number;
    this.#topic = topic;
  }

  /** Take in a record; of records with the same value the first counts. */
  see({ key, value, offset }) {
    const number = Number(/^(.*)@(\d+)$/s.exec(`${key}`)?.[2] ?? 0);
    if (value === null || number < this.#number || `${key}` !== `${this.#name}@${number}`) return;
    let read;
    try {
      read = JSON.parse(value);
    } catch {
      return;
    }
    if (read?.name !== this.#name || read.version !== number) return;
    const { parent = null, links = [] } = read.lineage ?? {}, found = sha256(value), before = this.#values.get(found);
    const ancestors = [...(parent && number > 1 ? [{ number: number - 1, sha256: parent }] : []), ...(Array.isArray(links) ? links : [])];
    if (!(before?.offset < Number(offset))) this.#values.set(found, { number, sha256: found, offset: Number(offset), ancestors });
  }

  /** Return the hash that follows from these for the version, undefined if none does, and its record, null if it was not seen. */
  descend(roots) {
    const known = new Map();
    for (const { number, sha256 } of roots) if (!known.has(number)) known.set(number, sha256);
    const waiting = [...known.keys()].filter((one) => one >= this.#number);
    while (waiting.length) {
      const step = Math.min(...waiting), seen = this.#values.get(known.get(step));
      waiting.splice(waiting.indexOf(step), 1);
      if (seen?.number !== step) continue;
      if (step === this.#number) return { sha256: seen.sha256, seen };
      for (const { number, sha256 } of seen.ancestors)
        if (number >= this.#number && !known.has(number)) {
          known.set(number, sha256);
          waiting.push(number);
        }
    }
    return { sha256: known.get(this.#number), seen: null };
  }

  /** Why the version was not found, once everything was seen; `sha256` is what `descend` returned. */
  fault(sha256, newest) {
    const key = `${this.#name}@${this.#number}`;
    const there = [...this.#values.values()].filter(({ number }) => number === this.#number)
      .sort((a, b) => a.offset - b.offset).map((one) => `${one.sha256} at offset ${one.offset}`).join(", ");
    if (!there) return `${key}${sha256 ? `, which is ${sha256},` : ""} is not in ${this.#topic}; the newest is ${newest}`;
    if (sha256) return `${key} has the SHA-256 ${sha256}, but ${this.#topic} no longer holds that record, only other values under its number: ${there}`;
    return `${key} may be a forgery: no later version that ${this.#topic} still holds names its hash. Values under its number: ${there}`;
  }
}
