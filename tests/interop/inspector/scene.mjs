// One scene with the inspector in a headless Chromium.
//
//   node scene.mjs --scene <name> --project <folder with node_modules> --chromium <program> --url <an address of the
//                  gateway> --fixtures <tests/fixtures> --out <folder for pictures> [--expect <text>] [--patience <milliseconds>]
//                  [--other <an address of another replica>]
//
// Prints what it measured as one line of JSON; ends with an error at the first thing that is not as expected.
import { parseArgs } from "node:util";

import { Harness } from "./harness.mjs";
import * as cuts from "./scenes-cuts.mjs";
import * as files from "./scenes-files.mjs";
import * as input from "./scenes-input.mjs";
import * as log from "./scenes-log.mjs";
import * as looks from "./scenes-looks.mjs";
import * as replicas from "./scenes-replicas.mjs";
import * as runs from "./scenes-runs.mjs";

const text = { type: "string" };
const { values: options } = parseArgs({ options: { scene: text, project: text, chromium: text, url: text, fixtures: text, out: text, expect: text, patience: text, other: text } });
const scenes = { ...runs, ...cuts, ...files, ...input, ...log, ...looks, ...replicas };
const scene = scenes[options.scene];
if (!scene) throw new Error(`no scene ${options.scene}; there is: ${Object.keys(scenes).join(", ")}`);

const harness = await Harness.start(options);
let measured;
try {
  measured = await scene(harness);
} catch (error) {
  // A picture says more than the error.
  for (const page of harness.context.pages()) await harness.shot(page, `failed-${options.scene}`).catch(() => {});
  console.error(error);
  process.exitCode = 1;
}
await harness.end();
process.stdout.write(`${JSON.stringify({ scene: options.scene, ...measured })}\n`);
