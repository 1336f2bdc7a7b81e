// The shared state as a tree, with what the last patches changed marked. Closed branches are not made.

import { byId, cut, el, number, setText, visible } from "./dom.js";
import { memberPointer } from "./patch.js";

/** Members of one value that are listed. */
const MEMBERS_MOST = 500;
const OPEN_DEPTH = 2;
/** Between two renderings, in milliseconds: people do not read faster. */
const PAUSE = 150;

export class StateTree {
  #opened = new Map();
  #drawn = 0;
  #dirty = true;

  constructor() {
    this.box = byId("state-tree");
    this.about = byId("state-about");
    this.panel = byId("panel-state");
  }

  reset() {
    this.#opened.clear();
    this.#dirty = true;
  }

  /** False if it is too early: it wants another frame. */
  render(model, now) {
    if (model.changed.size > 0) this.#dirty = true;
    if (!this.#dirty || this.panel.hidden) return true;
    if (now - this.#drawn < PAUSE) return false;
    this.#dirty = false;
    this.#drawn = now;
    const { applied, failed } = model.patches;
    const problems = failed.length > 0 ? ` · ${failed.length} failed: event ${failed.at(-1).n}, ${failed.at(-1).what}` : "";
    setText(this.about, model.state === undefined ? "No state so far." : `${applied} change${applied === 1 ? "" : "s"} applied${problems}`);
    this.about.classList.toggle("bad", failed.length > 0);
    this.box.replaceChildren(...(model.state === undefined ? [] : [this.#node("state", model.state, "", 0, model.changed)]));
    model.changed.clear();
    return true;
  }

  #node(key, value, pointer, depth, changed) {
    const isNew = changed.has(pointer) && pointer !== "";
    const label = el("span", { class: "key", text: visible(String(key)) });
    if (typeof value !== "object" || value === null) {
      const shown = el("span", { class: `value ${value === null ? "null" : typeof value}`, text: typeof value === "number" ? number(value) : visible(cut(JSON.stringify(value), 2000)), title: typeof value === "number" ? String(value) : null });
      return el("div", { class: isNew ? "leaf changed" : "leaf" }, label, shown);
    }
    const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
    const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
    const holdsNew = [...changed].some((path) => path.startsWith(`${pointer}/`));
    const open = this.#opened.get(pointer) ?? (depth < OPEN_DEPTH || holdsNew);
    const node = el("details", { class: isNew ? "changed" : "", open }, el("summary", {}, label, el("span", { class: "meta", text: size })));
    const fill = () => {
      if (node.childElementCount > 1) return;
      node.append(...entries.slice(0, MEMBERS_MOST).map(([name, item]) => this.#node(name, item, memberPointer(pointer, name), depth + 1, changed)));
      if (entries.length > MEMBERS_MOST) node.append(el("p", { class: "meta", text: `${entries.length - MEMBERS_MOST} more` }));
    };
    if (open) fill();
    node.querySelector("summary").addEventListener("click", () => this.#opened.set(pointer, !node.open));
    node.addEventListener("toggle", () => node.open && fill());
    return node;
  }
}
