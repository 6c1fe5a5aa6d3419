// A reader of committed records in Node.js (kafkajs): prints one line of JSON for each record that it is given.
//
//     node reader.mjs BOOTSTRAP TOPIC...
// Each time it joins its group it begins anew, for it commits nothing, and says so: {"joined": true}.
import { createHash, randomUUID } from "node:crypto";
import kafkajs from "streamsvm-reader/kafkajs";

const [bootstrap, ...topics] = process.argv.slice(2);
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.NOTHING });
const consumer = kafka.consumer({ groupId: `histories-${randomUUID()}`, maxWaitTimeInMs: 100, sessionTimeout: 60000 });
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

consumer.on(consumer.events.CRASH, () => process.exit(1)); // whoever started it starts it again
consumer.on(consumer.events.GROUP_JOIN, () => say({ joined: true }));
await consumer.connect();
await consumer.subscribe({ topics, fromBeginning: true });
await consumer.run({
  autoCommit: false,
  eachMessage: async ({ topic, partition, message: { offset, key, value } }) =>
    say({
      topic, partition, offset: Number(offset), key: key === null ? null : key.toString(),
      sha256: value === null ? null : createHash("sha256").update(value).digest("hex"),
    }),
});
