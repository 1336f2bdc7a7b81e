// The real AG-UI client of one version finds a thread again: a second agent with nothing but the thread's id must end up
// with what the first one holds, whatever is cut on the way.
//
//   node thread.mjs --project <folder with node_modules> --url <gateway>/agents/story [--expect nothing]
//
// `--expect nothing` compares with an empty thread, which must not pass. Prints what it did as one line of JSON.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startProxy } from "./proxy.mjs";

const { values: options } = parseArgs({
  options: { project: { type: "string" }, url: { type: "string" }, expect: { type: "string" } },
});
const modules = join(options.project, "node_modules");
const version = JSON.parse(readFileSync(join(modules, "@ag-ui/client/package.json"), "utf8")).version;
const { ResumableHttpAgent } = await import(pathToFileURL(join(modules, "aqueduct-agui/src/index.js")));
const resume = { retry: { attempts: 6, firstDelayMs: 1, maxDelayMs: 5 } };

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;
let runs = 0;

const newAgent = (threadId, url = options.url) => new ResumableHttpAgent({ url, threadId, resume });

async function ask(agent, words, subscriber) {
  runs += 1;
  agent.addMessage({ id: `q-${runs}-${process.pid}-${version}`, role: "user", content: words });
  await agent.runAgent({ runId: `thread-${version}-${runs}-${process.pid}` }, subscriber);
}

/** Connects a fresh agent through a proxy; what it holds afterwards. */
async function found(threadId, cut = () => undefined, url = options.url) {
  const proxy = await startProxy(url, cut);
  try {
    const agent = newAgent(threadId, proxy.url);
    const kinds = [];
    await agent.connectAgent({}, { onEvent: ({ event }) => void kinds.push(event.type) });
    return { agent, kinds, cuts: proxy.cuts };
  } finally {
    proxy.stop();
  }
}

function same(second, first, what) {
  assert.deepEqual(second.messages, options.expect === "nothing" ? [] : first.messages, what);
  assert.deepEqual(second.state, first.state, what);
  assert.deepEqual(second.pendingInterrupts, first.pendingInterrupts, what);
}

/** Ended runs, restated, with a cut after every event and at many bytes. */
async function endedRuns() {
  const threadId = `ended-${version}-${process.pid}`;
  const first = newAgent(threadId);
  await ask(first, "one");
  await ask(first, "two — ✅");
  const whole = await found(threadId);
  same(whole.agent, first, "restated");
  assert.deepEqual(whole.kinds, ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]);
  const cuts = [...Array(5).keys()].map((events) => ({ events }));
  for (let bytes = 1; bytes < 6000; bytes += 301) cuts.push({ bytes });
  for (const limit of cuts) {
    const again = await found(threadId, (n) => (n === 0 ? limit : undefined));
    same(again.agent, first, JSON.stringify(limit));
    assert.deepEqual(again.kinds, whole.kinds, JSON.stringify(limit));
  }
  // The thread goes on from what was restated.
  whole.agent.url = options.url;
  await ask(whole.agent, "three");
  same((await found(threadId)).agent, whole.agent, "after one more run");
  return cuts.length;
}

/** A run under way, joined by others while it speaks; one of them is cut at every third event. */
async function runUnderWay() {
  const threadId = `live-${version}-${process.pid}`;
  const first = newAgent(threadId);
  await ask(first, "first");
  first.url = options.url.replace("/agents/story", "/agents/slow");
  const joined = [];
  const join = () => {
    if (joined.length === 0) joined.push(found(threadId), found(threadId, () => ({ events: 3 })));
  };
  await ask(first, "slowly", { onTextMessageContentEvent: join });
  for (const { agent, kinds } of await Promise.all(joined)) {
    same(agent, first, "joined");
    assert.equal(kinds.at(-1), "RUN_FINISHED");
    assert.ok(kinds.filter((kind) => kind === "TEXT_MESSAGE_CONTENT").length > 3, `${kinds}`);
  }
  return joined.length;
}

/** A question that nobody answered yet is there again. */
async function openQuestion() {
  const url = options.url.replace("/agents/story", "/agents/question");
  const threadId = `asked-${version}-${process.pid}`;
  const first = newAgent(threadId, url);
  await ask(first, "go");
  const second = (await found(threadId, undefined, url)).agent;
  same(second, first, "asked");
  return second.pendingInterrupts?.length ?? 0;
}

const report = { version, cuts: await endedRuns(), joined: await runUnderWay(), questions: await openQuestion() };
await assert.rejects(newAgent("nobodys").connectAgent(), /404/);
assert.equal(warnings.filter((words) => !words.includes("Agent execution failed")).join("\n"), "");
process.stdout.write(`${JSON.stringify(report)}\n`);
