// Reads records of scores with kafkajs: `node read_scores.mjs BOOTSTRAP TOPIC` prints a line of JSON for each.
import { randomUUID } from "node:crypto";
import { readScores } from "streamsvm-reader";
import kafkajs from "streamsvm-reader/kafkajs";

const [bootstrap, topic] = process.argv.slice(2);
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });
const consumer = kafka.consumer({ groupId: `interop-${randomUUID()}`, maxWaitTimeInMs: 100 });
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => console.log(JSON.stringify(readScores(message))) });
