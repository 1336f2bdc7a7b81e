// What was received: the events as they came, with their times. Pure.

/** One event: `n` counts from 0 over the recording, `at` is in milliseconds since its beginning, or undefined. */
export class Recording {
  records = [];
  bytes = 0;
  /** What the user said in a run, by run id: `{ text, isAnswer }`. */
  prompts = new Map();
  /** When something was asked, and before which event: `{ n, at }`. */
  requests = [];
  /** A word for the file that it is saved as. */
  name = "recording";
  /** True if the gateway was asked for the stream that a slow frontend gets, with deltas merged. */
  merges = false;
  #untimed = 0;
  #heads = new Map();

  /** What the user said to start a run: words, or the answers to questions by the id of their interrupt. */
  remember({ id, prompt, answer, answers }) {
    if (prompt !== undefined && prompt !== "") this.prompts.set(id, { text: prompt });
    else if (answer !== undefined) this.prompts.set(id, { text: answer, isAnswer: true, answers });
  }

  get length() {
    return this.records.length;
  }

  /** Takes the text of one event. What is no JSON is kept, and shown as what it is. */
  push(text, { at, id } = {}) {
    let event;
    try {
      event = JSON.parse(text);
    } catch {
      event = undefined;
    }
    if (typeof event !== "object" || event === null || Array.isArray(event)) event = { type: "(not JSON)", text };
    const record = { n: this.records.length, text, event, type: String(event.type), lane: event.subagentRunId ?? "", at, id };
    this.#place(record);
    this.records.push(record);
    this.bytes += text.length;
    if (at === undefined) this.#untimed += 1;
    return record;
  }

  /** Notes where the event stands in the log; a delta that stands for several stored events is noted as such. */
  #place(record) {
    const place = placeOf(record.id);
    if (!place) return;
    const before = this.#heads.get(place.run) ?? 0;
    record.stored = place;
    if (this.merges && MERGEABLE.has(record.type) && place.number > before + 1) record.stands = place.number - before;
    this.#heads.set(place.run, Math.max(before, place.number));
  }

  /** The number of events that the log holds of what is shown; none if it came from no log. */
  get stored() {
    if (this.#heads.size === 0) return undefined;
    return [...this.#heads.values()].reduce((sum, head) => sum + head, 0);
  }

  /** Events that stand for several stored ones. */
  get merged() {
    return this.records.reduce((count, record) => count + (record.stands ? 1 : 0), 0);
  }

  /** True if every event has its time, so that there is a time axis. */
  get isTimed() {
    return this.records.length > 0 && this.#untimed === 0;
  }

  /** JSON lines up to an event, for the verifier. */
  lines(end = this.records.length) {
    return this.records.slice(0, end).map((record) => `${record.text.replaceAll("\n", " ")}\n`).join("");
  }

  /** As server-sent events. The times stand in comments, which every reader passes over. */
  toTrace() {
    return this.records.map((record) => {
      const time = record.at === undefined ? "" : `: at ${Math.round(record.at)}\n`;
      const data = record.text.split("\n").map((line) => `data: ${line}\n`).join("");
      return `${time}${data}\n`;
    }).join("");
  }
}

/** Events whose text may be several deltas of one block in one. */
const MERGEABLE = new Set(["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS"]);

/** Where an event stands in the log, from its id `<run>.<number>.<k>`. */
export function placeOf(id) {
  const found = /^(.*)\.(\d+)\.(\d+)$/.exec(id ?? "");
  return found ? { run: found[1], number: Number(found[2]), part: Number(found[3]) } : undefined;
}

/** The times of a trace that was saved by `toTrace` or written by `aqueduct record`, if it is one. */
export function timesOf(trace) {
  if (/^\{[^\n]*"aqueduct"\s*:\s*"recording"/.test(trace)) return recordedTimes(trace);
  const times = [...trace.matchAll(/^: at (\d+)$/gm)].map((found) => Number(found[1]));
  return times.length > 0 ? times : undefined;
}

/** The times of recorded frames; the first line is the head, and the end has no frame. */
function recordedTimes(trace) {
  const lines = trace.split("\n").slice(1).filter((line) => line !== "");
  try {
    return lines.map((line) => JSON.parse(line)).filter((line) => line.data !== undefined).map((line) => line.at);
  } catch {
    return undefined;
  }
}
