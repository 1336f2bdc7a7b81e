// The events as they came: a list of any length of which only the visible rows exist.

import { byId, count, cut, duration, el, fill, pretty, setText, visible } from "./dom.js";
import { Filter, GROUPS, summary } from "./filter.js";

const ROW = 22;
/** Rows made above and below what is seen, so that a wheel does not show a gap. */
const SPARE = 6;
const DETAIL_MOST = 100_000;

/** Where an event stands in the log. */
function placeWords({ stored, stands }) {
  if (!stored) return "";
  if (stands) return `merged: stored events ${stored.number - stands + 1}–${stored.number}`;
  return `stored event ${stored.number}${stored.part > 1 ? `, part ${stored.part}` : ""}`;
}

export class RawList {
  #filter = new Filter();
  #rows = new Map();
  #selected = -1;
  #types = 0;
  #end = 0;
  #dirty = true;
  #moved = false;

  constructor({ recording, hueOf, wake, onSelect }) {
    Object.assign(this, { recording, hueOf, wake, onSelect });
    this.view = byId("raw-view");
    this.space = byId("raw-space");
    this.detail = byId("raw-detail");
    this.type = byId("raw-type");
    this.words = byId("raw-words");
    this.count = byId("raw-count");
    this.follow = byId("raw-follow");
    // Asking the page where it is makes it lay everything out: it tells by itself.
    this.top = this.height = 0;
    this.view.addEventListener("scroll", () => {
      this.top = this.view.scrollTop;
      this.touch();
    }, { passive: true });
    new ResizeObserver(([{ contentRect }]) => {
      this.height = contentRect.height;
      // The event that is shown below takes room from the list: its row stays in sight.
      if (!this.follow.checked && this.#selected >= 0) this.#scrollTo(this.#filter.found.indexOf(this.#selected));
      this.touch();
    }).observe(this.view);
    this.view.addEventListener("keydown", (event) => this.#key(event));
    this.view.addEventListener("wheel", () => (this.follow.checked = false), { passive: true });
    this.space.addEventListener("click", (event) => {
      const row = event.target.closest("[data-n]");
      if (row) this.select(Number(row.dataset.n));
    });
    for (const control of [this.type, this.words]) control.addEventListener("input", () => this.#narrow());
  }

  touch() {
    this.#dirty = true;
    this.wake();
  }

  reset(recording) {
    this.recording = recording;
    this.#filter.clear();
    this.#selected = -1;
    this.#types = 0;
    this.#end = 0;
    this.detail.hidden = true;
    this.follow.checked = true;
    this.type.replaceChildren(el("option", { value: "", text: "All types" }));
    this.type.value = "";
    this.#narrow();
  }

  #narrow() {
    this.#filter.set(this.type.value, this.words.value.trim());
    this.#scroll(0);
    this.#clearRows();
    this.touch();
  }

  #scroll(top) {
    this.top = Math.max(0, Math.min(top, this.#filter.found.length * ROW - this.height));
    this.#moved = true;
  }

  /** Once per frame, after everything else: it lays the page out. */
  scroll() {
    if (this.#moved) this.view.scrollTop = this.top;
    this.#moved = false;
  }

  #clearRows() {
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
  }

  /** Lists the first `end` events; true if all of them were looked at. */
  render(model, end, isOver) {
    if (end < this.#end) this.#clearRows();
    if (end !== this.#end) this.touch();
    this.#end = end;
    const before = this.#filter.found.length;
    const whole = this.#filter.scan(this.recording.records, end, isOver);
    if (before !== this.#filter.found.length) this.touch();
    if (!this.#dirty || this.height === 0) return whole;
    this.#dirty = false;
    this.#listTypes(model);
    const { found } = this.#filter;
    setText(this.count, this.#filter.isOpen ? count(end, "event") : `${found.length} of ${end}`);
    this.space.style.setProperty("height", `${found.length * ROW}px`);
    if (this.follow.checked) this.#scroll(found.length * ROW);
    this.#showRows(found);
    return whole;
  }

  #showRows(found) {
    const first = Math.max(0, Math.floor(this.top / ROW) - SPARE);
    const last = Math.min(found.length, Math.ceil((this.top + this.height) / ROW) + SPARE);
    for (const [place, row] of this.#rows) {
      if (place >= first && place < last) continue;
      row.remove();
      this.#rows.delete(place);
    }
    for (let place = first; place < last; place += 1) {
      if (!this.#rows.has(place)) this.#rows.set(place, this.#row(place, found));
    }
    this.view.setAttribute("aria-activedescendant", this.#selected >= 0 ? `event-${this.#selected}` : "");
  }

  #row(place, found) {
    const record = this.recording.records[found[place]];
    const row = el("div", { role: "option", id: `event-${record.n}`, class: `row hue-${this.hueOf(record.lane)}`, "data-n": record.n, "aria-posinset": place + 1, "aria-setsize": found.length, "aria-selected": String(record.n === this.#selected) },
      el("span", { class: "n", text: record.n }), el("span", { class: "at", text: record.at === undefined ? "" : duration(record.at) }),
      el("span", { class: "dot" }), el("span", { class: "type", text: visible(cut(record.type, 60)) }),
      record.stands ? el("span", { class: "stands", text: `×${record.stands}`, title: `stands for stored events ${record.stored.number - record.stands + 1} to ${record.stored.number}` }) : undefined,
      el("span", { class: "says", text: visible(cut(summary(record.event), 160)) }));
    row.style.setProperty("transform", `translateY(${place * ROW}px)`);
    this.space.append(row);
    return row;
  }

  #listTypes(model) {
    if (model.types.size === this.#types) return;
    this.#types = model.types.size;
    const chosen = this.type.value;
    const types = [...model.types.keys()].sort();
    this.type.replaceChildren(el("option", { value: "", text: "All types" }),
      el("optgroup", { label: "Groups" }, ...Object.keys(GROUPS).map((group) => el("option", { value: `group:${group}`, text: group }))),
      el("optgroup", { label: "Types" }, ...types.map((type) => el("option", { value: type, text: visible(cut(type, 60)) }))));
    this.type.value = chosen;
  }

  /** Shows an event whole. */
  select(n) {
    const record = this.recording.records[n];
    if (!record) return;
    this.#mark(this.#selected, false);
    this.#selected = n;
    this.#mark(n, true);
    this.detail.hidden = false;
    byId("raw-detail-title").textContent = `Event ${n} · ${visible(cut(record.type, 60))}`;
    byId("raw-detail-place").textContent = placeWords(record);
    this.onSelect?.(record);
    fill(byId("raw-detail-text"), visible(cut(pretty(record.event), DETAIL_MOST)));
  }

  #mark(n, isSelected) {
    byId(`event-${n}`)?.setAttribute("aria-selected", String(isSelected));
  }

  /** Brings an event into view, whatever the filter was. */
  reveal(n) {
    if (!this.#filter.found.includes(n)) {
      this.type.value = "";
      this.words.value = "";
      this.#filter.set("", "");
      this.#filter.scan(this.recording.records, this.#end);
      this.#clearRows();
    }
    this.follow.checked = false;
    this.#scrollTo(this.#filter.found.indexOf(n));
    this.touch();
    this.select(n);
  }

  #scrollTo(place) {
    if (place < 0) return;
    const top = place * ROW;
    if (top < this.top || top + ROW > this.top + this.height) this.#scroll(top - this.height / 2);
  }

  #key(event) {
    const { found } = this.#filter;
    const page = Math.max(1, Math.floor(this.height / ROW) - 1);
    const here = found.indexOf(this.#selected);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: found.length - 1 }[event.key];
    if (to === undefined || found.length === 0) return;
    event.preventDefault();
    this.follow.checked = false;
    const place = Math.max(0, Math.min(found.length - 1, to));
    this.#scrollTo(place);
    this.#dirty = false;
    this.#showRows(found);
    this.select(found[place]);
  }
}
