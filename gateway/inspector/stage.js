// What is on the page: a recording, how far it is shown, and the views of it. One frame at a time, each within its time.
//
//   recording ── player (how far) ──► reducer ──► model ──► conversation, timeline, events, state, figures

import { byId, setText } from "./dom.js";
import { Artifacts } from "./artifacts.js";
import { Conversation } from "./conversation.js";
import { Model } from "./model.js";
import { Pace } from "./pace.js";
import { Player } from "./player.js";
import { RawList } from "./raw-list.js";
import { Recording } from "./recording.js";
import { apply } from "./reducer.js";
import { StateTree } from "./state-tree.js";
import { StatsView } from "./stats-view.js";
import { Timeline } from "./timeline.js";

/** Of the 16 ms of a frame: for events, for the conversation, for the list. The rest is the browser's; where that takes longer,
 *  these do too. */
const BUDGET = { events: 4, conversation: 5, list: 2 };
/** What the browser may take of a frame before the parts above grow. */
const REST = 12;
/** Until a view that paces itself is asked again, in milliseconds. */
const LATER = 60;
/** Events applied between two looks at the clock. */
const PIECE = 50;

export class Stage {
  #applied = 0;
  #scheduled = false;
  #pace = new Pace(REST);

  constructor({ onFrame, onEvent, onFork, onSelect }) {
    this.onFrame = onFrame;
    const onPick = (block) => {
      this.raw.reveal(block.start.n);
      this.conversation.reveal(block);
      onEvent();
    };
    this.conversation = new Conversation(onFork);
    this.artifacts = new Artifacts(onPick);
    const wake = () => this.wake();
    this.timeline = new Timeline({ onPick, wake });
    this.raw = new RawList({ recording: new Recording(), hueOf: (lane) => this.model.lane(lane).index % 8, wake, onSelect });
    this.tree = new StateTree();
    this.stats = new StatsView();
    this.show(new Recording());
    // Whatever the user does may need a frame; nothing else does while nothing streams.
    for (const type of ["scroll", "input", "click", "keydown", "resize", "toggle"]) addEventListener(type, () => this.wake(), { capture: true, passive: true });
    this.#controls();
  }

  /** Another recording. */
  show(recording) {
    this.recording = recording;
    this.player = Object.assign(new Player(recording), { speed: Number(byId("speed").value) });
    this.raw.reset(recording);
    this.#rewind();
  }

  #rewind() {
    this.model = new Model(this.recording.prompts);
    this.#applied = 0;
    this.conversation.reset();
    this.tree.reset();
    this.timeline.touch();
    this.raw.touch();
    this.wake();
  }

  wake() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame((now) => this.#frame(now));
  }

  /** True if everything that there is, is shown. */
  get isCaughtUp() {
    return this.#applied === this.recording.length && this.player.state === "live";
  }

  get applied() {
    return this.#applied;
  }

  #frame(now) {
    this.#scheduled = false;
    const target = this.player.target(now);
    if (target < this.#applied) this.#rewind();
    const before = this.#applied;
    const began = performance.now();
    const scale = this.#pace.begin(began);
    let worked = 0;
    const work = (budget, act) => {
      const start = performance.now();
      const done = act(() => performance.now() - start > budget * scale);
      worked += performance.now() - start;
      return done;
    };
    work(BUDGET.events, (isOver) => this.#advance(target, isOver));
    if (before !== this.#applied) this.timeline.touch();
    const isLive = this.onFrame(now);
    const shown = work(BUDGET.conversation, (isOver) => this.conversation.render(this.model, isOver));
    const listed = work(BUDGET.list, (isOver) => this.raw.render(this.model, this.#applied, isOver));
    this.#pace.end(began, worked, !shown || !listed || this.#applied < target);
    const drawn = [
      this.timeline.render(this.model, now, this.recording.isTimed, isLive),
      this.tree.render(this.model, now),
      this.artifacts.render(this.model, now),
      this.stats.render(this.model, this.recording, this.#applied, now, isLive ? this.clock?.() : undefined),
    ];
    this.#showControls();
    this.conversation.scroll();
    this.raw.scroll();
    if (!shown || !listed || isLive || this.player.state === "playing" || this.#applied < target) this.wake();
    // What paces itself and was asked too early gets another frame.
    else if (drawn.includes(false)) setTimeout(() => this.wake(), LATER);
  }

  #advance(target, isOver) {
    const { records } = this.recording;
    while (this.#applied < target) {
      const stop = Math.min(target, this.#applied + PIECE);
      while (this.#applied < stop) apply(this.model, records[this.#applied++]);
      if (isOver()) return;
    }
  }

  #controls() {
    this.replay = byId("replay");
    this.replay.addEventListener("click", () => {
      const now = performance.now();
      if (this.player.state === "playing") this.player.pause();
      else if (this.player.state === "paused") this.player.resume(now);
      else this.player.replay(now);
    });
    byId("speed").addEventListener("change", (event) => (this.player.speed = Number(event.target.value)));
    byId("position").addEventListener("input", (event) => {
      const position = Number(event.target.value);
      if (position >= this.recording.length) this.player.live();
      else this.player.seek(position);
    });
    byId("axis").addEventListener("change", (event) => {
      this.timeline.axis = event.target.value;
      this.timeline.touch();
    });
  }

  #showControls() {
    const position = byId("position");
    const { length } = this.recording;
    if (Number(position.max) !== length) position.max = length;
    if (document.activeElement !== position || this.player.state !== "paused") position.value = this.#applied;
    position.disabled = this.replay.disabled = length === 0;
    setText(this.replay, { live: "Replay", playing: "Pause", paused: "Continue" }[this.player.state]);
    setText(byId("place"), `${this.#applied} / ${length}`);
    byId("axis").disabled = !this.recording.isTimed;
  }
}
