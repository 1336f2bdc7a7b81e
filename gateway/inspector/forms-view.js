// One stored event in every protocol, side by side, with the rule of the stream machine that led to it.

import { byId, el, fill, pretty, setText, visible } from "./dom.js";

const FORMS = [["canonical", "Canonical"], ["agui", "AG-UI 1.0"], ["agui-0.0.59", "AG-UI 0.0.59"], ["a2a", "A2A 1.0"]];

export class FormsView {
  #record = undefined;

  constructor(api) {
    this.api = api;
    this.button = byId("raw-forms");
    this.box = byId("forms");
    this.button.addEventListener("click", () => this.#toggle());
  }

  /** Another event was chosen. */
  select(record) {
    this.#record = record;
    this.button.disabled = record.stored === undefined;
    this.button.title = record.stored ? "The stored event in every protocol" : "Only events of the log have other forms";
    if (!this.box.hidden) this.#load();
  }

  #toggle() {
    this.box.hidden = !this.box.hidden;
    this.button.setAttribute("aria-pressed", String(!this.box.hidden));
    if (!this.box.hidden) this.#load();
  }

  async #load() {
    const record = this.#record;
    if (!record?.stored) return this.box.replaceChildren(el("p", { class: "meta", text: "This event came from no log." }));
    try {
      const found = await this.api.forms(record.stored.run, record.stored.number);
      if (record === this.#record) this.#fill(found);
    } catch (error) {
      if (record === this.#record) this.box.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
    return undefined;
  }

  #fill(found) {
    const rule = el("p", { class: "rule" }, el("strong", { text: found.rule.name }), ` ${visible(found.rule.why)}`);
    const column = ([key, title]) => {
      const code = fill(el("code"), visible(found[key].length === 0 ? "(nothing: this protocol does not show it)" : found[key].map(pretty).join("\n")));
      return el("div", { class: "form" }, el("h4", { text: `${title}${found[key].length > 1 ? ` · ${found[key].length} events` : ""}` }), el("pre", { tabindex: "0", dir: "ltr" }, code));
    };
    this.box.replaceChildren(rule, el("div", { class: "forms" }, ...FORMS.map(column)));
    setText(byId("spoken"), `Rule ${found.rule.name}: ${found.rule.why}`);
  }
}
