// What the gateway's verifier says about the events so far.
//
// The verifier keeps nothing between two questions, so the page sends what it has, again and again, but never more than
// a fifth of the time: the pause after an answer is four times as long as the answer took.

import { byId, el, setText, visible } from "./dom.js";

const PAUSE = 400;
const SHARE = 4;

export class Verdict {
  #asked = -1;
  #wholeAsked = false;
  #next = 0;
  #inFlight = undefined;

  constructor(api, { onPick, onAnswer }) {
    Object.assign(this, { api, onPick, onAnswer });
    this.pill = byId("verdict");
    this.list = byId("verdict-list");
    this.about = byId("verdict-about");
  }

  reset() {
    this.#inFlight?.abort();
    this.#inFlight = undefined;
    this.#asked = -1;
    this.#wholeAsked = false;
    this.#next = 0;
    this.#show("idle", "No events yet.", []);
  }

  /** Asks if there is something new to ask about. */
  update(recording, isWhole, now) {
    const isNew = recording.length !== this.#asked || (isWhole && !this.#wholeAsked);
    if (this.#inFlight || recording.length === 0 || !isNew || (now < this.#next && !isWhole)) return;
    this.#ask(recording, isWhole);
  }

  async #ask(recording, isWhole) {
    const control = new AbortController();
    this.#inFlight = control;
    const [began, count] = [performance.now(), recording.length];
    try {
      const found = await this.api.verify(recording.lines(count), isWhole, control.signal);
      if (control.signal.aborted) return;
      this.show(found, count, isWhole);
    } catch (error) {
      if (control.signal.aborted) return;
      const tooLong = error.status === 413;
      this.#show("idle", tooLong ? "The stream is longer than the gateway judges (`inspector.trace`)." : `No verdict: ${error.message}`, []);
    }
    this.#asked = count;
    this.#wholeAsked = isWhole;
    this.#next = performance.now() + Math.max(PAUSE, SHARE * (performance.now() - began));
    this.#inFlight = undefined;
    this.onAnswer();
  }

  /** A verdict that came with a recording; nothing more is asked about it. */
  settle(found, count) {
    this.#asked = count;
    this.#wholeAsked = true;
    this.show(found, count, true);
  }

  show(found, count, isWhole) {
    if (found.error) {
      this.#show("bad", `The stream cannot be read: ${found.error}`, []);
      return;
    }
    const rejected = found.violations.filter((violation) => violation.severity === "rejected").length;
    const about = found.total === 0
      ? `Nothing found in ${count} events${isWhole ? "" : " so far"}: clients of AG-UI 1.0 take this stream, and lose nothing.`
      : `${found.total} found in ${count} events${found.total > found.violations.length ? `, the first ${found.violations.length} are listed` : ""}: ${rejected} that clients reject, ${found.violations.length - rejected} that they do not notice.`;
    this.#show(found.total === 0 ? "good" : "bad", about, found.violations, found.total);
  }

  #show(state, about, violations, total = 0) {
    this.pill.dataset.state = state;
    setText(this.pill, { idle: "no verdict", good: "valid", bad: total === 0 ? "unreadable" : `${total} violation${total === 1 ? "" : "s"}` }[state]);
    setText(this.about, about);
    this.list.replaceChildren(...violations.map((violation) => this.#item(violation)));
  }

  #item({ index, event, rule, severity, what, fix }) {
    const place = el("button", { type: "button", class: "link", text: `event ${index}${event ? ` · ${visible(event)}` : ""}`, on: { click: () => this.onPick(index) } });
    return el("li", { class: severity }, el("div", { class: "row" }, place, el("code", { text: rule }), el("span", { class: "meta", text: severity })), el("p", { text: visible(what) }), el("p", { class: "meta", text: visible(fix) }));
  }
}
