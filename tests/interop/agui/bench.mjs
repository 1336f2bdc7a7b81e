// Measures what the real encoder of one client version needs for a list of events.
//
//   node bench.mjs --project <folder with node_modules> <file with one JSON event per line>
//
// Prints one JSON object: {"encoder", "events", "nsPerEvent", "bytes"}, in CPU time. The best of several rounds counts, after rounds
// that only warm the compiler up; the events are parsed before, so only encoding is measured.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({ options: { project: { type: "string" } }, allowPositionals: true });
const manifest = join(values.project, "node_modules/@ag-ui/encoder/package.json");
const { version } = JSON.parse(readFileSync(manifest, "utf8"));
const { EventEncoder } = createRequire(manifest)("@ag-ui/encoder");
const events = readFileSync(positionals[0], "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

const encoder = new EventEncoder({ accept: "text/event-stream" });
let best = Infinity;
let bytes = 0;
for (let round = 0; round < 8; round++) {
  bytes = 0;
  const start = process.cpuUsage();
  for (const event of events) bytes += encoder.encodeSSE(event).length;
  const used = process.cpuUsage(start);
  const elapsed = (used.user + used.system) * 1000;
  if (round >= 3) best = Math.min(best, elapsed);
}
console.log(JSON.stringify({ encoder: version, events: events.length, nsPerEvent: best / events.length, bytes }));
