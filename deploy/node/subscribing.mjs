// Keeps the version that an alias names in use, or one version by its number. It knows no client: see `Log` in kafkajs.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { Chain, Follower } from "./follower.mjs";
import { RefusedMessage, must } from "./message.mjs";

const POLL_MS = 500, PAUSES_MS = [100, 2_000], RETRIES_MS = [100, 5_000], CLOSE_MS = 5_000, FIRST_SPAN = 512, GROWTH = 8, MOST_TOLD = 1_000;
const isText = (value) => typeof value === "string", isCall = (value) => typeof value === "function";
const OPTIONS = {
  modelsTopic: isText, alias: isText, trusted: isText, groupId: isText, check: isCall, onVersion: isCall, onRefused: isCall, onWaiting: isCall, onHeard: isCall,
  version: (value) => Number.isSafeInteger(value) && value > 0, quietMs: (value) => value > 0 && value < 2 ** 31,
};

/** The log cannot be read now. */
export class LogError extends Error {
  constructor(message, isAnswered = true) {
    super(message);
    this.isAnswered = isAnswered;
  }
}

/** Wait for a promise, but not for ever. */
export function within(promise, ms, late) {
  let timer;
  return Promise.race([promise, new Promise((_, reject) => (timer = setTimeout(() => reject(late()), ms)))]).finally(() => clearTimeout(timer));
}

export class Subscriber {
  #name; #models; #aliases; #options; #wants; #follower; #connect; #log; #stopped = new AbortController(); #following; #first; #resolve; #reject;
  #model = null; #made = null; #missing; #lastHeard = null; #settled = null; #missed = null; #retryAt = 0; #tries = 0;
  #timer; #isQuiet = false; #isUnanswered = false; #reason = ""; #told = new Set();

  /** `connect(turn, heard)` returns a log: its `servers`, `range`, `fetch`, `record` and `close`. Begins at once. */
  constructor(name, options, connect) {
    if (!isText(name)) throw new TypeError(`${name} is not the name of a model`);
    for (const [option, value] of Object.entries(options))
      if (value !== undefined && !(Object.hasOwn(OPTIONS, option) && OPTIONS[option](value))) throw new TypeError(`there is no option ${option} with the value ${value}`);
    const { modelsTopic = "models", alias = "current", version, trusted } = options;
    this.#follower = () => new Follower(name, { trusted, alias, modelsTopic });
    this.#follower(); // refuses what is wrong with its options
    this.#name = name;
    this.#models = modelsTopic;
    this.#aliases = `${modelsTopic}.aliases`;
    this.#options = { quietMs: 30_000, ...options };
    this.#wants = `${name}@${version ?? alias}`;
    this.#connect = connect;
    this.#missing = `reading ${this.#aliases}`;
    this.#first = new Promise((...settle) => ([this.#resolve, this.#reject] = settle));
    this.#first.catch(() => {});
    this.#expect();
    this.#following = this.#run();
  }

  get model() { return this.#model; }
  get missing() { return this.#missing; }
  get lastHeard() { return this.#lastHeard; }
  get ageMs() { return this.#made === null ? null : Math.max(0, Date.now() - this.#made); }
  get readiness() { return { ready: this.#model !== null, version: this.#model && nameOf(this.#model), missing: this.#missing, lastHeard: this.#lastHeard, ageMs: this.ageMs }; }

  /** Wait for the first version; the error says why there is none. */
  async ready(timeoutMs) {
    await within(this.#first, timeoutMs, () => new Error(`no version of ${this.#name} within ${timeoutMs} ms: ${this.#missing}`));
    return this.#model;
  }

  /** Stop following; the version in use stays. */
  async close() {
    this.#stopped.abort();
    clearTimeout(this.#timer);
    this.#log.close();
    await within(this.#following, CLOSE_MS, Error).catch(() => {});
  }

  async #run() {
    const { signal } = this.#stopped, [first, longest] = PAUSES_MS;
    for (let turn = 0, pause = first; !signal.aborted; turn++, pause = Math.min(2 * pause, longest)) {
      const log = this.#log = this.#connect(turn, () => this.#heard());
      try {
        if (this.#options.version !== undefined) return await this.#hold(log);
        await this.#follow(log, () => (pause = first / 2));
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof LogError)) return this.#end(error);
        this.#isUnanswered ||= !error.isAnswered;
        if (error.isAnswered || !(this.#model || this.#isQuiet)) this.#wait(error.message);
      } finally {
        log.close();
      }
      await sleep(pause, undefined, { signal }).catch(() => {});
    }
  }

  async #follow(log, reached) {
    const follower = this.#follower();
    for (let next = await this.#caughtUp(log, follower); !this.#stopped.signal.aborted; ) {
      reached();
      await this.#settle(log, follower);
      const { records, next: after } = await log.fetch(this.#aliases, next, POLL_MS);
      for (const record of records) this.#note(follower, record);
      next = after;
    }
  }

  /** Read the aliases to their end, always from the beginning: the topic may be another one by now. */
  async #caughtUp(log, follower) {
    const [begin, end] = await log.range(this.#aliases);
    await log.range(this.#models); // says if it does not exist
    return this.#read(log, this.#aliases, begin, end, (record) => this.#note(follower, record));
  }

  async #read(log, topic, next, end, see) {
    while (next < end && !this.#stopped.signal.aborted) {
      const { records, next: after } = await log.fetch(topic, next, topic === this.#aliases ? POLL_MS : 0);
      for (const record of records) if (Number(record.offset) < end || topic === this.#aliases) see(record);
      next = after;
    }
    return next;
  }

  #note(follower, record) {
    try {
      follower.note(record);
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      this.#refuse(`${error.message} (${this.#aliases}[0]@${record.offset})`);
    }
  }

  /** Fetch what is wanted, unless it is in use, was refused, or is not due yet. */
  async #settle(log, follower) {
    const { wanted, missing } = follower;
    if (wanted === null) return this.#wait(missing);
    if (this.#model?.sha256 === wanted.sha256 && this.#model.version === wanted.number) this.#settled = { wanted, verdict: "" }; // an alias moved away and back
    if (same(wanted, this.#settled?.wanted)) return this.#say(this.#settled.verdict);
    if (!same(wanted, this.#missed)) [this.#missed, this.#tries, this.#retryAt] = [wanted, 0, 0];
    if (Date.now() < this.#retryAt) return;
    if (!this.#tries) this.#say(`fetching ${this.#name}@${wanted.number} from ${this.#models}[0]@${wanted.offset}`);
    const record = await log.record(this.#models, wanted.offset);
    try {
      await this.#use(follower, record, wanted);
      this.#settled = { wanted, verdict: "" };
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      if (record) this.#settled = { wanted, verdict: error.message };
      else this.#retryAt = Date.now() + Math.min(RETRIES_MS[0] * 2 ** this.#tries++, RETRIES_MS[1]); // topics are not always copied in step
      this.#refuse(error.message);
      this.#say(error.message);
    }
  }

  /** Load one version, by its number. */
  async #hold(log) {
    const follower = this.#follower(), chain = new Chain(this.#name, this.#options.version, this.#models);
    await this.#caughtUp(log, follower);
    const [begin, end] = await log.range(this.#models), fault = follower.fault(this.#options.version);
    must(!fault, fault);
    let found = null;
    for (let upper = end, span = FIRST_SPAN; !found && upper > begin; upper -= span, span *= GROWTH) {
      await this.#read(log, this.#models, Math.max(begin, upper - span), upper, (one) => chain.see(one));
      found = chain.find(follower.roots);
    }
    found ??= chain.find([...follower.roots, ...follower.named]); // who named a forgery once is not believed before the chain
    must(found, chain.fault);
    await this.#use(follower, await log.record(this.#models, found.offset), found);
    clearTimeout(this.#timer); // there is no more to hear
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
    const made = Date.parse(record.headers["streamsvm.time"] ?? "");
    this.#model = model;
    this.#made = Number.isNaN(made) ? null : made;
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

  #say(why) {
    this.#missing = why;
    this.#reason = "";
  }

  #wait(why) {
    this.#missing = why;
    if (why !== this.#reason) this.#call("onWaiting", `waiting for ${this.#wants}: ${why}`);
    this.#reason = why;
  }

  #refuse(why) {
    if (this.#told.size >= MOST_TOLD) this.#told.clear();
    if (!this.#told.has(why)) this.#call("onRefused", why);
    this.#told.add(why);
  }

  #heard() {
    if (this.#stopped.signal.aborted) return;
    this.#lastHeard = new Date();
    if (this.#isUnanswered) this.#say(this.#model ? this.#settled?.verdict ?? "" : `reading ${this.#aliases}`);
    if (this.#isQuiet) this.#call("onHeard");
    this.#isUnanswered = this.#isQuiet = false;
    this.#expect();
  }

  /** Begin to wait for the next answer of a broker. */
  #expect() {
    const { quietMs } = this.#options;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isUnanswered = this.#isQuiet = true;
      this.#wait(`no broker answered at ${this.#log.servers} for ${quietMs / 1000} s${this.#model ? `; ${nameOf(this.#model)} serves on` : ""}`);
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
const same = (a, b) => Boolean(a && b) && a.number === b.number && a.sha256 === b.sha256 && a.offset === b.offset;
