// The conversation: blocks in the order in which they began, sub-agents as boxes inside their parents.
//
// Only blocks that changed are touched, a frame's worth at a time; what is out of sight is not laid out (`page.css`).

import { byId, el, setText, visible } from "./dom.js";
import { viewOf } from "./block-view.js";

/** From the end, in pixels: closer than this counts as being at the end. */
const NEAR = 60;

export class Conversation {
  #views = new Map();
  #waiting = new Set();
  #settings;
  #moved = false;

  constructor(onFork = () => {}) {
    this.#settings = { thinking: true, onFork };
    this.log = byId("log");
    this.status = byId("spoken");
    this.empty = byId("empty");
    this.follows = true;
    this.log.addEventListener("scroll", () => {
      this.follows = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR;
    }, { passive: true });
    byId("show-thinking").addEventListener("change", (event) => {
      this.#settings.thinking = event.target.checked;
      for (const node of this.log.querySelectorAll("details.thinking")) node.open = event.target.checked;
    });
  }

  reset() {
    this.#views.clear();
    this.#waiting.clear();
    this.log.replaceChildren();
    this.follows = true;
    this.empty.hidden = false;
  }

  /** Shows what changed until the time is over; true if nothing is left. */
  render(model, isOver) {
    for (const block of model.dirty) this.#waiting.add(block);
    model.dirty.clear();
    if (this.#waiting.size === 0) return true;
    this.empty.hidden = true;
    for (const block of this.#waiting) {
      this.#waiting.delete(block);
      this.#show(block);
      if (isOver()) break;
    }
    this.#moved = true;
    return this.#waiting.size === 0;
  }

  /** Once per frame, after everything else: asking for the height lays the page out. */
  scroll() {
    if (this.#moved && this.follows) this.log.scrollTop = this.log.scrollHeight;
    this.#moved = false;
  }

  #show(block) {
    let view = this.#views.get(block);
    if (!view) {
      view = viewOf(block, this.#settings);
      this.#views.set(block, view);
      this.#bodyOf(block.lane).append(view.node);
    }
    view.update();
    this.#speak(block);
  }

  /** Where the blocks of a lane go. Its own block comes first: it was made first. */
  #bodyOf(lane) {
    if (!lane.block) return this.log;
    if (!this.#views.has(lane.block)) this.#show(lane.block);
    return this.#views.get(lane.block).body;
  }

  /** Whole answers are read out, not every word of them. */
  #speak(block) {
    const isAnswer = block.kind === "text" && block.lane.depth === 0 && block.status === "done";
    if (isAnswer) setText(this.status, visible(block.text.slice(0, 2000)));
    else if (block.kind === "error") setText(this.status, `Run failed: ${visible(block.text)}`);
  }

  /** Brings a block into view. */
  reveal(block) {
    const view = this.#views.get(block);
    if (!view) return;
    for (let node = view.node.parentElement; node && node !== this.log; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    view.node.scrollIntoView({ block: "center" });
    view.node.classList.add("found");
    setTimeout(() => view.node.classList.remove("found"), 1200);
  }

  /** A word from the page itself. */
  note(words, kind = "note") {
    this.empty.hidden = true;
    this.log.append(el("p", { class: `block page-note ${kind}`, role: kind === "problem" ? "alert" : null, text: visible(words) }));
    this.log.scrollTop = this.log.scrollHeight;
  }

  /** A form at the end, for questions. */
  append(node) {
    this.log.append(node);
    this.log.scrollTop = this.log.scrollHeight;
  }
}
