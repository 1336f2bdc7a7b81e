// What a run left behind, side by side: files, data, surfaces, and long texts of its agents, each as what it is.

import { byId, count, el, visible } from "./dom.js";
import { fileNode, valueNode } from "./media.js";
import { operationsOf } from "./a2ui.js";

/** Cards that are made; a run with more is better looked at in its events. */
const MOST = 100;
/** Between two renderings, in milliseconds. */
const PAUSE = 400;

const KINDS = { "aqueduct.file": fileNode, "aqueduct.data": valueNode, "aqueduct.citation": valueNode, "aqueduct.plan": valueNode };

/** True for a block that is a thing of its own, not a word on the way. Pure. */
export function isArtifact(block) {
  return (block.kind === "custom" && (Object.hasOwn(KINDS, block.title) || operationsOf(block.value) !== undefined)) || block.kind === "activity";
}

export class Artifacts {
  #shown = "";
  #seen = "";
  #drawn = 0;

  constructor(onPick) {
    this.onPick = onPick;
    this.box = byId("artifacts-list");
    this.about = byId("artifacts-about");
    this.panel = byId("panel-artifacts");
  }

  /** False if it is too early: it wants another frame. */
  render(model, now) {
    if (this.panel.hidden) return true;
    const seen = `${model.at.n} ${model.runs[0]?.id}`;
    if (seen === this.#seen) return true;
    if (now - this.#drawn < PAUSE) return false;
    this.#seen = seen;
    this.#drawn = now;
    const found = model.blocks.filter(isArtifact);
    const key = `${found.length} ${found.some((block) => block.status === "open") ? model.at.n : ""} ${model.runs[0]?.id}`;
    if (key === this.#shown) return true;
    this.#shown = key;
    this.about.textContent = found.length === 0 ? "No artifacts: files, data, plans, cards and surfaces stand here." : count(found.length, "artifact");
    this.box.replaceChildren(...found.slice(-MOST).map((block) => this.#card(block)));
    return true;
  }

  #card(block) {
    const name = block.value?.name ?? block.value?.title ?? block.title.replace(/^aqueduct\./, "");
    const node = (Object.hasOwn(KINDS, block.title) ? KINDS[block.title] : valueNode)(block.value);
    return el("figure", { class: "artifact" }, el("figcaption", { class: "row" }, el("button", { type: "button", class: "link", text: visible(String(name)), on: { click: () => this.onPick(block) } }), el("span", { class: "meta", text: visible(block.lane.depth > 0 ? block.lane.name : "") })), node);
  }
}
