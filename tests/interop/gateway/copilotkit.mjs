// The CopilotKit runtime with agents of a gateway, and the core of CopilotKit's client before it.
//
//   node copilotkit.mjs --project <folder with node_modules> --url <gateway>/agents/<name> --turns TEXT,TEXT… [--stop-at TEXT]
//
// The user stops a turn once its answer is the text of `--stop-at`.
// The agent is an `HttpAgent` in a runtime that this program serves; each turn goes from the client through the runtime to
// the gateway. Prints one line of JSON per turn: what the client holds of it, its error, and how the run ended.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { told } from "./told.mjs";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
// The client looks for its runtime in browsers alone, and takes this for one.
globalThis.window = globalThis;
const { values: options } = parseArgs({
  options: { project: { type: "string" }, url: { type: "string" }, turns: { type: "string" }, "stop-at": { type: "string" } },
});
const require = createRequire(join(options.project, "node_modules/x.js"));
const { CopilotRuntime, InMemoryAgentRunner } = require("@copilotkit/runtime/v2");
const { createCopilotNodeListener } = require("@copilotkit/runtime/v2/node");
const { CopilotKitCore, CopilotKitCoreRuntimeConnectionStatus: Status } = require("@copilotkit/core");
const { HttpAgent } = require("@ag-ui/client");

const runtime = new CopilotRuntime({ agents: { peer: new HttpAgent({ url: options.url }) }, runner: new InMemoryAgentRunner() });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const core = new CopilotKitCore({ runtimeUrl: `http://127.0.0.1:${server.address().port}/api/copilotkit` });
await new Promise((resolve, reject) => {
  const settle = (status) => {
    if (status === Status.Connected) resolve();
    if (status === Status.Error) reject(new Error("the runtime does not answer"));
  };
  core.subscribe({ onRuntimeConnectionStatusChanged: ({ status }) => settle(status) });
  settle(core.runtimeConnectionStatus);
});

const agent = core.getAgent("peer");
agent.threadId = `copilotkit-${process.pid}`;
const seen = { customs: [], ends: [] };
agent.subscribe({
  onMessagesChanged() {
    const { role, content } = agent.messages.at(-1);
    if (role !== "assistant" || content !== options["stop-at"] || seen.stoppedAt) return;
    seen.stoppedAt = Date.now();
    core.stopAgent({ agent });
  },
  onEvent({ event }) {
    if (event.type === "CUSTOM") seen.customs.push({ name: event.name, value: event.value });
    if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") seen.ends.push(event);
  },
});
for (const text of options.turns.split(",")) {
  const held = agent.messages.length;
  Object.assign(seen, { customs: [], ends: [], error: null });
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  try {
    await core.runAgent({ agent });
  } catch (error) {
    seen.error = String(error.message ?? error);
  }
  console.log(JSON.stringify({ ...seen, questions: [], messages: told(agent.messages.slice(held)) }));
}
process.exit(0);
