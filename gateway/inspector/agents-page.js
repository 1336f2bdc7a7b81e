// Agents and their health: what the gateway's last calls to them came to.

import { byId, count, cut, duration, el, setText, visible } from "./dom.js";

/** Health in words, with the phase whose colour it has. */
const HEALTH = {
  ok: ["answers", "finished"], local: ["in the gateway", "idle"], unknown: ["not called yet", "idle"],
  failing: ["last call failed", "waiting"], unavailable: ["not called for now", "failed"],
};

/** Health as words and a colour. Pure. */
export function healthWords({ status }) {
  const [words, phase] = Object.hasOwn(HEALTH, status) ? HEALTH[status] : [String(status), "idle"];
  return { words, phase };
}

/** What is said of all agents. Pure. */
export function agentsWords(agents) {
  const down = agents.filter(({ status }) => status === "failing" || status === "unavailable").length;
  return `${count(agents.length, "agent")}${down > 0 ? `, ${down} of them with trouble` : ""}.`;
}

export class AgentsPage {
  #asked = 0;

  constructor(api) {
    this.api = api;
    this.box = byId("agents-list");
    this.about = byId("agents-about");
    byId("agents-refresh").addEventListener("click", () => this.show());
  }

  async show() {
    const asked = ++this.#asked;
    setText(this.about, "Asking…");
    const agents = await this.api.health().catch((error) => error);
    if (asked !== this.#asked) return;
    const isRefused = agents instanceof Error;
    setText(this.about, isRefused ? agents.message : agentsWords(agents));
    this.box.replaceChildren(...(isRefused ? [] : agents.map(row)));
  }
}

const figure = (value) => el("td", { class: "figure", text: value === undefined || value === null ? "–" : String(value) });

function row(agent) {
  const { words, phase } = healthWords(agent);
  const ago = agent.answeredSecondsAgo;
  return el("tr", { "data-agent": agent.name, "data-status": agent.status },
    el("th", { scope: "row", text: visible(agent.name) }),
    el("td", {}, el("span", { class: "pill", "data-phase": phase, text: words })),
    figure(ago === undefined || ago === null ? undefined : `${duration(ago * 1000)} ago`),
    figure(agent.inFlight), figure(agent.calls), figure(agent.connects),
    el("td", { class: agent.lastFailure ? "bad wrong" : "wrong", dir: "auto", text: visible(cut(agent.lastFailure ?? (agent.failures > 0 ? count(agent.failures, "failure") : "–"), 300)) }),
    el("td", { class: "prompt", dir: "auto", text: visible(cut(agent.description || "–", 160)) }),
    el("td", {}, el("a", { class: "link", href: `#/runs?agent=${encodeURIComponent(agent.name)}`, text: "runs" })));
}
