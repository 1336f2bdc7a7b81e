// The WebSocket agent of `sdk/typescript` in the real AG-UI client of one version, against a running gateway whose sockets are cut.
//
//   node --experimental-websocket websocket.mjs --project <folder with node_modules> --url <gateway>/agents/story [--expect <text>]
//
// An uncut run by the client's own HttpAgent says what is right, in the client's own dialect. Then the same over a socket that is cut
// at many bytes, several runs on one socket, an answer to a question, a stop. Prints what it did as one line of JSON; ends with an error
// at the first thing that is wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startProxy } from "./proxy.mjs";

const text = { type: "string" };
const { values: options } = parseArgs({ options: { project: text, url: text, expect: { ...text, default: "The end." } } });
const modules = join(options.project, "node_modules");
const { GatewaySocket, WebSocketAgent } = await import(pathToFileURL(join(modules, "aqueduct-agui/src/index.js")));
const { HttpAgent } = createRequire(join(modules, "x.js"))("@ag-ui/client");
const retry = { attempts: 6, firstDelayMs: 1, maxDelayMs: 5 };
const gateway = options.url.replace(/\/agents\/.*/, "");
const socketAt = (base) => `${base.replace(/^http/, "ws")}/ws`;
let runs = 0;

const question = (words = "what — ✅?") => [{ id: "q", role: "user", content: words }];
const newRunId = () => `ws-${process.pid}-${(runs += 1)}`;

async function runOnce(agent, parameters = {}) {
  const runId = newRunId();
  const events = [];
  await agent.runAgent({ runId, ...parameters }, { onEvent: ({ event }) => void events.push(event) });
  const plain = (value) => JSON.parse(JSON.stringify(value).replaceAll(runId, "RUN"));
  return { events: plain(events), messages: plain(agent.messages), state: plain(agent.state), end: events.at(-1) };
}

const over = (url, agent = "story", more = {}) =>
  new WebSocketAgent({ url, agent, retry, threadId: `thread-${newRunId()}`, initialMessages: question(), ...more });

// The version that the client declares over HTTP is part of the transport there: it is declared here too.
let declared;
const spying = { fetch: (url, init) => ((declared = JSON.parse(init.body).protocolVersion), fetch(url, init)) };
const whole = await runOnce(new HttpAgent({ url: options.url, threadId: "thread", initialMessages: question(), ...spying }));
assert.equal(whole.messages.at(-1).content.endsWith(options.expect), true, whole.messages.at(-1).content);
const version = declared === undefined ? {} : { protocolVersion: declared };

function same(found, what) {
  const threadless = ({ threadId, ...event }) => event;
  assert.deepEqual(found.events.map(threadless), whole.events.map(threadless), what);
  assert.deepEqual(found.messages, whole.messages, what);
  assert.deepEqual(found.state, whole.state, what);
}

const report = { declared, cuts: 0 };
const plain = over(socketAt(gateway), "story", version);
same(await runOnce(plain), "uncut");
plain.socket.close();

for (let bytes = 1; bytes < 5000; bytes += 97) {
  const proxy = await startProxy(gateway, (n) => (n === 0 ? { bytes } : undefined));
  const agent = over(socketAt(proxy.url), "story", version);
  same(await runOnce(agent), `cut after byte ${bytes}`);
  report.cuts += proxy.cuts;
  agent.socket.close();
  proxy.stop();
}
assert.ok(report.cuts > 20, `${report.cuts} cuts`);

// Several runs at once on one socket, one of which asks and is answered there; and one that is stopped.
const proxy = await startProxy(gateway, () => undefined);
const socket = new GatewaySocket({ url: socketAt(proxy.url), retry });
const shared = (agent, more) => over(undefined, agent, { socket, ...version, ...more });
const asking = shared("question");
const slow = shared("slow");
const stopped = runOnce(slow, {});
const [first, second, asked] = await Promise.all([runOnce(shared("story")), runOnce(shared("story").clone()), runOnce(asking)]);
same(first, "one of several");
same(second, "another of several");
const { outcome } = asked.end;
report.asked = outcome?.type ?? asked.messages.at(-1).content;
// Without a version the question is a text, and the next message its answer.
if (outcome === undefined) asking.addMessage({ id: "a", role: "user", content: "At noon." });
const resume = outcome?.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: "At noon." }));
const { end: answered } = await runOnce(asking, { resume });
assert.deepEqual([answered.type, answered.outcome?.type ?? "success"], ["RUN_FINISHED", "success"]);
slow.cancelRun();
const { end } = await stopped;
assert.ok(end.code === "cancelled" || end.outcome?.type === "cancelled", JSON.stringify(end));
assert.equal(proxy.connections, 1, "all of it went over one socket");
socket.close();
proxy.stop();

// An agent that is not there is an error that names it.
const nobody = over(socketAt(gateway), "nobody", version);
console.error = () => {};
const refused = await nobody.runAgent({ runId: newRunId() }).then(() => "no error", String);
assert.match(refused, /refused the run/);
nobody.socket.close();
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);
