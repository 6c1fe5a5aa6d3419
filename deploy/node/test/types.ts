// What people write is of these types; `npm run types` compiles it and runs nothing.
import { Follower, InvalidFeatures, Model, readScores, type Answer, type Field, type Label, type Reasons, type Scores } from "streamsvm-reader";
import kafkajs, { subscribe, type Consumer, type Readiness, type Subscriber } from "streamsvm-reader/kafkajs";

const model: Model = Model.read(Buffer.from("{}"));
const answer: Answer = model.score([1, 2, 3]);
const label: Label = model.score({ amount: 12.5, card: { country: "DE" } }).label;
interface Payment { amount: number; card: { country: string } }
const scored = (payment: Payment): Answer => model.score(payment);
const required: Field[] = model.fields.filter((one) => one.required);
const reasons: Reasons = model.reasons([1, 2, 3], 2);
const scores: Scores = readScores({ value: Buffer.from("[]"), headers: {} });
const beside: number | undefined = scores.rows[0]?.shadow?.version;
const follower = new Follower("pulsars", { trusted: "" });
follower.note({ key: Buffer.from("a"), value: null });
const offset: number | undefined = follower.wanted?.offset;

const kafka = new kafkajs.Kafka({ brokers: ["localhost:9092"] });
const subscriber: Subscriber = await subscribe(kafka, "pulsars", {
  alias: "stable",
  quietMs: 10_000,
  check: async (one) => { if (one.version < 3) throw new Error("it is too old"); },
  onVersion: (one) => one.version.toFixed(),
});
const readiness: Readiness = subscriber.readiness;
const first: Model = await subscriber.ready(1_000);
await subscriber.close();
const consumer: kafkajs.Consumer = kafka.consumer({ groupId: "g" }), named: Consumer = consumer;
await consumer.run({ eachMessage: async ({ message }) => void readScores(message).rows[0].score });

// @ts-expect-error a point is no text
model.score("1, 2, 3");
// @ts-expect-error there is no such option
await subscribe(kafka, "pulsars", { tursted: "" });
// @ts-expect-error a model is read, not made
new Model();
// @ts-expect-error it may be null before the first version
subscriber.model.score([1]);

export { InvalidFeatures, answer, beside, first, label, named, offset, readiness, reasons, required, scored, scores };
