// Prints the value of each record that a consumer of the client library gives out.
import { randomUUID } from "node:crypto";

const [library, bootstrap, topic] = process.argv.slice(2);
const { default: kafkajs } = await import(library);
const kafka = new kafkajs.Kafka({ brokers: [bootstrap], logLevel: kafkajs.logLevel.NOTHING });
const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 100 });
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
const print = ({ message }) => console.log(JSON.stringify({ value: message.value.toString() }));
await consumer.run({ autoCommit: false, eachMessage: async (given) => print(given) });
