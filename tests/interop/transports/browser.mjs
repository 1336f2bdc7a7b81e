// A headless Chromium against a running WebSocket endpoint.
//
//   node browser.mjs --project <folder with node_modules> --chromium <program> --url <ws://host:port/ws>
//                    --say <words> --expect <text> [--agent <name>]
//
// A page of this machine talks to the socket and reports the events; a page of a foreign origin is refused by the
// server (403 in the handshake). Prints what it saw as one line of JSON; ends with an error if that is not what was expected.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    project: { type: "string" },
    chromium: { type: "string" },
    url: { type: "string" },
    say: { type: "string" },
    expect: { type: "string" },
    agent: { type: "string", default: "echo" },
  },
});
const { chromium } = createRequire(join(options.project, "package.json"))("playwright-core");

const PAGE = "<!doctype html><title>a page</title>";
const FOREIGN = "http://evil.example/";
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  // Local Network Access would stop a foreign page before it reaches the server, whose own check is what we test.
  "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
];

/** Runs inside the page: one run of the agent, to its end. */
function talk({ url, say, agent }) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, ["aqueduct.v1.json"]);
    const events = [];
    socket.onclose = (event) => resolve({ closed: event.code, events });
    socket.onopen = () => {
      const messages = [{ id: "1", role: "user", content: say }];
      const rest = { tools: [], context: [], state: {}, forwardedProps: {}, protocolVersion: "1.0" };
      const input = { threadId: "t", runId: "browser", messages, ...rest };
      socket.send(JSON.stringify({ type: "start", ref: "a", agent, input }));
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "event") events.push(message);
      else if (message.type !== "started") resolve({ ended: message, protocol: socket.protocol, events });
    };
  });
}

/** The statuses with which handshakes of the page are answered. */
async function handshakes(page) {
  const statuses = [];
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  session.on("Network.webSocketHandshakeResponseReceived", ({ response }) => statuses.push(response.status));
  session.on("Network.webSocketFrameError", ({ errorMessage }) => {
    const status = /Unexpected response code: (\d+)/.exec(errorMessage)?.[1];
    statuses.push(status === undefined ? errorMessage : Number(status));
  });
  return statuses;
}

async function ownPage(context, address) {
  const page = await context.newPage();
  await page.goto(address);
  const seen = await page.evaluate(talk, { ...options });
  assert.equal(seen.ended?.type, "ended", JSON.stringify(seen));
  assert.equal(seen.protocol, "aqueduct.v1.json");
  const words = seen.events.filter(({ data }) => data.type === "TEXT_MESSAGE_CONTENT");
  assert.equal(words.map(({ data }) => data.delta).join(""), options.expect);
  assert.equal(seen.events.at(-1).data.type, "RUN_FINISHED");
  return seen.events.length;
}

async function foreignPage(context) {
  const page = await context.newPage();
  await page.route(FOREIGN, (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
  await page.goto(FOREIGN);
  const statuses = await handshakes(page);
  const seen = await page.evaluate(talk, { ...options });
  assert.equal(seen.closed, 1006, JSON.stringify(seen));
  assert.deepEqual(statuses, [403]);
}

const server = createServer((_, response) => response.setHeader("content-type", "text/html").end(PAGE));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const profile = mkdtempSync(join(tmpdir(), "aqueduct-browser-"));
const context = await chromium.launchPersistentContext(profile, { executablePath: options.chromium, args: FLAGS });
try {
  const events = await ownPage(context, `http://127.0.0.1:${server.address().port}/`);
  await foreignPage(context);
  process.stdout.write(`${JSON.stringify({ chromium: context.browser()?.version(), events })}\n`);
} finally {
  await context.close();
  server.close();
  rmSync(profile, { recursive: true, force: true });
}
