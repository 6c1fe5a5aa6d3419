// Keeps the version that an alias names in use, or one version by its number. It knows no client: see `Log` in kafkajs.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { Chain } from "./anchoring.mjs";
import { Follower } from "./follower.mjs";
import { RefusedMessage, must } from "./message.mjs";
import { sha256 } from "./model.mjs";

const POLL_MS = 500, FIRST_PAUSE_MS = 100, LONGEST_PAUSE_MS = 2_000, LONGEST_RETRY_MS = 5_000, CLOSE_MS = 5_000;
const FIRST_SPAN = 512, GROWTH = 8, MOST_TOLD = 1_000;
const CALLS = ["check", "onVersion", "onRefused", "onWaiting", "onHeard"];
const OPTIONS = ["modelsTopic", "alias", "version", "trusted", "quietMs", "groupId", ...CALLS];

/** The log cannot be read now. */
export class LogError extends Error {
  constructor(message, isAnswered = true) {
    super(message);
    this.isAnswered = isAnswered;
  }
}

export class Subscriber {
  #name; #models; #version; #wants; #follower; #quietMs; #calls; #connect; #log;
  #model = null; #made = null; #missing; #fault = null; #lastHeard = null;
  #settled = null; #missed = null; #retryAt = 0; #tries = 0;
  #timer; #isQuiet = false; #isUnanswered = false; #reason = ""; #told = new Set(); #waiting = new Set();
  #stopped = new AbortController(); #following;

  /** `connect(turn, heard)` returns a log: its `servers`, `range`, `fetch`, `record` and `close`. Begins at once. */
  constructor(name, options, connect) {
    const unknown = Object.keys(options).filter((one) => !OPTIONS.includes(one));
    const { modelsTopic = "models", alias = "current", version, trusted, quietMs = 30_000 } = options;
    const wrong = CALLS.find((one) => options[one] !== undefined && typeof options[one] !== "function");
    if (unknown.length) throw new TypeError(`subscribe has no option ${unknown}`);
    if (wrong) throw new TypeError(`\`${wrong}\` is not a function`);
    if (typeof name !== "string" || !name) throw new TypeError(`${name} is not the name of a model`);
    if (version !== undefined && !(Number.isSafeInteger(version) && version > 0)) throw new TypeError(`${version} is not the number of a version`);
    if (!(quietMs > 0 && quietMs < 2 ** 31)) throw new TypeError(`\`quietMs\` is ${quietMs}, not a number of milliseconds`);
    this.#follower = () => new Follower(name, { trusted, alias, modelsTopic });
    this.#follower(); // refuses what is wrong with its options
    this.#name = name;
    this.#models = modelsTopic;
    this.#version = version;
    this.#wants = `${name}@${version ?? alias}`;
    this.#quietMs = quietMs;
    this.#calls = Object.fromEntries(CALLS.map((one) => [one, options[one]]));
    this.#connect = connect;
    this.#missing = `reading ${modelsTopic}.aliases`;
    this.#expect();
    this.#following = this.#run();
  }

  get model() { return this.#model; }
  get missing() { return this.#missing; }
  get lastHeard() { return this.#lastHeard; }
  get ageMs() { return this.#made === null ? null : Math.max(0, Date.now() - this.#made); }

  get readiness() {
    const { model, missing, lastHeard, ageMs } = this;
    return { ready: model !== null, version: model && `${model.name}@${model.version}`, missing, lastHeard, ageMs };
  }

  /** Wait for the first version; the error says why there is none. */
  async ready(timeoutMs) {
    if (this.#model !== null) return this.#model;
    if (this.#fault) throw this.#fault;
    let timer, one;
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.add((one = { resolve, reject }));
        timer = setTimeout(() => reject(new Error(`no version of ${this.#name} within ${timeoutMs} ms: ${this.#missing}`)), timeoutMs);
      });
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(one);
    }
  }

  /** Stop following; the version in use stays. */
  async close() {
    this.#stopped.abort();
    clearTimeout(this.#timer);
    await Promise.race([this.#following, sleep(CLOSE_MS, undefined, { ref: false })]);
  }

  // ---------------------------------------------------------------- the loop

  async #run() {
    const { signal } = this.#stopped;
    let pause = FIRST_PAUSE_MS;
    for (let turn = 0; !signal.aborted; turn++) {
      const log = this.#log = this.#connect(turn, () => this.#heard());
      try {
        if (this.#version === undefined) await this.#follow(log, () => (pause = FIRST_PAUSE_MS));
        else return await this.#hold(log);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof LogError)) return this.#end(error);
        this.#isUnanswered ||= !error.isAnswered;
        if (error.isAnswered || !(this.#model || this.#isQuiet)) this.#wait(error.message);
      } finally {
        log.close();
      }
      await sleep(pause, undefined, { signal }).catch(() => {});
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  async #follow(log, reached) {
    const follower = this.#follower();
    let next = await this.#caughtUp(log, follower);
    reached();
    while (!this.#stopped.signal.aborted) {
      await this.#settle(log, follower);
      const { records, next: after } = await log.fetch(`${this.#models}.aliases`, next, POLL_MS);
      for (const record of records) this.#note(follower, record);
      next = after;
    }
  }

  /** Read the aliases to their end, always from the beginning: the topic may be another one by now. */
  async #caughtUp(log, follower) {
    const topic = `${this.#models}.aliases`, [begin, end] = await log.range(topic);
    await log.range(this.#models); // says if it does not exist
    return this.#read(log, topic, begin, end, (record) => this.#note(follower, record));
  }

  async #read(log, topic, next, end, see) {
    while (next < end && !this.#stopped.signal.aborted) {
      const { records, next: after } = await log.fetch(topic, next, POLL_MS);
      for (const record of records) if (Number(record.offset) < end) see(record);
      next = after;
    }
    return next;
  }

  #note(follower, record) {
    try {
      follower.note(record);
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      this.#refuse(`${error.message} (${this.#models}.aliases[0]@${record.offset})`);
    }
  }

  /** Fetch what is wanted, unless it is in use, was refused, or is not due yet. */
  async #settle(log, follower) {
    const { wanted, missing } = follower;
    if (wanted === null) return this.#wait(missing);
    const { number, sha256, offset } = wanted, named = `${this.#name}@${number}`;
    if (this.#model?.sha256 === sha256 && this.#model.version === number) this.#settled = { wanted, verdict: "" }; // an alias moved away and back
    if (same(wanted, this.#settled?.wanted)) return this.#say(this.#settled.verdict);
    if (!same(wanted, this.#missed)) [this.#missed, this.#tries, this.#retryAt] = [wanted, 0, 0];
    if (Date.now() < this.#retryAt) return;
    if (!this.#tries) this.#say(`fetching ${named} from ${this.#models}[0]@${offset}`);
    const record = await log.record(this.#models, offset);
    try {
      must(record, `there is no record at offset ${offset}, where ${named} should be`);
      await this.#use(follower, record, wanted);
      this.#settled = { wanted, verdict: "" };
    } catch (error) {
      if (!(error instanceof RefusedMessage)) throw error;
      const why = `refused ${named}: ${error.message}`;
      if (record) this.#settled = { wanted, verdict: why };
      else this.#retryAt = Date.now() + Math.min(FIRST_PAUSE_MS * 2 ** this.#tries++, LONGEST_RETRY_MS); // topics are not always copied in step
      this.#refuse(why);
      this.#say(why);
    }
  }

  /** Load one version, by its number. */
  async #hold(log) {
    const follower = this.#follower(), number = this.#version, chain = new Chain(this.#name, number, this.#models);
    await this.#caughtUp(log, follower);
    const { roots } = follower, fault = follower.fault(number), root = roots.find((one) => one.number === number);
    must(!fault, fault);
    let place = root, record = root && (await log.record(this.#models, root.offset));
    if (!record?.value || sha256(record.value) !== root.sha256) {
      const [begin, end] = await log.range(this.#models);
      let found = {};
      for (let upper = end, span = FIRST_SPAN; !found.seen && upper > begin; upper -= span, span *= GROWTH) {
        await this.#read(log, this.#models, Math.max(begin, upper - span), upper, (one) => chain.see(one));
        found = chain.descend(roots);
      }
      if (!found.seen) found = chain.descend([...roots, ...follower.named]); // who named a forgery once is not believed before the chain
      must(found.seen, chain.fault(found.sha256, Math.max(...roots.map((one) => one.number))));
      place = found.seen;
      record = await log.record(this.#models, place.offset);
      must(record, `the record of version ${number} of ${this.#name} was removed during the search`);
    }
    await this.#use(follower, record, place);
    clearTimeout(this.#timer); // there is no more to hear
  }

  /** Put the version of a record in use, unless it is not what it should be, or the application refuses it. */
  async #use(follower, record, place) {
    const model = follower.model(record, place), made = Date.parse(record.headers["streamsvm.time"] ?? "");
    try {
      await this.#calls.check?.(model);
    } catch (error) {
      throw new RefusedMessage(error?.message ?? String(error));
    }
    if (this.#stopped.signal.aborted) return;
    this.#model = model;
    this.#made = Number.isNaN(made) ? null : made;
    this.#say("");
    this.#call("onVersion", model);
    for (const { resolve } of this.#waiting) resolve(model);
  }

  #end(error) {
    this.#fault = error;
    clearTimeout(this.#timer);
    this.#say(error.message);
    this.#call("onRefused", `reading ${this.#wants} ended: ${error.message}`);
    for (const { reject } of this.#waiting) reject(error);
  }

  // ------------------------------------------------------------ what is said

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
    if (this.#told.has(why)) return;
    if (this.#told.size >= MOST_TOLD) this.#told.clear();
    this.#told.add(why);
    this.#call("onRefused", why);
  }

  #heard() {
    if (this.#stopped.signal.aborted) return;
    this.#lastHeard = new Date();
    if (this.#isUnanswered) this.#say(this.#model ? this.#settled?.verdict ?? "" : `reading ${this.#models}.aliases`);
    if (this.#isQuiet) this.#call("onHeard");
    this.#isUnanswered = this.#isQuiet = false;
    this.#expect();
  }

  /** Begin to wait for the next answer of a broker. */
  #expect() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isUnanswered = this.#isQuiet = true;
      const serves = this.#model ? `; ${this.#model.name}@${this.#model.version} serves on` : "";
      this.#wait(`no broker answered at ${this.#log.servers} for ${this.#quietMs / 1000} s${serves}`);
    }, this.#quietMs);
    this.#timer.unref();
  }

  async #call(name, ...what) {
    if (this.#stopped.signal.aborted) return;
    try {
      await this.#calls[name]?.(...what);
    } catch (error) {
      console.error(`${name} of ${this.#name} failed:`, error);
    }
  }
}

const same = (a, b) => Boolean(a && b) && a.number === b.number && a.sha256 === b.sha256 && a.offset === b.offset;
