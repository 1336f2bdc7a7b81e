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
  #untimed = 0;

  /** What the user said to start a run: words, or the answer to a question. */
  remember({ id, prompt, answer }) {
    if (prompt !== undefined) this.prompts.set(id, { text: prompt });
    else if (answer !== undefined) this.prompts.set(id, { text: answer, isAnswer: true });
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
    this.records.push(record);
    this.bytes += text.length;
    if (at === undefined) this.#untimed += 1;
    return record;
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

/** The times of a trace that was saved by `toTrace`, if it is one. */
export function timesOf(trace) {
  const times = [...trace.matchAll(/^: at (\d+)$/gm)].map((found) => Number(found[1]));
  return times.length > 0 ? times : undefined;
}
