// Plays the scenes of one page in a headless Chromium.
//
//   node play.mjs --page <name> --gateway <address> --pages <folder> --runtime <folder> --browser <folder> --chromium <program>
//                 --out <folder for pictures> [--images <folder for pictures of the documentation>] [--scene <name>] [--agent <name>]
//                 [--patience <milliseconds>]
//
// `--pages`, `--runtime` and `--browser` are folders with `node_modules`. Ends with an error at the first thing that is not as expected.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Page, STAGES } from "./page.mjs";
import * as scenes from "./scenes.mjs";
import { serve } from "./server.mjs";

const text = { type: "string" };
const { values: options } = parseArgs({
  options: { page: text, gateway: text, pages: text, runtime: text, browser: text, chromium: text, out: text, images: text, scene: text, agent: text, patience: text },
});
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const stage = STAGES[options.page];
if (stage === undefined) throw new Error(`no page ${options.page}; there is: ${Object.keys(STAGES).join(", ")}`);
const names = ["team", "team-direct", "team-attributed", "team-runtime", "team-plain", "hidden"];
const agents = Object.fromEntries(names.map((name) => [name, `${options.gateway}/agents/${name}`]));
const server = await serve({ ...options, agents });
const profile = mkdtempSync(join(tmpdir(), "aqueduct-frontends-"));
const { chromium } = createRequire(join(options.browser, "package.json"))("playwright-core");
const context = await chromium.launchPersistentContext(profile, { executablePath: options.chromium, args: FLAGS, viewport: { width: 760, height: 820 } });

for (const [name, scene] of Object.entries(scenes)) {
  if (options.scene !== undefined && options.scene !== name) continue;
  const page = new Page({ ...options, stage, server: server.url, tab: await context.newPage(), scene: name, agent: options.agent ?? stage.agent });
  try {
    await scene(page);
    console.log(`${options.page} ${name}: as expected`);
  } catch (error) {
    await page.picture("failed").catch(() => {});
    console.error(`${options.page} ${name}:`, error);
    process.exitCode = 1;
  }
  await page.tab.close();
}
await context.close();
server.close();
rmSync(profile, { recursive: true, force: true });
process.exit();
