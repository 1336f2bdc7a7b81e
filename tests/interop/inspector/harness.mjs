// A headless Chromium on the inspector of a running gateway. Whatever a scene does, the page must not complain in its
// console, must not ask any other origin for anything, and must not open a dialogue.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
/** Without any progress of the page, in milliseconds: a page that stands still this long hangs. However slow the machine is, a
 *  page that gets on is waited for; the runner's own limit is above. */
const PATIENCE = 180_000;

/** Runs in the page: what changes when it gets on. Cheap, as it is asked often: no layout, no long text. */
function signs() {
  const text = (id) => document.getElementById(id)?.textContent;
  const counts = document.getElementById("log")?.childElementCount;
  return ["phase", "place", "fig-events", "fig-stored", "verdict-about", "raw-count", "file-about", "runs-about"].map(text).join(" | ") + ` | ${counts}`;
}

export class Harness {
  faults = [];
  /** Origins of other replicas. */
  others = new Set();

  static async start({ project, chromium: executablePath, url, ...options }) {
    const { chromium } = createRequire(join(project, "package.json"))("playwright-core");
    const harness = new Harness();
    Object.assign(harness, { options, origin: new URL(url).origin, profile: mkdtempSync(join(tmpdir(), "aqueduct-inspector-")) });
    harness.context = await chromium.launchPersistentContext(harness.profile, { executablePath, args: FLAGS, viewport: { width: 1280, height: 800 }, acceptDownloads: true });
    harness.context.setDefaultTimeout(PATIENCE);
    return harness;
  }

  /** The inspector in a new page: of another replica, or with a token that its user gave it before. */
  async open({ width = 1280, height = 800, dark = false, origin, token } = {}) {
    const page = await this.context.newPage();
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && this.faults.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => this.faults.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      this.faults.push(`dialogue: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== this.origin && !this.others.has(origin) && !["data:", "blob:"].includes(protocol)) this.faults.push(`foreign request: ${request.url()}`);
    });
    if (origin) this.others.add(origin);
    if (token) await page.addInitScript((token) => sessionStorage.getItem("aqueduct.inspector") ?? sessionStorage.setItem("aqueduct.inspector", JSON.stringify({ token })), token);
    await page.goto(`${origin ?? this.origin}/inspector`);
    await page.waitForSelector("#agent option", { state: "attached" });
    return page;
  }

  /** Says something to an agent. */
  async say(page, agent, words) {
    await page.selectOption("#agent", agent);
    await page.fill("#prompt", words);
    await page.click("#send");
  }

  /** Waits until the page shows that phase. */
  phase(page, phase) {
    return this.until(page, `the phase ${phase}`, (phase) => document.querySelector("#phase").dataset.phase === phase, phase);
  }

  /** Repeats a check until it holds: the page paints in frames, and no check may depend on the frame that it meets. */
  async eventually(check) {
    const end = Date.now() + Number(this.options.patience ?? PATIENCE);
    for (;;) {
      try {
        return await check();
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }

  /** Waits until a function of the page gives true, for as long as the page gets on. */
  async until(page, what, ask, argument) {
    let [seen, since] = [undefined, Date.now()];
    while (!(await page.evaluate(ask, argument))) {
      const now = await page.evaluate(signs);
      if (now !== seen) [seen, since] = [now, Date.now()];
      assert.ok(Date.now() - since < PATIENCE, `it never came: ${what}; the page stands still at: ${now}`);
      await page.waitForTimeout(100);
    }
  }

  /** Waits for the verifier's word on the whole stream. */
  async verdict(page, state) {
    await this.until(page, `a verdict ${state}`, (state) => document.querySelector("#verdict").dataset.state === state, state);
    await this.until(page, "a verdict on the whole stream", () => !document.querySelector("#verdict-about").textContent.includes("so far"));
    return page.textContent("#verdict-about");
  }

  /** Drops a file onto the page, as a browser tells it. */
  async drop(page, path, name = basename(path)) {
    const transfer = await page.evaluateHandle(([text, name]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], name));
      return transfer;
    }, [readFileSync(path, "utf8"), name]);
    await page.dispatchEvent("body", "dragenter", { dataTransfer: transfer });
    await page.waitForSelector("#veil", { state: "visible" });
    await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
    await page.waitForSelector("#veil", { state: "hidden" });
  }

  shot(page, name, options = {}) {
    return page.screenshot({ path: join(this.options.out, `${name}.png`), ...options });
  }

  async end() {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
    assert.deepEqual(this.faults, []);
  }
}
