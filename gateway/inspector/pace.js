// How long the page may work at a stretch. Pure: times come in as arguments.
//
// A fixed slice of every frame is smooth on a fast machine and starves on a slow one: there the browser's own part of a frame
// (layout, paint, other programs on the same cores) grows and the slice does not, so the share of the work goes towards
// nothing and a long stream never ends. Here the slice grows with the rest of the frame: the work keeps its share, and the
// frames get longer instead.

/** A slice grows up to this factor: the page still answers several times per second. */
const MOST = 16;

export class Pace {
  #rest;
  #scale = 1;
  #then = undefined;
  #worked = 0;

  /** `rest` is what others may take between two slices, in milliseconds, before slices grow. */
  constructor(rest) {
    this.#rest = rest;
  }

  /** A slice begins at `now`. Gives the factor by which it may be longer. */
  begin(now) {
    const others = this.#then === undefined ? 0 : now - this.#then - this.#worked;
    this.#scale = Math.min(MOST, Math.max(1, others / this.#rest));
    return this.#scale;
  }

  /** The slice that began at `began` took `worked`. `isBehind` if work is left: otherwise the pause that follows is a rest, not
   *  a lack of time. */
  end(began, worked, isBehind) {
    this.#then = isBehind ? began : undefined;
    this.#worked = worked;
  }
}
