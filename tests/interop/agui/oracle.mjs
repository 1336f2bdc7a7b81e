// Lets the real AG-UI client of one version judge streams.
//
//   node oracle.mjs --project <folder with node_modules> [--self-test]
//
// Reads cases from standard input, one JSON object per line:
//   {"name", "input"?: RunAgentInput, "events": [event, ...]}   events in order, framed as SSE here
//   {"name", "input"?: RunAgentInput, "sse": "raw text"}        the response body as it is
//   {"name", "input"?: RunAgentInput, "proto_hex": "00.."}      the protobuf response body, length prefixes included
// and writes one verdict per line, in the same order; see `judge`.
//
// Only the network is replaced, by a `fetch` that answers with the case's bytes. Everything behind it is the real
// client: transport parser, schemas, chunk expansion, order rules, and the application of events to messages and state.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const SSE = "text/event-stream";
const PROTO = "application/vnd.ag-ui.event+proto";
// A run over bytes in memory takes milliseconds. Longer means that the client waits for something that never comes.
const DEADLINE_MS = 10_000;

const { values: options } = parseArgs({
  options: { project: { type: "string" }, "self-test": { type: "boolean", default: false } },
});
if (!options.project) throw new Error("--project is missing: the folder with the client's node_modules");
const manifest = join(options.project, "node_modules/@ag-ui/client/package.json");
const version = JSON.parse(readFileSync(manifest, "utf8")).version;
const { HttpAgent } = createRequire(manifest)("@ag-ui/client");

/** What the client prints while a case runs, and what it throws where nobody can catch it. */
const heard = { warnings: [], uncaught: [] };
const listen = (...words) => heard.warnings.push(words.map(asText).join(" "));
console.warn = listen;
console.error = listen;
console.log = listen;
process.on("uncaughtException", (error) => heard.uncaught.push(asText(error)));
process.on("unhandledRejection", (error) => heard.uncaught.push(asText(error)));

function asText(value) {
  if (value instanceof Error) return value.message;
  return typeof value === "string" ? value : JSON.stringify(value);
}

function body(testCase) {
  if (testCase.proto_hex !== undefined) return { type: PROTO, bytes: Buffer.from(testCase.proto_hex, "hex") };
  const sse = testCase.sse ?? testCase.events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  return { type: SSE, bytes: Buffer.from(sse, "utf8") };
}

/** Runs one case. `ok` says whether the client took the stream to its end without an error. */
async function judge(testCase) {
  heard.warnings.length = 0;
  heard.uncaught.length = 0;
  const { threadId = "thread", messages = [], state = {}, ...parameters } = testCase.input ?? {};
  const seen = { request: null, events: 0, lastEvent: null, runError: null };
  const fetch = async (_url, init) => {
    seen.request = JSON.parse(init.body);
    const { type, bytes } = body(testCase);
    return new Response(bytes, { status: 200, headers: { "content-type": type } });
  };
  const agent = new HttpAgent({ url: "http://stub.invalid/", threadId, initialMessages: messages, initialState: state, fetch });
  const error = await failureOf(() => agent.runAgent({ runId: "run", ...parameters }, subscriber(seen)));
  return {
    name: testCase.name,
    ok: error === null,
    error,
    warnings: [...heard.warnings],
    messages: agent.messages,
    state: agent.state,
    events: seen.events,
    lastEvent: seen.lastEvent,
    runError: seen.runError,
    pendingInterrupts: agent.pendingInterrupts,
    request: seen.request,
  };
}

function subscriber(seen) {
  return {
    onEvent({ event }) {
      seen.events += 1;
      seen.lastEvent = event.type;
    },
    onRunErrorEvent({ event }) {
      seen.runError = event;
    },
  };
}

async function failureOf(run) {
  let timer;
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the client did not come to an end in ${DEADLINE_MS} ms`)), DEADLINE_MS);
  });
  try {
    await Promise.race([run(), deadline]);
    // Errors thrown inside the client's own callbacks surface in a later turn of the event loop.
    await new Promise(setImmediate);
    return heard.uncaught.length > 0 ? `uncaught: ${heard.uncaught.join("; ")}` : null;
  } catch (error) {
    return asText(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Compares the verdicts on known cases with what this version is known to say. */
async function selfTest() {
  const file = join(dirname(fileURLToPath(import.meta.url)), "matrix.jsonl");
  const cases = readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const counts = { ok: 0, warning: 0, refused: 0 };
  const wrong = [];
  for (const testCase of cases) {
    const expected = testCase.expect[version];
    if (expected === undefined) throw new Error(`${testCase.name}: no expectation for ${version}`);
    const verdict = await judge(testCase);
    const found = !verdict.ok ? "refused" : verdict.warnings.length > 0 ? "warning" : "ok";
    counts[found] += 1;
    const text = testCase.text?.[version] ?? testCase.text?.any;
    const texts = verdict.messages.map((message) => message.content);
    if (found !== expected) wrong.push(`${testCase.name}: ${found}, not ${expected}: ${verdict.error ?? verdict.warnings}`);
    else if (text && JSON.stringify(texts) !== JSON.stringify(text)) wrong.push(`${testCase.name}: texts are ${JSON.stringify(texts)}`);
  }
  const summary = `${counts.ok} accepted, ${counts.warning} with warnings, ${counts.refused} refused`;
  process.stdout.write(`agui client ${version}: ${cases.length} known cases, ${summary}\n`);
  if (wrong.length > 0) {
    process.stderr.write(`the oracle disagrees with what is known of ${version}:\n  ${wrong.join("\n  ")}\n`);
    process.exitCode = 1;
  }
}

if (options["self-test"]) {
  await selfTest();
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== "") process.stdout.write(`${JSON.stringify(await judge(JSON.parse(line)))}\n`);
  }
}
