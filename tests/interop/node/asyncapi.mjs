// Parses an AsyncAPI document by the specification's own parser: `node asyncapi.mjs FILE`.
//
// Prints one line of JSON: the addresses of the channels, and each complaint with its place and severity (0: an error).
import { Parser, fromFile } from "@asyncapi/parser";

const { document, diagnostics } = await fromFile(new Parser(), process.argv[2]).parse();
const complaints = diagnostics.map(({ code, message, path, severity }) => ({ code, message, path: path.join("."), severity }));
const channels = document ? document.channels().all().map((channel) => channel.address()) : [];
console.log(JSON.stringify({ channels, complaints }));
