// Keeps the version that an alias names in use, or one version by its number. It knows no client: see `Log` in kafkajs.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Chain, Follower } from "./follower.mjs";
import { RefusedMessage, must } from "./message.mjs";

const POLL_MS = 500, PAUSE_MS = 500, CLOSE_MS = 5_000, WAITS = true;
const isText = (value) => typeof value === "string", isCall = (value) => typeof value === "function";
const OPTIONS = {
  modelsTopic: isText, alias: isText, trusted: isText, check: isCall, onVersion: isCall, onRefused: isCall, onWaiting: isCall, onHeard: isCall,
  version: (value) => Number.isSafeInteger(value) && value > 0, quietMs: (value) => value > 0 && value < 2 ** 31,
};

const MOST_TOLD = 1_000; // whoever may write aliases may write any number of bad ones
/** The log cannot be read now. */
export class LogError extends Error {}
/** And no broker answered. */
export class Unanswered extends LogError {}

/** Wait for a promise, but not for ever. */
export function within(promise, ms, late) {
  let timer;
  return Promise.race([promise, new Promise((_, reject) => (timer = setTimeout(() => reject(late()), ms)))]).finally(() => clearTimeout(timer));
}

export class Subscriber {
  #name; #models; #aliases; #options; #connect; #log; #stopped = new AbortController(); #following; #first; #resolve; #reject;
  #model = null; #made = NaN; #lastHeard = null; #refused = null; #missing; #reason = ""; #told = new Set();
  #timer; #isQuiet = false; #isUnanswered = false;

  /** `connect(turn, heard)` returns a log: its `servers`, `range`, `fetch`, `record` and `close`. Begins at once. */
  constructor(name, options, connect) {
    if (!isText(name)) throw new TypeError(`${name} is not the name of a model`);
    for (const [option, value] of Object.entries(options))
      if (value !== undefined && !(Object.hasOwn(OPTIONS, option) && OPTIONS[option](value))) throw new TypeError(`there is no option ${option} with the value ${value}`);
    this.#name = name;
    this.#options = { ...options };
    this.#models = options.modelsTopic ?? "models";
    this.#aliases = `${this.#models}.aliases`;
    this.#missing = `reading ${this.#aliases}`;
    new Follower(name, options); // refuses what is wrong with its options
    this.#connect = connect;
    this.#first = new Promise((...settle) => ([this.#resolve, this.#reject] = settle));
    this.#first.catch(() => {});
    this.#expect();
    this.#following = this.#run();
  }

  get model() { return this.#model; }
  get missing() { return this.#missing; }
  get readiness() {
    const ageMs = Number.isNaN(this.#made) ? null : Math.max(0, Date.now() - this.#made);
    return { ready: this.#model !== null, version: this.#model && nameOf(this.#model), missing: this.#missing, lastHeard: this.#lastHeard, ageMs };
  }

  async ready(timeoutMs) {
    await within(this.#first, timeoutMs, () => new Error(`no version of ${this.#name} within ${timeoutMs} ms: ${this.#missing}`));
    return this.#model;
  }

  async close() {
    this.#stopped.abort();
    clearTimeout(this.#timer);
    this.#log.close();
    await within(this.#following, CLOSE_MS, Error).catch(() => {});
  }

  async #run() {
    const { signal } = this.#stopped;
    for (let turn = 0; !signal.aborted; turn++) {
      const log = this.#log = this.#connect(turn, () => this.#heard()), follower = new Follower(this.#name, this.#options);
      try {
        const next = await this.#read(log, this.#aliases, (record) => this.#note(follower, record));
        await log.range(this.#models); // says if it does not exist
        return await (this.#options.version === undefined ? this.#follow(log, follower, next) : this.#hold(log, follower, this.#options.version));
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof LogError)) return this.#end(error);
        const isAnswered = !(error instanceof Unanswered), left = log.servers.split(",").length - turn - 1; // addresses, not yet asked
        this.#isUnanswered ||= !isAnswered;
        if (isAnswered || !(this.#model || this.#isQuiet || left > 0)) this.#say(error.message, WAITS);
      } finally {
        log.close();
      }
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Keep what is wanted in use, until the log fails. */
  async #follow(log, follower, next) {
    while (!this.#stopped.signal.aborted) {
      await this.#settle(log, follower);
      const { records, next: after } = await log.fetch(this.#aliases, next, POLL_MS);
      for (const record of records) this.#note(follower, record);
      next = after;
    }
  }

  /** Load one version, by its number. */
  async #hold(log, follower, number) {
    const chain = new Chain(this.#name, number, this.#models), fault = follower.fault(number);
    must(!fault, fault);
    await this.#read(log, this.#models, (record) => chain.see(record));
    const found = chain.find(follower.roots) ?? chain.find(follower.named); // who named a forgery once is not believed before the chain
    must(found, chain.fault);
    await this.#use(follower, await log.record(this.#models, found.offset), found);
    clearTimeout(this.#timer); // there is no more to hear
  }

  /** Read a topic from its beginning to its end; return where to go on. The topic may be another one than before. */
  async #read(log, topic, see) {
    let [next, end] = await log.range(topic);
    while (next < end && !this.#stopped.signal.aborted) {
      const { records, next: after } = await log.fetch(topic, next);
      records.forEach(see);
      next = after;
    }
    return next;
  }

  #note(follower, record) {
    try {
      follower.note(record);
    } catch (error) {
      this.#refuse(error, ` (${this.#aliases}[0]@${record.offset})`);
    }
  }

  /** Fetch what is wanted, unless it is in use or was refused. */
  async #settle(log, follower) {
    const { wanted, missing } = follower;
    if (wanted === null) return this.#say(missing, WAITS);
    if (this.#model?.sha256 === wanted.sha256 && this.#model.version === wanted.number) return this.#say("");
    if (isDeepStrictEqual(wanted, this.#refused?.wanted)) return this.#say(this.#refused.why);
    this.#say(`fetching ${this.#name}@${wanted.number} from ${this.#models}[0]@${wanted.offset}`);
    const record = await log.record(this.#models, wanted.offset);
    try {
      await this.#use(follower, record, wanted);
    } catch (error) {
      const why = this.#refuse(error);
      if (record) this.#refused = { wanted, why }; // else it may come: topics are not always copied in step
      this.#say(why);
    }
  }

  /** Put the version of a record in use, unless it is not what it should be, or the application refuses it. */
  async #use(follower, record, place) {
    let model;
    try {
      model = follower.model(record ?? { offset: -1 }, place);
      await this.#options.check?.(model);
    } catch (error) {
      if (!model && !(error instanceof RefusedMessage)) throw error;
      throw new RefusedMessage(`refused ${this.#name}@${place.number}: ${error?.message ?? error}`);
    }
    if (this.#stopped.signal.aborted) return;
    this.#model = model;
    this.#made = Date.parse(record.headers["streamsvm.time"] ?? "");
    this.#say("");
    this.#call("onVersion", model);
    this.#resolve();
  }

  #end(error) {
    clearTimeout(this.#timer);
    this.#say(`the subscriber of ${this.#name} ended: ${error.message}`);
    this.#call("onRefused", error.message);
    this.#reject(error);
  }

  /** Say why the wanted version is not in use; what it waits for is told once. */
  #say(why, waits = false) {
    const { version, alias = "current" } = this.#options;
    this.#missing = why;
    if (waits && why !== this.#reason) this.#call("onWaiting", `waiting for ${this.#name}@${version ?? alias}: ${why}`);
    this.#reason = waits ? why : "";
  }

  /** Tell a refusal once, and return why. */
  #refuse(error, where = "") {
    if (!(error instanceof RefusedMessage)) throw error;
    const why = error.message + where;
    if (!this.#told.has(why)) this.#call("onRefused", why);
    if (this.#told.size >= MOST_TOLD) this.#told.clear();
    this.#told.add(why);
    return why;
  }

  #heard() {
    if (this.#stopped.signal.aborted) return;
    this.#lastHeard = new Date();
    if (this.#isUnanswered) this.#say(this.#model ? "" : `reading ${this.#aliases}`);
    if (this.#isQuiet) this.#call("onHeard");
    this.#isUnanswered = this.#isQuiet = false;
    this.#expect();
  }

  /** Begin to wait for the next answer of a broker. */
  #expect() {
    const { quietMs = 30_000 } = this.#options;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isUnanswered = this.#isQuiet = true;
      this.#say(`no broker answered at ${this.#log.servers} for ${quietMs / 1000} s${this.#model ? `; ${nameOf(this.#model)} serves on` : ""}`, WAITS);
    }, quietMs).unref();
  }

  async #call(name, ...what) {
    try {
      if (!this.#stopped.signal.aborted) await this.#options[name]?.(...what);
    } catch (error) {
      console.error(`${name} of ${this.#name} failed:`, error);
    }
  }
}

const nameOf = ({ name, version }) => `${name}@${version}`;
