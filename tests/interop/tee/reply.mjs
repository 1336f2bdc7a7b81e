// The real AG-UI client runs an agent of a gateway, and replies to the interrupt with which the run ends.
//
//   node reply.mjs --project <folder with node_modules> --url <gateway>/agents/<name> --question <text> --reply <text>
//
// Prints one line of JSON: the interrupts of the first run, the events of both, and the client's warnings.
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";

const text = { type: "string" };
const { values: options } = parseArgs({ options: { project: text, url: text, question: text, reply: text } });
const { HttpAgent } = createRequire(join(options.project, "node_modules/x.js"))("@ag-ui/client");

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;

const thread = crypto.randomUUID();
const agent = new HttpAgent({ url: options.url, threadId: thread, initialMessages: [{ id: "q", role: "user", content: options.question }] });
const run = async (input) => {
  const events = [];
  await agent.runAgent(input, { onEvent: ({ event }) => void events.push(event) });
  return events;
};
const first = await run({ runId: `${thread}-1` });
const interrupts = first.at(-1).outcome?.interrupts ?? [];
const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: options.reply }));
const second = await run({ runId: `${thread}-2`, resume });
console.log(JSON.stringify({ interrupts, first, second, warnings }));
