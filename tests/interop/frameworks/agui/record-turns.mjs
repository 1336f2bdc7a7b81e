// Records conversations of the real client: node record-turns.mjs --project <client> --url <agent> --folder <folder> [scenario ...]
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadClient, talk } from "./talk.mjs";

const { values: options, positionals } = parseArgs({
  options: { project: { type: "string" }, url: { type: "string" }, folder: { type: "string" }, checkpoint: { type: "boolean" } },
  allowPositionals: true,
});
const scenarios = JSON.parse(readFileSync(new URL("matrix.json", import.meta.url)));
const HttpAgent = loadClient(options.project);
mkdirSync(options.folder, { recursive: true });
const write = (name, text) => writeFileSync(join(options.folder, name), text);

for (const name of positionals) {
  const thread = `thread-${name}`;
  const taken = await talk(HttpAgent, options.url, thread, { ...scenarios[name], record: true });
  for (const [number, turn] of taken.entries()) {
    const stem = `${name}-${number + 1}`;
    if (turn.exchange) {
      write(`${stem}.request.json`, `${JSON.stringify(JSON.parse(turn.exchange.request), null, 1)}\n`);
      write(`${stem}.sse`, turn.exchange.response);
    }
    write(`${stem}.client.json`, `${JSON.stringify(turn.raw, null, 1)}\n`);
    console.log(stem, turn.error ?? turn.runError ?? turn.outcome, turn.warnings);
  }
  if (options.checkpoint) {
    const held = await (await fetch(new URL(`/checkpoint/${thread}`, options.url))).json();
    write(`${name}.checkpoint.json`, `${JSON.stringify(held, null, 1)}\n`);
    console.log(`${name} checkpoint`, held.map(({ type, content }) => `${type}:${typeof content === "string" ? content.slice(0, 20) : "parts"}`).join(" | "));
  }
}
