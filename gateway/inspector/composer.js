// Where the user speaks: the agent, the words, the token.

import { byId, el, visible } from "./dom.js";

export class Composer {
  #running = false;

  constructor(session, { onSend, onStop, onToken, onNew, onAgent }) {
    Object.assign(this, { session, onAgent });
    this.agent = byId("agent");
    this.prompt = byId("prompt");
    this.send = byId("send");
    this.token = byId("token");
    this.token.value = session.token;
    this.prompt.value = session.draft;
    this.prompt.addEventListener("input", () => session.set({ draft: this.prompt.value }));
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#running) onStop();
      else if (this.agent.value) onSend(this.agent.value, this.prompt.value.trim());
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.#running) byId("composer").requestSubmit();
    });
    this.agent.addEventListener("change", () => {
      session.set({ agent: this.agent.value });
      this.#tell();
    });
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      session.set({ token: this.token.value.trim() });
      byId("access").open = false;
      onToken();
    });
    byId("new-thread").addEventListener("click", onNew);
  }

  list(agents) {
    this.agents = new Map(agents.map((agent) => [agent.name, agent.description]));
    this.agent.replaceChildren(...agents.map(({ name }) => el("option", { value: name, text: visible(name) })));
    if (this.agents.has(this.session.agent)) this.agent.value = this.session.agent;
    this.#tell();
  }

  /** Without a token no agent is listed: the field for it is where to go. */
  askForToken() {
    byId("access").open = true;
    this.token.focus();
  }

  #tell() {
    byId("agent-about").textContent = visible(this.agents?.get(this.agent.value) ?? "");
    byId("examples").hidden = true;
    if (this.agent.value) this.onAgent(this.agent.value);
  }

  running(isRunning) {
    this.#running = isRunning;
    this.send.textContent = isRunning ? "Stop" : "Run";
    this.send.classList.toggle("stop", isRunning);
    if (!isRunning) this.prompt.disabled = false;
  }

  clear() {
    this.type("");
  }

  /** Puts words where the user would. */
  type(words) {
    this.prompt.value = words;
    this.session.set({ draft: words });
  }

  choose(agent) {
    if (!this.agents?.has(agent)) return;
    this.agent.value = agent;
    this.#tell();
  }

  /** Prompts that the card of an agent gives as examples. */
  suggest(agent, examples) {
    if (agent !== this.agent.value) return;
    const pick = (words) => () => {
      this.type(words);
      this.prompt.focus();
    };
    const shown = examples.filter((words) => typeof words === "string" && words !== "").slice(0, 4);
    byId("examples").replaceChildren(...shown.map((words) => el("button", { type: "button", class: "small", text: visible(words.slice(0, 80)), on: { click: pick(words) } })));
    byId("examples").hidden = shown.length === 0;
  }
}
