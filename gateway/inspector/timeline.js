// Time (or order) from left to right, a row per lane: every block as a bar, drawn while the stream arrives.
//
// A canvas, because there may be tens of thousands of bars; the same as a table is in `timeline-table.js`.

import { byId, cut, duration, number, visible } from "./dom.js";
import { TimelineTable } from "./timeline-table.js";
import { Window } from "./window.js";

const ROW = 20;
const BAR = 12;
const AXIS = 18;
const SHOWN = new Set(["text", "thinking", "tool", "custom", "activity", "error", "user"]);
const OPACITY = { thinking: 0.35, custom: 0.6, activity: 0.6 };

/** Bars from blocks: where they begin and end on the axis. Pure. */
export function barsOf(blocks, axis, now) {
  const place = axis === "time" ? (mark) => mark?.at : (mark) => mark?.n;
  return blocks.filter((block) => SHOWN.has(block.kind)).map((block) => {
    const from = place(block.start) ?? 0;
    return { block, from, to: Math.max(from, place(block.end) ?? (block.status === "open" ? now : from)) };
  });
}

/** Round steps from `from` to `to`, at most `most` of them and none smaller than `least`. Pure. */
export function ticks(to, most, { from = 0, least = 0 } = {}) {
  const length = to - from;
  if (!(length > 0)) return [from];
  const rough = Math.max(least, length / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
  const first = Math.ceil(from / step - 1e-9);
  // Each is a product, rounded: a sum of tenths is no tenth.
  return Array.from({ length: Math.max(1, Math.floor(to / step + 1e-9) - first + 1) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Of the width, for the names of lanes: as much as the longest needs, up to this share. */
const NAMES_MOST = 0.45;
const INDENT = 10;

const NAME_FONT = "12px system-ui, sans-serif";
/** Of the time, for drawing: after a drawing the pause is so many times as long as it took. */
const SHARE = 4;
/** Names whose widths are kept. */
const WIDTHS_MOST = 5000;
const indentOf = (lane) => 4 + Math.min(lane.depth, 5) * INDENT;

function aboutBar(block) {
  const span = block.end?.at !== undefined && block.start.at !== undefined ? ` · ${duration(block.end.at - block.start.at)}` : "";
  return `${block.lane.name}: ${block.kind} ${block.title}${span}\n${cut(block.text, 80)}`;
}

export class Timeline {
  #dirty = true;
  #bars = [];
  #drawn = 0;
  #took = 0;
  /** Widths of names: to measure a text costs more than to draw it. */
  #widths = new Map();
  #colours;
  /** Where time is drawn: `{ left, width }`. */
  #plot = { left: 132, width: 1 };
  #rows = [];

  constructor({ onPick, wake }) {
    this.wake = wake;
    this.canvas = byId("timeline-canvas");
    this.box = byId("timeline-box");
    this.tip = byId("timeline-tip");
    this.axis = "time";
    this.onPick = onPick;
    this.window = new Window(this.box, { onChange: () => this.touch(), plot: () => this.#plot });
    this.table = new TimelineTable(onPick, () => this.touch());
    // Asking the page for a size makes it lay everything out: it tells by itself.
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      this.width = contentRect.width;
      this.touch();
    }).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#readColours());
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (event) => {
      const bar = this.window.hasMoved ? undefined : this.#barAt(event);
      if (bar) this.onPick(bar.block);
    });
    this.#readColours();
  }

  #readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    this.#colours = { hues: Array.from({ length: 8 }, (_, index) => get(`--hue-${index}`)), line: get("--line"), faint: get("--faint"), text: get("--text"), bad: get("--bad"), strong: get("--text") };
    this.touch();
  }

  touch() {
    this.#dirty = true;
    this.wake();
  }

  /** Draws if something changed; long recordings a few times per second. False if it is too early. */
  render(model, now, isTimed, isLive) {
    if (isLive && model.root.status === "open") this.#dirty = true;
    const pause = Math.max(model.blocks.length > 3000 ? 250 : 30, SHARE * this.#took);
    if (!this.#dirty) return true;
    if (now - this.#drawn < pause) return false;
    this.#dirty = false;
    this.#drawn = now;
    const axis = this.axis === "time" && isTimed ? "time" : "order";
    const began = performance.now();
    if (this.width > 0) this.#draw(model, axis);
    this.table.render(model, axis);
    this.#took = performance.now() - began;
    return true;
  }

  #draw(model, axis) {
    const rows = model.rows();
    const row = new Map(rows.map((lane, index) => [lane, index]));
    const [width, height] = [this.width, AXIS + rows.length * ROW + 4];
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.setProperty("height", `${height}px`);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const end = axis === "time" ? model.at.at ?? 0 : Math.max(0, model.at.n);
    this.#rows = rows.map((lane) => ({ lane, path: model.path(lane) }));
    const gutter = this.#gutter(pen, rows);
    this.#plot = { left: gutter, width: width - gutter - 10 };
    const { from, to } = this.window;
    const x = (value) => gutter + ((Math.max(0, value) / Math.max(end, 1) - from) / (to - from)) * this.#plot.width;
    const seen = { from: from * end, to: to * end };
    this.#axis(pen, { axis, seen, x, width, height });
    this.#lanes(pen, rows, { axis, end, x, gutter });
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, width - gutter, height);
    pen.clip();
    this.#spans(pen, rows, { axis, end, x });
    this.#blocks(pen, model, row, { axis, end, x, seen });
    pen.restore();
    const what = axis === "time" ? duration(end) : `${end + 1} events`;
    this.canvas.setAttribute("aria-label", `Timeline: ${rows.length} lanes, ${this.#bars.length} blocks, ${what}. The button “Table” shows the same as text.`);
  }

  /** Wide enough for the longest name, as far as there is room. */
  #gutter(pen, rows) {
    pen.font = NAME_FONT;
    const widest = rows.reduce((most, lane) => Math.max(most, indentOf(lane) + 8 + this.#widthOf(pen, visible(lane.name))), 60);
    return Math.round(Math.min(widest + 12, this.width * NAMES_MOST));
  }

  /** The width of a name in the font of names, which the pen must have. */
  #widthOf(pen, name) {
    if (this.#widths.size > WIDTHS_MOST) this.#widths.clear();
    let width = this.#widths.get(name);
    if (width === undefined) this.#widths.set(name, (width = pen.measureText(name).width));
    return width;
  }

  #axis(pen, { axis, seen, x, width, height }) {
    pen.font = "11px ui-monospace, monospace";
    pen.fillStyle = this.#colours.faint;
    pen.strokeStyle = this.#colours.line;
    pen.lineWidth = 1;
    for (const tick of ticks(seen.to, width / 110, { from: seen.from, least: axis === "time" ? 0 : 1 })) {
      const at = Math.round(x(tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, AXIS - 4);
      pen.lineTo(at, height);
      pen.stroke();
      const words = axis === "time" ? (tick === 0 ? "0" : duration(tick)) : number(tick);
      pen.fillText(words, Math.min(at + 3, width - pen.measureText(words).width - 4), 11);
    }
  }

  #lanes(pen, rows, { gutter }) {
    pen.font = NAME_FONT;
    rows.forEach((lane, index) => {
      const y = AXIS + index * ROW + ROW / 2;
      const hue = this.#colours.hues[lane.index % 8];
      const indent = indentOf(lane);
      pen.fillStyle = hue;
      pen.fillRect(indent, y - 4, 3, 9);
      pen.fillStyle = lane.status === "failed" ? this.#colours.bad : this.#colours.text;
      const name = visible(lane.name);
      const room = gutter - indent - 12;
      const fits = this.#widthOf(pen, name) <= room;
      // Some 6.5 pixels per letter: a name that is squeezed cannot be read. The whole name is in the tip.
      pen.fillText(fits ? name : cut(name, Math.max(1, Math.floor(room / 6.5) - 1)), indent + 8, y + 4);
    });
  }

  #spans(pen, rows, { axis, end, x }) {
    const place = (mark) => (axis === "time" ? mark?.at : mark?.n);
    rows.forEach((lane, index) => {
      const y = AXIS + index * ROW + ROW / 2;
      const hue = this.#colours.hues[lane.index % 8];
      const from = x(place(lane.start) ?? 0);
      pen.globalAlpha = 0.25;
      pen.fillStyle = hue;
      pen.fillRect(from, y - 1, Math.max(1, x(place(lane.end) ?? end) - from), 2);
      pen.globalAlpha = 1;
    });
  }

  #blocks(pen, model, row, { axis, end, x, seen }) {
    this.#bars = [];
    const last = new Map();
    for (const { block, from, to } of barsOf(model.blocks, axis, end)) {
      if (to < seen.from || from > seen.to) continue;
      const y = AXIS + row.get(block.lane) * ROW + (ROW - BAR) / 2;
      const left = x(from);
      const width = Math.max(2, x(to) - left);
      this.#bars.push({ block, left, right: left + width, y });
      // Bars that would cover the same two pixels again are not drawn again.
      if (last.get(block.lane) > left + width - 0.5) continue;
      last.set(block.lane, width <= 2 ? left + width : -1);
      const hue = block.kind === "error" || block.status === "failed" ? this.#colours.bad : this.#colours.hues[block.lane.index % 8];
      pen.globalAlpha = OPACITY[block.kind] ?? 1;
      pen.fillStyle = pen.strokeStyle = hue;
      if (block.kind === "tool" && width > 4) {
        pen.globalAlpha = 0.2;
        pen.fillRect(left, y, width, BAR);
        pen.globalAlpha = 1;
        pen.strokeRect(left + 0.5, y + 0.5, width - 1, BAR - 1);
      } else if (block.kind === "user") {
        pen.fillRect(left, y + BAR / 2 - 3, 6, 6);
      } else pen.fillRect(left, y, width, BAR);
    }
    pen.globalAlpha = 1;
  }

  #barAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.#bars.findLast((bar) => x >= bar.left - 2 && x <= bar.right + 2 && y >= bar.y - 3 && y <= bar.y + BAR + 3);
  }

  #point(event) {
    const bar = this.#barAt(event);
    const row = this.#rows[Math.floor((event.offsetY - AXIS) / ROW)];
    const name = bar || event.offsetX > this.#plot.left ? undefined : row?.path;
    this.tip.hidden = bar === undefined && name === undefined;
    this.canvas.classList.toggle("on-bar", bar !== undefined);
    if (this.tip.hidden) return;
    this.tip.textContent = visible(name ?? aboutBar(bar.block));
    const left = Math.min(event.offsetX + 12, this.width - 240);
    this.tip.style.setProperty("left", `${Math.max(0, left)}px`);
    this.tip.style.setProperty("top", `${event.offsetY + 14}px`);
  }
}
