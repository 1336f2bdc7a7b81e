// One page with a chat, and how each frontend shows what the scenes look for.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { copyFileSync } from "node:fs";
import { join } from "node:path";

/** For what happens in a page, in milliseconds. */
const PATIENCE = 30_000;

const OURS = {
  hasLanes: true,
  tool: (name) => `[data-tool="${name}"]`,
  head: ".aq-head",
};

/** What is different from page to page: the agent, and where things are. */
export const STAGES = {
  "copilotkit-stock": {
    agent: "team",
    tool: (name) => `[data-tool-name="${name}"]`,
    head: "button",
    stop: '[data-testid="copilot-send-button"]',
    isAnswered: false,
  },
  "copilotkit-sdk": { ...OURS, agent: "team-runtime", stop: '[data-testid="copilot-send-button"]' },
  "assistant-stock": { agent: "team-direct", tool: (name) => `[data-tool="${name}"]`, head: "summary", stop: "text=Stop" },
  "assistant-sdk": { ...OURS, agent: "team-attributed", stop: "text=Stop" },
};

export class Page {
  thread = randomUUID();

  constructor(about) {
    Object.assign(this, about);
  }

  /** The chat with an agent, in a new thread. */
  async open(agent = this.agent) {
    const query = new URLSearchParams({ agent, url: `${this.gateway}/agents/${agent}`, thread: this.thread });
    await this.tab.goto(`${this.server}/?${query}`);
    await this.tab.waitForSelector("textarea");
  }

  async say(words) {
    await this.tab.fill("textarea", words);
    await this.tab.press("textarea", "Enter");
  }

  /** The text of the page as a person sees it. */
  text() {
    return this.tab.evaluate(() => document.body.innerText);
  }

  /** Waits until the page says something. */
  async says(...words) {
    await this.eventually(async () => {
      const text = await this.text();
      for (const word of words) assert.ok(text.includes(word), `the page does not say "${word}":\n${text}`);
    });
  }

  async count(words) {
    return (await this.text()).split(words).length - 1;
  }

  /** Waits until there is something that a selector finds. */
  shows(selector) {
    return this.tab.waitForSelector(selector, { timeout: this.limit() }).catch(() => assert.fail(`the page does not show ${selector}`));
  }

  async click(selector) {
    await this.tab.click(selector, { timeout: this.limit() });
  }

  /** Opens what a tool's card holds, and gives its text. */
  async inside(name) {
    const card = this.stage.tool(name);
    await this.shows(card);
    await this.click(`${card} ${this.stage.head}`);
    return this.tab.locator(card).first().innerText();
  }

  limit() {
    return Number(this.patience ?? PATIENCE);
  }

  async eventually(check) {
    const end = Date.now() + this.limit();
    for (;;) {
      try {
        return await check();
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }

  /** How the thread stands at the gateway, as its events say. */
  async atGateway() {
    const response = await fetch(`${this.gateway}/threads/${this.thread}?protocolVersion=1.0`);
    return response.text();
  }

  /** Keeps a picture; one with a name of its own is for the documentation. */
  async picture(name) {
    const path = join(this.out, `${this.page}-${this.scene}-${name}.png`);
    await this.tab.screenshot({ path });
    return path;
  }

  async document() {
    const path = await this.picture("shown");
    if (this.images !== undefined) copyFileSync(path, join(this.images, `${this.page}-${this.scene}.png`));
  }
}
