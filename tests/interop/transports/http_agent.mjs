// The real AG-UI client of one version against a running endpoint, over real HTTP.
//
//   node http_agent.mjs --project <folder with node_modules> --url <endpoint> --ask <question> --expect <answer>
//                       [--query <what the agent searches for>] [--whole]
//
// Runs once to the end and compares what the client holds; then, unless `--whole`, runs again and leaves in the middle of
// the answer.
// Prints what it saw as one line of JSON; ends with an error if that is not what was expected.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    project: { type: "string" },
    url: { type: "string" },
    ask: { type: "string" },
    expect: { type: "string" },
    query: { type: "string", default: "answer" },
    whole: { type: "boolean", default: false },
  },
});
const manifest = join(options.project, "node_modules/@ag-ui/client/package.json");
const version = JSON.parse(readFileSync(manifest, "utf8")).version;
const { HttpAgent } = createRequire(manifest)("@ag-ui/client");

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;

function newAgent(threadId) {
  const initialMessages = [{ id: "q", role: "user", content: options.ask }];
  return new HttpAgent({ url: options.url, threadId, initialMessages });
}

async function wholeRun() {
  const agent = newAgent("whole");
  const kinds = [];
  await agent.runAgent({ runId: `whole-${version}` }, { onEvent: ({ event }) => void kinds.push(event.type) });
  const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
  const said = agent.messages.filter((message) => message.role === "assistant" && message.content);
  const results = agent.messages.filter((message) => message.role === "tool");
  const thoughts = agent.messages.filter((message) => message.role === "reasoning");
  assert.equal(said.map((message) => message.content).join(""), options.expect);
  assert.deepEqual(calls.map((call) => [call.function.name, call.function.arguments]), [["search", JSON.stringify({ query: options.query })]]);
  assert.deepEqual(results.map((message) => [message.toolCallId, message.content]), [[calls[0].id, "42"]]);
  assert.deepEqual(thoughts.map((message) => message.content), ["Let me look that up."]);
  assert.equal(kinds.at(-1), "RUN_FINISHED");
  assert.deepEqual(warnings, []);
  return kinds.length;
}

async function leftRun() {
  const agent = newAgent("left");
  let seen = 0;
  const leave = () => {
    seen += 1;
    if (seen === 1) agent.abortRun();
  };
  // Versions differ in whether they tell of an abort as an error; that the run did not end is what counts.
  const kinds = [];
  const onEvent = ({ event }) => void kinds.push(event.type);
  await agent.runAgent({ runId: `left-${version}` }, { onTextMessageContentEvent: leave, onEvent }).catch(() => {});
  assert.ok(seen > 0, "the answer never began");
  assert.ok(!kinds.includes("RUN_FINISHED"), "the run ended before it was left");
  return kinds.length;
}

const report = { version, events: await wholeRun() };
if (!options.whole) report.eventsBeforeLeaving = await leftRun();
process.stdout.write(`${JSON.stringify(report)}\n`);
