// The real AG-UI client of one version runs an agent of a gateway once.
//
//   node watch.mjs --project <folder with node_modules> --url <gateway>/agents/<name> --question <text>
//
// Prints one line of JSON: the client's version, the events that reached the application, in order, the messages that it
// holds afterwards, and its warnings.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: { project: { type: "string" }, url: { type: "string" }, question: { type: "string" } },
});
const modules = join(options.project, "node_modules");
const version = JSON.parse(readFileSync(join(modules, "@ag-ui/client/package.json"), "utf8")).version;
const { HttpAgent } = createRequire(join(modules, "x.js"))("@ag-ui/client");

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;

const initialMessages = [{ id: "q", role: "user", content: options.question }];
const agent = new HttpAgent({ url: options.url, threadId: `thread-${process.pid}-${version}`, initialMessages });
const events = [];
await agent.runAgent({ runId: `run-${process.pid}-${version}` }, { onEvent: ({ event }) => void events.push(event) });
console.log(JSON.stringify({ version, events, messages: agent.messages, warnings }));
