// Figures in the bar and in their own panel.

import { byId, duration, el, number, setText, visible } from "./dom.js";
import { figures, usageRows } from "./stats.js";

const PAUSE = 250;
const rate = (value) => (value === undefined ? "–" : value >= 100 ? String(Math.round(value)) : value.toFixed(1));

export class StatsView {
  #drawn = 0;
  #key = "";

  constructor() {
    this.panel = byId("figures-panel");
    this.tab = byId("panel-figures");
  }

  /** False if it is too early: it wants another frame. */
  render(model, recording, end, now, clock) {
    const isShown = !this.tab.hidden;
    const key = `${recording.name} ${end} ${model.runs.length} ${clock === undefined} ${isShown}`;
    if (clock === undefined && key === this.#key) return true;
    if (now - this.#drawn < PAUSE) return false;
    this.#key = key;
    this.#drawn = now;
    const found = figures(recording.records, end, clock, recording.requests.at(-1));
    setText(byId("fig-events"), String(found.events));
    setText(byId("fig-stored"), recording.stored === undefined ? "–" : String(recording.stored));
    const merged = recording.merges ? recording.merged : 0;
    byId("merge-about").hidden = !recording.merges;
    setText(byId("merge-about"), `${merged} merged`);
    setText(byId("fig-first"), duration(found.first));
    setText(byId("fig-rate"), rate(clock === undefined ? found.mean : found.rate));
    setText(byId("fig-last"), duration(found.last));
    if (isShown) this.#fill(model, recording, found);
    return true;
  }

  #fill(model, recording, found) {
    const rows = [
      ["First event", duration(found.first)], ["First word of the answer", duration(found.answer)], ["Last event", duration(found.last)],
      ["AG-UI events", String(found.events)], ["Events in the log", recording.stored === undefined ? "–" : String(recording.stored)], ["Events per second, mean", rate(found.mean)], ["Characters", String(recording.bytes)],
      ["Lanes", String(model.lanes.length)], ["Blocks", String(model.blocks.length)], ["Runs", model.runs.map((run) => run.status).join(", ") || "–"],
    ];
    const timings = el("table", {}, el("caption", { text: "Timings, from the request" }), el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", { text: value })))));
    const types = [...model.types].sort((a, b) => b[1] - a[1]).map(([type, count]) => el("tr", {}, el("th", { scope: "row", text: visible(type) }), el("td", { text: count })));
    this.panel.replaceChildren(timings, usageTable(model.usage), el("table", {}, el("caption", { text: "Events by type" }), el("tbody", {}, ...types)));
  }
}

const COLUMNS = { model: "Model", inputTokens: "In", cachedInputTokens: "Cached", outputTokens: "Out", reasoningTokens: "Reasoning", totalTokens: "Total", cost: "Cost" };

function usageTable(usage) {
  const rows = usageRows(usage);
  if (rows.length === 0) return el("p", { class: "meta", text: "No usage was reported." });
  const cells = (row) => Object.keys(COLUMNS).map((name) => el("td", { text: name === "model" ? visible(`${row.provider} ${row.model}`.trim() || "–") : row[name] === undefined ? "–" : number(row[name]) }));
  return el("table", { class: "usage" }, el("caption", { text: "Usage, in tokens" }), el("thead", {}, el("tr", {}, ...Object.values(COLUMNS).map((text) => el("th", { scope: "col", text })))), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
}
