// What went wrong in a run, above the conversation: each leads to the pane where it happened.

import { byId, cut, el, visible } from "./dom.js";

/** Failures that are listed. */
const MOST = 5;

/** The failures that say most: those of sub-agents and of the run before those of tools; none twice. Pure. */
export function worst(failures) {
  const rank = ({ block }) => ({ lane: 0, error: 1 })[block?.kind] ?? 2;
  return [...failures].sort((a, b) => rank(a) - rank(b) || a.n - b.n);
}

export class Problems {
  #shown = -1;

  constructor(onPick) {
    this.box = byId("problems");
    this.onPick = onPick;
  }

  reset() {
    this.#shown = -1;
    this.box.hidden = true;
  }

  /** Lists them once the run has ended; gives the worst when it is new. */
  render(model) {
    if (model.failures.length === this.#shown) return undefined;
    this.#shown = model.failures.length;
    const found = worst(model.failures);
    this.box.hidden = found.length === 0;
    this.box.replaceChildren(...found.slice(0, MOST).map((failure) => this.#item(model, failure)), ...(found.length > MOST ? [el("span", { class: "meta", text: `${found.length - MOST} more` })] : []));
    return found[0];
  }

  #item(model, failure) {
    const who = failure.lane === model.root ? "" : `${model.path(failure.lane)}: `;
    return el("button", { type: "button", class: "link bad", text: visible(cut(`${who}${failure.what}`, 200)), on: { click: () => this.onPick(failure) } });
  }
}
