// The timeline as a table, for those who read instead of look.

import { byId, cut, duration, el, visible } from "./dom.js";

/** Rows that are made: a table is read from its beginning. */
const MOST = 300;

export class TimelineTable {
  #made = -1;

  constructor(onPick, touch) {
    this.box = byId("timeline-table");
    this.onPick = onPick;
    byId("as-table").addEventListener("click", (event) => {
      const shown = this.box.hidden;
      this.box.hidden = !shown;
      byId("timeline-box").hidden = shown;
      event.target.setAttribute("aria-pressed", String(shown));
      this.#made = -1;
      touch();
    });
  }

  render(model, axis) {
    if (this.box.hidden || this.#made === model.at.n) return;
    this.#made = model.at.n;
    const place = (mark) => (axis === "time" ? duration(mark?.at) : String(mark?.n ?? "–"));
    const blocks = model.blocks.filter((block) => block.kind !== "lane");
    const rows = blocks.slice(0, MOST).map((block) => el("tr", {},
      el("td", { text: visible(block.lane.name) }),
      el("td", {}, el("button", { type: "button", class: "link", text: `${block.kind} ${visible(block.title)}`.trim(), on: { click: () => this.onPick(block) } })),
      el("td", { text: place(block.start) }), el("td", { text: block.end ? place(block.end) : "open" }),
      el("td", { text: visible(cut(block.text, 60)) })));
    const head = ["Lane", "Block", "Began", "Ended", "Says"].map((text) => el("th", { scope: "col", text }));
    const more = blocks.length > MOST ? `; ${blocks.length - MOST} more are not listed` : "";
    this.box.replaceChildren(el("table", {}, el("caption", { text: `${blocks.length} blocks in ${model.lanes.length} lanes${more}` }), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
  }
}
