// What people write is of these types; `npm run types` compiles it and runs nothing.
import { Follower, InvalidFeatures, Model, readScores, type Answer, type Label, type Reasons, type Scores } from "streamsvm-reader";
import kafkajs, { subscribe, type Subscriber } from "streamsvm-reader/kafkajs";

const model: Model = Model.read(Buffer.from("{}"));
const answer: Answer = model.score([1, 2, 3]);
const label: Label = model.score({ amount: 12.5, card: { country: "DE" } }).label;
const reasons: Reasons = model.reasons([1, 2, 3], 2);
const scores: Scores = readScores({ value: Buffer.from("[]"), headers: {} });
const follower = new Follower("pulsars", { trusted: "" });
follower.note({ key: Buffer.from("a"), value: null });
const offset: number | undefined = follower.wanted?.offset;

const kafka = new kafkajs.Kafka({ brokers: ["localhost:9092"] });
const subscriber: Subscriber = await subscribe(kafka, "pulsars", { onVersion: (one) => one.version.toFixed() });
const first: Model = await subscriber.ready(1_000);
await subscriber.close();
const consumer = kafka.consumer({ groupId: "g" });
await consumer.run({ eachMessage: async ({ message }) => void readScores(message).rows[0].score });

// @ts-expect-error a point is no text
model.score("1, 2, 3");
// @ts-expect-error a model is read, not made
new Model();
// @ts-expect-error it may be null before the first version
subscriber.model.score([1]);

export { InvalidFeatures, answer, first, label, offset, reasons, scores };
