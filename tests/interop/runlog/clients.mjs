// Many clients through `sdk/typescript`, in the real AG-UI client, behind a small load balancer: it hands each connection
// to the next gateway that takes it, as an operator's would.
//
//   node clients.mjs --project <folder with node_modules> --agents <names> --runs <count> --prefix <run ids>
//
// Standard input: a JSON array per line, the addresses (`host:port`) of the gateways that are alive. The runs begin with
// the first line; agents take turns. Standard output: a line of JSON for each run that begins (`{ begun }`) and for each
// that ends (`{ run, agent, events, text, longestPauseMs, cuts, failure }`).
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const names = ["project", "agents", "runs", "prefix"];
const { values: options } = parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: "string" }])) });
const modules = join(options.project, "node_modules");
const { version } = JSON.parse(readFileSync(join(modules, "@ag-ui/client/package.json"), "utf8"));
const { ResumableHttpAgent } = await import(pathToFileURL(join(modules, "aqueduct-agui/src/index.js")));
const agents = options.agents.split(",");

let [alive, turn] = [[], 0];

/** Connects to the next gateway; one that does not take the connection is skipped. */
function reach(tries, use, giveUp) {
  if (tries === 0) return giveUp();
  turn += 1;
  const [host, port] = alive[turn % alive.length].split(":");
  const server = connect(Number(port), host);
  const next = () => reach(tries - 1, use, giveUp);
  server.once("error", next);
  server.once("connect", () => {
    server.off("error", next);
    use(server);
  });
}

/** A connection lives and dies with the gateway that it was handed to. */
function balance(client) {
  client.on("error", () => client.destroy());
  const use = (server) => {
    server.on("error", () => server.destroy());
    server.on("close", () => client.destroy());
    client.on("close", () => server.destroy());
    client.pipe(server).pipe(client);
  };
  reach(2 * alive.length, use, () => client.destroy());
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function follow(run, agent, url) {
  let [begun, last, longestPauseMs, cuts, failure] = [false, 0, 0, 0, undefined];
  const events = [];
  const onEvent = ({ event }) => {
    const now = performance.now();
    if (!begun) say({ begun: run });
    else longestPauseMs = Math.max(longestPauseMs, now - last);
    [begun, last] = [true, now];
    events.push(event);
  };
  const resume = { retry: { attempts: 20, firstDelayMs: 50, maxDelayMs: 500 }, onReconnect: () => void (cuts += 1) };
  const initialMessages = [{ id: "m1", role: "user", content: "hello" }];
  const client = new ResumableHttpAgent({ url: `${url}/agents/${agent}`, threadId: run, initialMessages, resume });
  await client.runAgent({ runId: run }, { onEvent }).catch((error) => void (failure = `${error}`));
  const said = client.messages.filter(({ role }) => role === "assistant").map(({ content }) => content ?? "");
  say({ run, agent, events, text: said, longestPauseMs, cuts, failure });
}

// A run that ends with an error is what some of these are for.
console.warn = console.error = () => {};
const server = createServer(balance);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
alive = JSON.parse((await lines.next()).value);
const url = `http://127.0.0.1:${server.address().port}`;
const runs = Array.from({ length: Number(options.runs) }, (_, index) =>
  follow(`${options.prefix}-${version}-${index}`, agents[index % agents.length], url),
);
(async () => {
  for await (const line of lines) alive = JSON.parse(line);
})();
await Promise.all(runs);
process.exit(0);
