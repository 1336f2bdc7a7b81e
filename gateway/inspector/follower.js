// The stream that is being read, if there is one: into a recording, with its place remembered for a reload.
//
//   idle ── follow ──► reading ── terminal event, refused, lost ──► idle
//                         └────── leave, another follow ──────────► idle, without a word

export class Follower {
  #stream = undefined;
  #last = "";

  constructor(session, { onPhase, onChange }) {
    Object.assign(this, { session, onPhase, onChange });
  }

  get isReading() {
    return this.#stream !== undefined;
  }

  /** Reads what `open` gives to its end. Gives the error if it could not, or undefined; `isLeft` if it was abandoned. */
  async follow(recording, open, { clock, onRecord }) {
    this.leave();
    const control = new AbortController();
    this.#stream = control;
    this.onPhase("running");
    this.onChange();
    const take = (frame) => {
      this.onPhase(frame.reconnecting ? "reconnecting" : "running");
      if (frame.reconnecting) return;
      this.#last = frame.id;
      onRecord(recording.push(frame.data, { at: clock(), id: frame.id }));
    };
    const error = await open(take, control.signal).then(() => undefined, (error) => error);
    if (this.#stream !== control) return { isLeft: true };
    this.remember();
    this.#stream = undefined;
    this.onChange();
    return { error, isLeft: false };
  }

  /** The run goes on without this page. */
  leave() {
    this.#stream?.abort();
    this.#stream = undefined;
    this.#last = "";
    this.onChange();
  }

  /** Called with every frame: storage is too slow for every event. */
  remember() {
    if (this.#last !== "" && this.#last !== this.session.last) this.session.set({ last: this.#last });
  }
}
