// Parses AsyncAPI documents by the specification's own parser: `node asyncapi.mjs FILE...`.
//
// Prints a line of JSON for each: the channels' addresses, and each complaint with its place and severity (0: an error).
import { Parser, fromFile } from "@asyncapi/parser";

for (const file of process.argv.slice(2)) {
  const { document, diagnostics } = await fromFile(new Parser(), file).parse();
  const channels = document ? document.channels().all().map((channel) => channel.address()) : [];
  const complaints = diagnostics.map(({ code, message, path, severity }) => ({ code, message, path: path.join("."), severity }));
  console.log(JSON.stringify({ channels, complaints }));
}
