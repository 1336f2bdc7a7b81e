// The real AG-UI client of one version, as `sdk/typescript` extends it, against a running gateway whose connections are
// cut.
//
//   node resume.mjs --project <folder with node_modules> --url <gateway>/agents/story [--agent plain]
//
// An uncut run by the client's own HttpAgent says what is right. Then the same run with cuts must show the same events
// and end with the same messages and state. `--agent plain` runs the client without the extension, which must not pass.
// Prints what it did as one line of JSON; ends with an error at the first thing that is wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startProxy } from "./proxy.mjs";

const { values: options } = parseArgs({
  options: { project: { type: "string" }, url: { type: "string" }, agent: { type: "string", default: "resumable" } },
});
const modules = join(options.project, "node_modules");
const version = JSON.parse(readFileSync(join(modules, "@ag-ui/client/package.json"), "utf8")).version;
const { ResumableHttpAgent, ResumeError } = await import(pathToFileURL(join(modules, "aqueduct-agui/src/index.js")));
const { HttpAgent } = createRequire(join(modules, "x.js"))("@ag-ui/client");
const QUICK = { attempts: 6, firstDelayMs: 1, maxDelayMs: 5 };

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;
let runs = 0;

function newAgent(Agent, url, resume = {}, threadId = "thread") {
  const initialMessages = [{ id: "q", role: "user", content: "what — ✅?" }];
  return new Agent({ url, threadId, initialMessages, resume: { retry: QUICK, ...resume } });
}

/** Runs once; what the application saw and holds, with the run's own id taken out. */
async function runOnce(agent) {
  runs += 1;
  const runId = `run-${version}-${runs}-${process.pid}`;
  const events = [];
  await agent.runAgent({ runId }, { onEvent: ({ event }) => void events.push(event) });
  const plain = (value) => JSON.parse(JSON.stringify(value).replaceAll(runId, "RUN"));
  return { events: plain(events), messages: plain(agent.messages), state: plain(agent.state) };
}

async function withCuts(cut, Agent = ResumableHttpAgent, resume = {}) {
  const proxy = await startProxy(options.url, cut);
  try {
    return { ...(await runOnce(newAgent(Agent, proxy.url, resume))), cuts: proxy.cuts };
  } finally {
    proxy.stop();
  }
}

const whole = await runOnce(newAgent(HttpAgent, options.url));
const count = whole.events.length;
assert.equal(whole.events.at(-1).type, "RUN_FINISHED");
assert.ok(count > 20, `${count} events`);

function same(found, what) {
  assert.deepEqual(found.events, whole.events, what);
  assert.deepEqual(found.messages, whole.messages, what);
  assert.deepEqual(found.state, whole.state, what);
}

if (options.agent === "plain") {
  same(await withCuts((n) => (n === 0 ? { events: 5 } : undefined), HttpAgent), "cut after 5 events");
}

const report = { version, events: count, cuts: 0 };

// After every event of the first connection; the last cut comes between the terminal event and the end of the body.
for (let k = 0; k <= count; k += 1) {
  const found = await withCuts((n) => (n === 0 ? { events: k } : undefined));
  same(found, `cut after event ${k}`);
  assert.equal(found.cuts, 1, `the proxy did not cut after event ${k}`);
  report.cuts += found.cuts;
}
// On every connection, after every k-th event.
for (const k of [1, 2, 3, 7]) {
  const found = await withCuts(() => ({ events: k }));
  same(found, `cut after every ${k} events`);
  assert.ok(found.cuts >= Math.floor((count - 1) / k), `${found.cuts} cuts`);
  report.cuts += found.cuts;
}
// In the middle of heads, ids, payloads and characters of several bytes; and before there is an answer at all.
for (let bytes = 1; bytes < 4000; bytes += 61) {
  const found = await withCuts((n) => (n === 0 ? { bytes } : undefined));
  same(found, `cut after byte ${bytes}`);
  report.cuts += found.cuts;
}
same(await withCuts((n) => (n < 3 ? { refuse: true } : undefined)), "refused three times");

// What cannot be taken up again is an error, never a success.
const lost = await withCuts((n) => (n === 0 ? { events: 5 } : { refuse: true })).catch((error) => error);
assert.ok(lost instanceof ResumeError, `a lost run must fail, not: ${lost}`);

await abortLeavesTheRun();
await abortCancelsIfAsked();
await cancelEndsTheRun();
// The client itself reports the failed run above, and nothing else was worth a word.
assert.equal(warnings.filter((words) => !words.includes("Agent execution failed")).join("\n"), "");
process.stdout.write(`${JSON.stringify(report)}\n`);

/** Aborts at the first word. */
async function abortEarly(agent, runId) {
  const seen = [];
  const abort = () => agent.abortRun();
  const onEvent = ({ event }) => void seen.push(event.type);
  await agent.runAgent({ runId }, { onTextMessageContentEvent: abort, onEvent }).catch(() => {});
  assert.ok(!seen.includes("RUN_FINISHED"), `${seen}`);
}

async function endOf(runId) {
  const response = await fetch(`${options.url.replace(/\/agents\/.*/, "")}/runs/${runId}/events?protocolVersion=1.0`);
  const payloads = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
  return JSON.parse(payloads.at(-1).slice(6));
}

function slowAgent(resume) {
  return newAgent(ResumableHttpAgent, options.url.replace("/agents/story", "/agents/slow"), resume, `slow-${version}`);
}

async function abortLeavesTheRun() {
  const runId = `left-${version}-${process.pid}`;
  await abortEarly(slowAgent(), runId);
  const end = await endOf(runId);
  assert.deepEqual([end.type, end.outcome?.type], ["RUN_FINISHED", "success"], "an abort alone stops nothing");
}

async function abortCancelsIfAsked() {
  const runId = `aborted-${version}-${process.pid}`;
  await abortEarly(slowAgent({ cancelOnAbort: true }), runId);
  assert.equal((await endOf(runId)).outcome?.type, "cancelled");
}

async function cancelEndsTheRun() {
  const agent = slowAgent();
  const kinds = [];
  let cancelled;
  const cancel = () => void (cancelled ??= agent.cancelRun());
  const onEvent = ({ event }) => void kinds.push(event.type);
  await agent.runAgent({ runId: `cancelled-${version}-${process.pid}` }, { onTextMessageContentEvent: cancel, onEvent });
  assert.equal(await cancelled, true);
  assert.ok(["RUN_FINISHED", "RUN_ERROR"].includes(kinds.at(-1)), `${kinds.at(-1)}`);
  assert.equal(await agent.cancelRun(), false);
}
