// As `types.ts`, of programs that are compiled to CommonJS: Node.js 20.19 requires ECMAScript modules.
import { InvalidFeatures, Model, type Answer } from "streamsvm-reader";
import kafkajs, { subscribe, type Subscriber } from "streamsvm-reader/kafkajs";

const answer: Answer = Model.read("{}").score([1, 2, 3]);
const kafka: kafkajs.Kafka = new kafkajs.Kafka({ brokers: ["localhost:9092"] });
const subscriber: Promise<Subscriber> = subscribe(kafka, "pulsars");

// @ts-expect-error an answer is no number
const wrong: number = answer;

export { InvalidFeatures, subscriber, wrong };
