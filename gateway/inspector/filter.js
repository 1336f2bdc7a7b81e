// Which events of a recording are listed: by type and by words. Works in pieces, so that a long recording does not hold
// up a frame. Pure.

export const GROUPS = {
  run: ["RUN_"],
  text: ["TEXT_"],
  thinking: ["REASONING_", "THINKING_"],
  tools: ["TOOL_"],
  "sub-agents": ["SUBAGENT_"],
  steps: ["STEP_"],
  state: ["STATE_", "MESSAGES_"],
  other: ["ACTIVITY_", "CUSTOM", "RAW", "(not JSON)"],
};

/** Events looked at between two looks at the clock. */
const PIECE = 200;

export class Filter {
  /** Numbers of the events that fit, in order. */
  found = [];
  #scanned = 0;
  #type = "";
  #words = "";

  /** `type` is a type, a group as `group:tools`, or empty; `words` are looked for in the event's text. */
  set(type, words) {
    if (type === this.#type && words === this.#words) return;
    this.#type = type;
    this.#words = words.toLowerCase();
    this.clear();
  }

  clear() {
    this.found = [];
    this.#scanned = 0;
  }

  get isOpen() {
    return this.#type === "" && this.#words === "";
  }

  /** Looks at events up to `end` until the time is over; true if all were looked at. */
  scan(records, end, isOver = () => false) {
    if (this.#scanned > end) this.clear();
    while (this.#scanned < end) {
      const stop = Math.min(end, this.#scanned + PIECE);
      for (; this.#scanned < stop; this.#scanned += 1) if (this.#fits(records[this.#scanned])) this.found.push(this.#scanned);
      if (isOver()) break;
    }
    return this.#scanned === end;
  }

  #fits(record) {
    return this.#fitsType(record.type) && (this.#words === "" || record.text.toLowerCase().includes(this.#words));
  }

  #fitsType(type) {
    if (this.#type === "") return true;
    if (!this.#type.startsWith("group:")) return type === this.#type;
    return (GROUPS[this.#type.slice(6)] ?? []).some((prefix) => type.startsWith(prefix));
  }
}

/** Members that tell what an event is about, the most telling first. */
const TELLING = ["delta", "toolCallName", "name", "stepName", "message", "activityType", "content", "value", "snapshot", "outcome", "event"];

/** What an event says, in a few words. */
export function summary(event) {
  const said = TELLING.filter((name) => event[name] !== undefined).slice(0, 2);
  if (said.length === 0) return String(event.toolCallId ?? event.messageId ?? event.runId ?? event.subagentRunId ?? "");
  return said.map((name) => (typeof event[name] === "string" ? event[name] : JSON.stringify(event[name]))).join(" · ");
}
