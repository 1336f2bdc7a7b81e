// The part of the axis that is seen: zoomed by wheel with Ctrl, by keys and by buttons, moved by dragging; and the height of
// the timeline, which a grip below it sets.
//
//   whole ── zoom ──► part ── drag, arrows ──► another part ── fit, double click ──► whole

import { byId } from "./dom.js";

/** The smallest part that can be seen: 100,000 events at some pixels each. */
const LEAST = 1e-5;
const STEP = 1.5;
/** Pixels that a pointer may shake within a click. */
const SHAKE = 4;

export class Window {
  from = 0;
  to = 1;
  /** True if the last press of the pointer moved the window, so that it was no click. */
  hasMoved = false;

  constructor(box, { onChange, plot }) {
    Object.assign(this, { box, onChange, plot });
    box.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    box.addEventListener("pointerdown", (event) => this.#press(event));
    box.addEventListener("dblclick", () => this.set(0, 1));
    box.addEventListener("keydown", (event) => this.#key(event));
    byId("zoom-in").addEventListener("click", () => this.zoom(STEP));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / STEP));
    byId("zoom-fit").addEventListener("click", () => this.set(0, 1));
    this.#grip(byId("timeline-grip"));
  }

  set(from, to) {
    const width = Math.min(1, Math.max(LEAST, to - from));
    this.from = Math.min(Math.max(0, from), 1 - width);
    this.to = this.from + width;
    byId("zoom-fit").disabled = width === 1;
    this.onChange();
  }

  /** Zooms by a factor around a place, given as a share of what is seen. */
  zoom(factor, around = 0.5) {
    const width = (this.to - this.from) / factor;
    const at = this.from + (this.to - this.from) * around;
    this.set(at - width * around, at + width * (1 - around));
  }

  move(share) {
    const step = (this.to - this.from) * share;
    this.set(this.from + step, this.to + step);
  }

  #share(event) {
    const { left, width } = this.plot();
    return Math.min(1, Math.max(0, (event.clientX - this.box.getBoundingClientRect().left - left) / width));
  }

  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? STEP : 1 / STEP, this.#share(event));
    } else if (event.shiftKey && this.to - this.from < 1) {
      event.preventDefault();
      this.move(Math.sign(event.deltaY || event.deltaX) * 0.1);
    }
  }

  #press(event) {
    this.hasMoved = false;
    if (event.button !== 0 || this.to - this.from === 1) return;
    const [start, from, to] = [event.clientX, this.from, this.to];
    const drag = (event) => {
      if (Math.abs(event.clientX - start) > SHAKE) this.hasMoved = true;
      if (!this.hasMoved) return;
      const step = ((start - event.clientX) / this.plot().width) * (to - from);
      this.set(from + step, to + step);
    };
    addEventListener("pointermove", drag);
    addEventListener("pointerup", () => removeEventListener("pointermove", drag), { once: true });
  }

  #key(event) {
    const act = { "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), "-": () => this.zoom(1 / STEP), 0: () => this.set(0, 1), ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  /** Sets the height of the box, by pointer or by arrows. */
  #grip(grip) {
    const resize = (height) => {
      const fit = Math.round(Math.min(Math.max(48, height), innerHeight * 0.8));
      this.box.style.setProperty("height", `${fit}px`);
      this.box.style.setProperty("max-height", "none");
      grip.setAttribute("aria-valuenow", String(fit));
      this.onChange();
    };
    grip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const [start, height] = [event.clientY, this.box.clientHeight];
      const drag = (event) => resize(height + event.clientY - start);
      addEventListener("pointermove", drag);
      addEventListener("pointerup", () => removeEventListener("pointermove", drag), { once: true });
    });
    grip.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 20, ArrowUp: -20 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      resize(this.box.clientHeight + step);
    });
  }
}
