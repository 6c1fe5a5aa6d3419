// A subscriber that prints a line of JSON for all that it is told, and for what it says of itself where that changes:
//
//     node live.mjs BOOTSTRAP MODELS_TOPIC NAME ALIAS|NUMBER QUIET_MS [DECLINED]   the version DECLINED is refused
import { setTimeout as sleep } from "node:timers/promises";
import kafkajs, { subscribe } from "streamsvm-reader/kafkajs";

const [bootstrap, modelsTopic, name, followed, quietMs, declined] = process.argv.slice(2);
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(",") });
const say = (what) => console.log(JSON.stringify(what));

const subscriber = await subscribe(kafka, name, {
  modelsTopic, quietMs: Number(quietMs), ...(/^\d/.test(followed) ? { version: Number(followed) } : { alias: followed }),
  check: ({ version }) => { if (version === Number(declined)) throw new Error("we want another"); },
  onVersion: ({ name, version }) => say({ serves: `${name}@${version}` }),
  onRefused: (refused) => say({ refused }),
  onWaiting: (waits) => say({ waits }),
  onHeard: () => say({ hears: true }),
});
for (let before = ""; ; await sleep(100)) {
  const { lastHeard, ageMs, ...state } = subscriber.readiness, now = JSON.stringify({ state: { ...state, heard: lastHeard !== null, aged: ageMs !== null } });
  if (now !== before) console.log(now);
  before = now;
}
