// Measures what the real JavaScript packages need for a recorded stream.
//
//   node bench.mjs --project <folder with node_modules> decode <file with the SSE body of an A2A 1.0 stream>
//   node bench.mjs --project <folder with node_modules> bridge <file with the SSE body of an A2A 0.3 stream>
//
// `decode` reads it with the client of @a2a-js/sdk; `bridge` with the A2A agent of @ag-ui/a2a (which brings an older
// client), and writes what that makes of it with @ag-ui/encoder. Both get the bytes from memory, in chunks of 64 KiB.
// Prints one JSON object: {"what", "events", "nsPerEvent"}: the best of several rounds, after rounds that only warm the
// compiler up.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({ options: { project: { type: "string" } }, allowPositionals: true });
const [what, file] = positionals;
const require = createRequire(join(values.project, "package.json"));
const body = readFileSync(file);

const CHUNK = 64 * 1024;
function streamed() {
  let at = 0;
  const stream = new ReadableStream({
    pull(controller) {
      if (at >= body.length) return controller.close();
      controller.enqueue(new Uint8Array(body.subarray(at, at + CHUNK)));
      at += CHUNK;
    },
  });
  return new Response(stream, { headers: { "content-type": "text/event-stream" } });
}

const card = {
  name: "agent",
  url: "http://agent/",
  version: "1",
  capabilities: { streaming: true },
  skills: [],
  supportedInterfaces: [{ url: "http://agent/", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
};
const message = { messageId: "m1", role: 1, parts: [{ content: { $case: "text", value: "go" } }] };

async function decode() {
  const { JsonRpcTransportFactory } = require("@a2a-js/sdk/client");
  const factory = new JsonRpcTransportFactory({ fetchImpl: async () => streamed() });
  const transport = await factory.create("http://agent/", card);
  let events = 0;
  for await (const _ of transport.sendMessageStream({ tenant: "", message, configuration: undefined, metadata: undefined })) events++;
  return events;
}

async function bridge() {
  const { A2AAgent } = require("@ag-ui/a2a");
  const { A2AClient } = createRequire(require.resolve("@ag-ui/a2a"))("@a2a-js/sdk/client");
  const { EventEncoder } = require("@ag-ui/encoder");
  globalThis.fetch = async (url) => (String(url).includes("well-known") ? Response.json(card) : streamed());
  const agent = new A2AAgent({ a2aClient: new A2AClient("http://agent") });
  const encoder = new EventEncoder({ accept: "text/event-stream" });
  const input = { threadId: "t", runId: "r", state: {}, tools: [], context: [], forwardedProps: {}, messages: [{ id: "u", role: "user", content: "go" }] };
  let bytes = 0;
  await new Promise((resolve, reject) => {
    agent.run(input).subscribe({
      next: (event) => (bytes += encoder.encodeSSE(event).length),
      error: reject,
      complete: resolve,
    });
  });
  if (bytes < body.length / 10) throw new Error(`the bridge wrote only ${bytes} bytes`);
}

const events = body.toString("utf8").split("\n\n").filter(Boolean).length;
let best = Infinity;
for (let round = 0; round < 5; round++) {
  const start = process.cpuUsage();
  const read = what === "decode" ? await decode() : await bridge();
  if (what === "decode" && read !== events) throw new Error(`${read} of ${events} events were read`);
  const used = process.cpuUsage(start);
  if (round >= 2) best = Math.min(best, (used.user + used.system) * 1000);
}
console.log(JSON.stringify({ what, events, nsPerEvent: best / events }));
