// The real AG-UI client gives an agent behind the gateway state, context, tools and properties, and reads what comes back.
//
//   node duplex.mjs FOLDER-WITH-NODE-MODULES URL [paint]
//
// Prints one line of JSON: the answer, the state that the client holds, and the types of the state events; with `paint` also the
// call of its tool, and the answer to its result.
import { createRequire } from "node:module";
import { join } from "node:path";

const [project, url, paint] = process.argv.slice(2);
const { HttpAgent } = createRequire(join(project, "node_modules/x.js"))("@ag-ui/client");

const tools = [
  { name: "pick_colour", description: "Lets the user pick a colour.", parameters: { type: "object", properties: { of: { type: "string", enum: ["door", "wall"] } } } },
];
const context = [{ description: "in the", value: "kitchen" }];
const common = { tools, context, forwardedProps: { theme: "dark" } };

async function run(words, thread) {
  const agent = new HttpAgent({ url, threadId: thread, initialState: { city: "Paris", count: 1 } });
  agent.addMessage({ id: "q", role: "user", content: words });
  const types = [];
  const onEvent = ({ event }) => void (event.type.startsWith("STATE_") && types.push(event.type));
  await agent.runAgent({ runId: `${thread}-1`, ...common }, { onEvent });
  return { agent, types };
}

const last = (agent) => agent.messages.findLast(({ role, content }) => role === "assistant" && content)?.content;
const seen = {};
{
  const { agent, types } = await run("count", crypto.randomUUID());
  Object.assign(seen, { answer: last(agent), state: agent.state, types });
}
if (paint) {
  const thread = crypto.randomUUID();
  const { agent } = await run("paint", thread);
  const call = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []).at(-1);
  seen.call = { name: call.function.name, arguments: JSON.parse(call.function.arguments) };
  agent.addMessage({ id: "r", role: "tool", toolCallId: call.id, content: "blue" });
  await agent.runAgent({ runId: `${thread}-2`, ...common });
  seen.painted = last(agent);
}
console.log(JSON.stringify(seen));
process.exit(0);
