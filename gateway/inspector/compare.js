// Two runs side by side: how they ended, what they took, which sub-agents and tools they had, and what they answered, with
// the differences marked.

import { byId, count, duration, el, number, setText, visible } from "./dom.js";
import { diff, wordsOf } from "./diff.js";
import { Model } from "./model.js";
import { Recording } from "./recording.js";
import { apply } from "./reducer.js";
import { OUTCOMES, wrongWords } from "./runs-page.js";

/** Rows of a comparison from what the list and the events of a run tell. Pure. */
export function factsOf(run, model) {
  const lanes = model.rows().filter((lane) => lane !== model.root);
  const tools = model.blocks.filter((block) => block.kind === "tool");
  return {
    Agent: run.agent, Prompt: run.prompt || "–", Outcome: OUTCOMES[run.outcome] ?? run.outcome, Errors: wrongWords(run) || "–",
    Took: run.endedAt === null ? "under way" : duration(run.endedAt - run.openedAt), "Stored events": String(run.events),
    Tokens: run.tokens.total === null ? "–" : number(run.tokens.total), Cost: run.cost === null ? "–" : number(run.cost),
    "Sub-agents": lanes.map((lane) => `${model.path(lane)} (${lane.status})`).join("\n") || "–",
    Tools: tools.map((block) => `${block.title} (${block.status})`).join("\n") || "–",
    State: model.state === undefined ? "–" : JSON.stringify(model.state, null, 2),
  };
}

/** The answer of a run: the texts of its main agent. Pure. */
export const answerOf = (model) => model.blocks.filter((block) => block.kind === "text" && block.lane === model.root && !block.replaced).map((block) => block.text).join("\n\n");

export class Compare {
  #control = undefined;

  constructor(api) {
    this.api = api;
    this.about = byId("compare-about");
    this.box = byId("compare-table");
    this.answers = byId("compare-answers");
  }

  async show(ids) {
    this.#control?.abort();
    const control = (this.#control = new AbortController());
    setText(this.about, "Reading both runs…");
    this.box.replaceChildren();
    this.answers.replaceChildren();
    try {
      const sides = await Promise.all(ids.slice(0, 2).map((id) => this.#read(id, control.signal)));
      if (!control.signal.aborted) this.#fill(sides);
    } catch (error) {
      if (!control.signal.aborted) setText(this.about, error.message);
    }
  }

  leave() {
    this.#control?.abort();
  }

  async #read(id, signal) {
    const { runs } = await this.api.runs({ q: id });
    const run = runs.find((run) => run.run === id);
    if (!run) throw new Error(`There is no run ${id} among yours.`);
    const recording = new Recording();
    recording.remember({ id, prompt: run.prompt });
    await this.api.watch(id, (frame) => frame.reconnecting || recording.push(frame.data, { id: frame.id }), signal);
    const model = new Model(recording.prompts);
    recording.records.forEach((record) => apply(model, record));
    return { run, model, recording };
  }

  #fill(sides) {
    const facts = sides.map(({ run, model }) => factsOf(run, model));
    const rows = Object.keys(facts[0]).map((name) => {
      const isSame = facts[0][name] === facts[1][name];
      return el("tr", { class: isSame ? "" : "differs" }, el("th", { scope: "row", text: name }), ...facts.map((fact) => el("td", { dir: "auto", text: visible(fact[name]) })));
    });
    const differing = rows.filter((row) => row.classList.contains("differs")).length;
    const head = sides.map(({ run }) => el("th", { scope: "col" }, el("a", { class: "link", href: `#/run/${encodeURIComponent(run.run)}`, text: visible(run.run) })));
    this.box.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "for-readers", text: "What" })), ...head)), el("tbody", {}, ...rows)));
    const [left, right] = sides.map(({ model }) => wordsOf(answerOf(model)));
    const parts = diff(left, right);
    const column = (kind) => el("div", { class: "prose side", dir: "auto" }, ...parts.filter((part) => part.kind === "same" || part.kind === kind).map((part) => el(part.kind === "same" ? "span" : "mark", { class: part.kind, text: visible(part.items.join("")) })));
    this.answers.replaceChildren(column("left"), column("right"));
    const isSame = parts.every((part) => part.kind === "same");
    setText(this.about, `${differing === 0 ? "No facts differ" : `${count(differing, "fact")} differ${differing === 1 ? "s" : ""}`}; the answers are ${isSame ? "the same" : "different"}.`);
  }
}
