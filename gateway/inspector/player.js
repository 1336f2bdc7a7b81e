// How far a recording is shown: all of it, or as far as a replay or the user has come.
//
//   live ── replay ──► playing ⇄ paused ── the end, or `live` ──► live
//             seek ──► paused

/** Without times: so many events per second at speed 1. */
const UNTIMED_RATE = 30;

export class Player {
  state = "live";
  speed = 1;
  #position = 0;
  #clock = 0;
  #then = 0;

  constructor(recording) {
    this.recording = recording;
  }

  /** The number of events to show at this moment. */
  target(now) {
    if (this.state === "live") return this.recording.length;
    if (this.state === "playing") this.#play(now);
    return this.#position;
  }

  replay(now) {
    this.state = "playing";
    this.#position = 0;
    this.#clock = 0;
    this.#then = now;
  }

  pause() {
    if (this.state === "playing") this.state = "paused";
  }

  resume(now) {
    if (this.state !== "paused") return;
    this.state = "playing";
    this.#then = now;
  }

  seek(position) {
    this.state = "paused";
    this.#position = Math.max(0, Math.min(position, this.recording.length));
    this.#clock = this.#timeOf(this.#position);
  }

  live() {
    this.state = "live";
  }

  #timeOf(position) {
    const record = this.recording.records[Math.min(position, this.recording.length - 1)];
    return record?.at ?? (position * 1000) / UNTIMED_RATE;
  }

  #play(now) {
    this.#clock += (now - this.#then) * this.speed;
    this.#then = now;
    const { records } = this.recording;
    while (this.#position < records.length && this.#timeOf(this.#position) <= this.#clock) this.#position += 1;
    if (this.#position >= records.length) this.state = "live";
  }
}
