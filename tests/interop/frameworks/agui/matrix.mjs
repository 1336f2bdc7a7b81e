// One framework, every scenario, two real clients: what the client holds with the gateway between, and without.
//
//   node matrix.mjs --framework <name> --python <python with the framework> --gateway <aqueduct>
//                   --client-1.0.0 <node project> --client-0.0.59 <node project> [--only <scenario>]... [--verbose]
//
// Writes one line of JSON per cell, {"framework", "scenario", "client", "red": [what is wrong]}, and ends with 1 if a cell is red.
// What a scenario must come to is written in `matrix.json`, once for all frameworks; `frameworks.json` says what a framework cannot do.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { compare, judge } from "./judge.mjs";
import { loadClient, talk } from "./talk.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const CLIENTS = ["1.0.0", "0.0.59"];
const { values: options } = parseArgs({
  options: {
    framework: { type: "string" }, python: { type: "string" }, gateway: { type: "string" }, verbose: { type: "boolean" },
    "client-1.0.0": { type: "string" }, "client-0.0.59": { type: "string" }, only: { type: "string", multiple: true },
  },
});
const read = (name) => JSON.parse(readFileSync(join(HERE, name)));
const traits = read("frameworks.json")[options.framework];
const scenarios = Object.entries(read("matrix.json"))
  .filter(([name]) => !options.only || options.only.includes(name))
  .filter(([name, { expect }]) => !(name in (traits.unsupported ?? {})) && !(expect.question && traits.approval === false));

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a program and waits until `url` answers. */
async function start(command, parameters, url) {
  const child = spawn(command, parameters, { stdio: ["ignore", "pipe", "pipe"] });
  const said = [];
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (data) => said.push(data));
  for (let tries = 0; child.exitCode === null && tries < 600; tries += 1) {
    if (await fetch(url).then(({ ok }) => ok, () => false)) return child;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  child.kill();
  throw new Error(`${command} does not serve ${url}:\n${Buffer.concat(said).toString().slice(-3000)}`);
}

function conversation(scenario) {
  const turns = scenario.turns.map((turn) => ("reply" in turn && traits.open ? { ...turn, open: traits.open } : turn));
  return { ...scenario, turns };
}

async function checkpoint(agent, thread) {
  if (!traits.checkpoint) return null;
  const messages = await (await fetch(new URL(`/checkpoint/${thread}`, agent))).json();
  return messages.map(({ type, content, tool_calls: calls }) => ({ type, content, ...(calls?.length ? { calls: calls.map(({ name, args }) => ({ name, args })) } : {}) }));
}

async function play(HttpAgent, url, agent, thread, scenario) {
  const turns = await talk(HttpAgent, url, thread, conversation(scenario));
  return { turns, checkpoint: await checkpoint(agent, thread) };
}

async function run(folder, children) {
  const [port, gatewayPort] = [await freePort(), await freePort()];
  const agent = `http://127.0.0.1:${port}/`;
  const gateway = `http://127.0.0.1:${gatewayPort}`;
  const config = join(folder, "aqueduct.toml");
  writeFileSync(config, `[server]\nlisten = ["127.0.0.1:${gatewayPort}"]\n[log]\nlevel = "warn"\n[agents.agent]\nsubagents = "attributed"\nerrors = "error"\nagui.url = "${agent}"\n`);
  children.push(await start(options.python, [join(HERE, `agui-${options.framework}.py`), String(port)], `${agent}ready`));
  children.push(await start(options.gateway, ["serve", "--config", config], `${gateway}/healthz`));
  let red = 0;
  for (const client of CLIENTS) {
    const HttpAgent = loadClient(options[`client-${client}`]);
    for (const [name, scenario] of scenarios) {
      const id = `${client.replaceAll(".", "")}-${name}`;
      const direct = await play(HttpAgent, agent, agent, `direct-${id}`, scenario);
      const through = await play(HttpAgent, `${gateway}/agents/agent`, agent, `gateway-${id}`, scenario);
      const cell = { framework: options.framework, scenario: name, client };
      cell.red = [...judge(scenario.expect, traits, through), ...compare(direct, through, { client, expect: scenario.expect, traits })];
      cell.direct = judge(scenario.expect, traits, direct);
      red += cell.red.length > 0 ? 1 : 0;
      console.log(JSON.stringify(cell));
      if (options.verbose) console.log(JSON.stringify({ direct: direct.turns.map(brief), through: through.turns.map(brief), checkpoints: [direct.checkpoint, through.checkpoint] }, null, 1));
    }
  }
  return red;
}

const brief = ({ messages, questions, error, runError, outcome, warnings, state }) => ({ messages, questions, error, runError, outcome, warnings, state });

// A framework may break its connection off after RUN_ERROR; the client's own promise about that has no reader.
process.on("unhandledRejection", (error) => {
  if (error?.cause?.code !== "UND_ERR_SOCKET") throw error;
});

const folder = mkdtempSync(join(tmpdir(), "frameworks-agui-"));
const children = [];
try {
  process.exitCode = (await run(folder, children)) > 0 ? 1 : 0;
} finally {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true });
}
