// What index.d.ts describes. Reads versions, scores with them, and reads scores. It has no client: `streamsvm-reader/kafkajs` is an adapter for one.
export { Follower } from "./follower.mjs";
export { InvalidFeatures, RefusedMessage } from "./message.mjs";
export { Model } from "./model.mjs";
export { readScores } from "./scores.mjs";
