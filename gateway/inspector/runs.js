// Past runs that the gateway still holds, to be opened and replayed.

import { byId, duration, el, visible } from "./dom.js";

export class Runs {
  constructor(api, { onOpen }) {
    this.api = api;
    this.onOpen = onOpen;
    this.box = byId("runs-list");
    this.about = byId("runs-about");
    byId("runs-refresh").addEventListener("click", () => this.refresh());
  }

  async refresh() {
    try {
      const runs = await this.api.runs();
      this.about.textContent = runs.length === 0 ? "No runs yet." : `${runs.length} run${runs.length === 1 ? "" : "s"}, newest first.`;
      this.box.replaceChildren(...runs.map((run) => this.#row(run)));
    } catch (error) {
      this.about.textContent = error.message;
      this.box.replaceChildren();
    }
  }

  #row(run) {
    const when = new Date(run.openedAt);
    const state = run.endedAt === null ? "under way" : duration(run.endedAt - run.openedAt);
    const open = (replay) => () => this.onOpen(run, replay);
    return el("tr", {},
      el("td", {}, el("button", { type: "button", class: "link", text: visible(run.agent), title: `run ${visible(run.run)}`, on: { click: open(false) } })),
      el("td", {}, el("time", { datetime: when.toISOString(), text: when.toLocaleTimeString() })),
      el("td", { text: state }), el("td", { text: run.events }),
      el("td", {}, el("button", { type: "button", class: "small", text: "Replay", "aria-label": `Replay ${visible(run.agent)} of ${when.toLocaleTimeString()}`, on: { click: open(true) } })));
  }
}
