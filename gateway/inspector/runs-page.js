// Runs of the log: searched, filtered, opened, replayed, compared.

import { byId, count, cut, duration, el, number, setText, visible } from "./dom.js";

export const OUTCOMES = { running: "running", success: "finished", interrupt: "waiting", cancelled: "stopped", failed: "failed" };
const FILTERS = ["q", "agent", "outcome", "thread", "principal", "since", "until"];
/** Between a key and the search, in milliseconds. */
const PAUSE = 250;

/** Filters as the gateway takes them: local times as milliseconds since 1970. Pure. */
export function queryOf(filters) {
  const time = (text) => (text ? new Date(text).getTime() : undefined);
  return { ...filters, since: time(filters.since), until: time(filters.until) };
}

/** What went wrong in a run, in one line. Pure. */
export function wrongWords({ error, failedAgents }) {
  const agents = failedAgents.map(({ name, message }) => `${name}: ${message}`);
  return [...agents, ...(error ? [`${error.code}: ${error.message}`] : [])].join(" · ");
}

export class RunsPage {
  #asked = 0;
  #chosen = new Set();
  #timer = undefined;

  constructor(api, { onOpen, onCompare, onFilter }) {
    Object.assign(this, { api, onOpen, onCompare, onFilter });
    this.box = byId("runs-list");
    this.about = byId("runs-about");
    this.compare = byId("runs-compare");
    this.form = byId("runs-filters");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#filter(), event.target.type === "search" ? PAUSE : 0);
    });
    byId("runs-clear").addEventListener("click", () => {
      this.form.reset();
      this.#filter();
    });
    byId("runs-refresh").addEventListener("click", () => this.refresh());
    this.compare.addEventListener("click", () => this.onCompare([...this.#chosen]));
  }

  get filters() {
    return Object.fromEntries(FILTERS.map((name) => [name, this.form.elements[name]?.value.trim() ?? ""]).filter(([, value]) => value !== ""));
  }

  agents(names) {
    const { agent } = this.form.elements;
    const chosen = agent.value;
    agent.replaceChildren(el("option", { value: "", text: "All agents" }), ...names.map((name) => el("option", { value: name, text: visible(name) })));
    agent.value = chosen;
  }

  /** Shows the runs that pass the filters of an address. */
  show(filters) {
    for (const name of FILTERS) {
      const field = this.form.elements[name];
      if (!field) continue;
      if (name === "agent" && filters.agent && ![...field.options].some((option) => option.value === filters.agent)) field.append(el("option", { value: filters.agent, text: visible(filters.agent) }));
      field.value = filters[name] ?? "";
    }
    this.refresh();
  }

  #filter() {
    this.onFilter(this.filters);
    this.refresh();
  }

  async refresh() {
    const asked = ++this.#asked;
    setText(this.about, "Searching…");
    try {
      const found = await this.api.runs(queryOf(this.filters));
      if (asked !== this.#asked) return;
      const { runs, more, searched, searchedAll } = found;
      const among = searchedAll ? `among ${count(searched, "run")} that the log holds` : `among the newest ${searched} runs`;
      setText(this.about, runs.length === 0 ? `No run passes these filters, ${among}.` : `${count(runs.length, "run")}, newest first${more ? "; narrow the filters to see more" : ""}, ${among}.`);
      this.form.elements.principal.closest("label").hidden = found.principals !== true;
      this.#chosen.clear();
      this.#choose();
      this.box.replaceChildren(...runs.map((run) => this.#row(run, found.principals === true)));
      byId("runs-principal").hidden = found.principals !== true;
    } catch (error) {
      if (asked !== this.#asked) return;
      setText(this.about, error.message);
      this.box.replaceChildren();
    }
  }

  #choose() {
    this.compare.disabled = this.#chosen.size !== 2;
    setText(this.compare, this.#chosen.size < 2 ? `Compare (choose ${2 - this.#chosen.size})` : "Compare");
  }

  #row(run, withPrincipal) {
    const when = new Date(run.openedAt);
    const name = `${run.agent} of ${when.toLocaleString()}`;
    const took = run.endedAt === null ? "under way" : duration(run.endedAt - run.openedAt);
    const open = (replay) => () => this.onOpen(run, replay);
    const choose = (event) => {
      if (event.target.checked) this.#chosen.add(run.run);
      else this.#chosen.delete(run.run);
      this.#choose();
    };
    const wrong = wrongWords(run);
    const cells = [
      el("td", {}, el("input", { type: "checkbox", "aria-label": `Choose ${visible(name)} to compare`, on: { change: choose } })),
      el("td", {}, el("time", { datetime: when.toISOString(), text: whenWords(when) })),
      el("td", {}, el("button", { type: "button", class: "link", text: visible(run.agent), title: `run ${visible(run.run)}`, on: { click: open(false) } })),
      el("td", { class: "prompt", dir: "auto", text: visible(cut(run.prompt || "–", 160)) }),
      el("td", {}, el("span", { class: "pill", "data-phase": OUTCOMES[run.outcome] ?? run.outcome, text: OUTCOMES[run.outcome] ?? run.outcome })),
      el("td", { class: wrong ? "bad wrong" : "wrong", dir: "auto", text: visible(cut(wrong || "–", 200)) }),
      el("td", { class: "figure", text: took }), el("td", { class: "figure", text: String(run.events) }),
      el("td", { class: "figure", text: run.tokens.total === null ? "–" : number(run.tokens.total) }), el("td", { class: "figure", text: run.cost === null ? "–" : number(run.cost) }),
      withPrincipal ? el("td", { text: visible(run.principal ?? "") }) : undefined,
      el("td", {}, el("a", { class: "link", href: `#/runs?thread=${encodeURIComponent(run.thread)}`, title: `thread ${visible(run.thread)}`, text: "thread" }), traceLink(run)),
      el("td", {}, el("button", { type: "button", class: "small", text: "Replay", "aria-label": `Replay ${visible(name)}`, on: { click: open(true) } })),
    ];
    return el("tr", { "data-run": run.run, "data-outcome": run.outcome }, ...cells);
  }
}

/** The trace of a run: a link where the configuration knows where traces are, else its id. */
function traceLink({ trace, traceUrl }) {
  if (!trace) return undefined;
  if (/^https?:/.test(traceUrl ?? "")) return el("a", { class: "link trace", href: traceUrl, rel: "noopener noreferrer", target: "_blank", title: `trace ${trace}`, text: "trace" });
  return el("code", { class: "trace", title: "trace id", text: trace });
}

function whenWords(when) {
  const isToday = when.toDateString() === new Date().toDateString();
  return isToday ? when.toLocaleTimeString() : when.toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}
