// What a stream comes to: lanes with blocks. Filled by `reducer.js`; pure.
//
//   lane   the run itself, or a sub-agent: `{ id, name, parent, depth, index, status, start, end, blocks }`
//   block  one thing in a lane: `{ n, kind, lane, id, title, text, status, start, end, … }`
//          status: open ── its end, the end of its lane or of the run ──► done | failed | stopped
//
// Kinds: user, text, thinking, tool, activity, custom, step, lane (where a sub-agent began), note, error, question, end.
// `start` and `end` are `{ n, at }`: the event, and its time if there is one. Views read `dirty` and empty it.

export class Model {
  blocks = [];
  lanes = [];
  runs = [];
  interrupts = [];
  usage = [];
  /** What went wrong, in order: `{ n, lane, block, what }`. */
  failures = [];
  state = undefined;
  patches = { applied: 0, failed: [] };
  /** Pointers into the state that changed since the view looked. */
  changed = new Set();
  /** Blocks that changed since the view looked. */
  dirty = new Set();
  /** Counts, by type of event. */
  types = new Map();
  /** The event of which the model is. */
  at = { n: -1, at: undefined };
  #open = new Map();
  #lanes = new Map();
  #calls = new Map();
  #questions = new Map();

  constructor(prompts = new Map()) {
    this.prompts = prompts;
    this.root = this.#addLane("", "run", undefined);
  }

  #addLane(id, name, parent) {
    const lane = {
      id, name, parent, depth: parent ? parent.depth + 1 : 0, index: this.lanes.length, status: "open",
      start: this.at, end: undefined, blocks: [], children: [],
    };
    this.lanes.push(lane);
    this.#lanes.set(id, lane);
    parent?.children.push(lane);
    return lane;
  }

  /** The lane of an event; one that was never announced is a lane of the run. */
  lane(id) {
    if (id === undefined || id === "") return this.root;
    return this.#lanes.get(id) ?? this.openLane(id, id, undefined);
  }

  openLane(id, name, parentId, extra = {}) {
    const known = this.#lanes.get(id);
    if (known) return known;
    const parent = this.lane(parentId);
    const lane = Object.assign(this.#addLane(id, name, parent), extra);
    lane.block = this.add("lane", parent, { id, title: name, child: lane, status: "open" });
    return lane;
  }

  closeLane(lane, status, extra = {}) {
    Object.assign(lane, extra, { status, end: this.at });
    for (const [key, block] of this.#open) if (block.lane === lane) this.#end(key, block, "done");
    if (lane.block) this.#settle(lane.block, status);
  }

  /** A block that is whole at once, unless `status` is open. */
  add(kind, lane, fields = {}) {
    const status = fields.status ?? "done";
    const block = {
      n: this.blocks.length, kind, lane, id: "", title: "", text: "", start: this.at, end: status === "open" ? undefined : this.at,
      ...fields, status,
    };
    this.blocks.push(block);
    lane.blocks.push(block);
    this.dirty.add(block);
    return block;
  }

  /** A block that grows until it is closed by the same key. */
  open(key, kind, lane, fields) {
    const block = this.add(kind, lane, { ...fields, status: "open" });
    this.#open.set(key, block);
    return block;
  }

  /** The open block of a key. */
  current(key) {
    return this.#open.get(key);
  }

  append(block, delta) {
    if (typeof delta !== "string" || delta === "") return;
    block.text += delta;
    this.dirty.add(block);
  }

  close(key, status = "done") {
    const block = this.#open.get(key);
    if (block) this.#end(key, block, status);
    return block;
  }

  #end(key, block, status) {
    this.#open.delete(key);
    this.#settle(block, status);
  }

  #settle(block, status) {
    if (block.status === "open") Object.assign(block, { status, end: this.at });
    this.dirty.add(block);
  }

  /** Everything ends with the run. */
  closeAll(status) {
    for (const [key, block] of this.#open) this.#end(key, block, status);
    for (const lane of this.lanes) if (lane.status === "open" && lane !== this.root) this.closeLane(lane, status);
  }

  /** A question to a human; it stays where it was asked, and gets its answer when the next run brings it. */
  ask(interrupt) {
    this.#questions.set(interrupt.id, this.add("question", this.root, { id: interrupt.id, title: interrupt.message ?? interrupt.reason ?? "The agent asks.", interrupt }));
  }

  /** The answer to a question of this recording. False if the question is in none of its runs. */
  answer(id, words) {
    const block = this.#questions.get(id);
    if (!block) return false;
    block.answer = words;
    this.dirty.add(block);
    return true;
  }

  fail(lane, block, what) {
    this.failures.push({ n: this.at.n, lane, block, what });
  }

  /** The name of a lane with those of its parents. */
  path(lane) {
    const names = [];
    for (let at = lane; at && at !== this.root; at = at.parent) names.unshift(at.name);
    return names.join(" › ") || lane.name;
  }

  rememberCall(id, block) {
    this.#calls.set(id, block);
  }

  call(id) {
    return this.#calls.get(id);
  }

  touch(block) {
    this.dirty.add(block);
  }

  /** Lanes as a tree: each before its children, in the order in which they began. */
  rows() {
    const rows = [];
    const walk = (lane) => {
      rows.push(lane);
      lane.children.forEach(walk);
    };
    walk(this.root);
    return rows;
  }
}
