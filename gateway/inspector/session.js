// What survives a reload of this tab, and ends with it: the token, the thread, where its runs were.

const KEY = "aqueduct.inspector";
/** Runs of one thread that are shown again after a reload. */
const RUNS_MOST = 20;

const EMPTY = { token: "", agent: "", thread: "", runs: [], last: "", merge: false, draft: "" };

export class Session {
  #kept;

  constructor(storage = globalThis.sessionStorage) {
    this.storage = storage;
    try {
      this.#kept = { ...EMPTY, ...JSON.parse(storage.getItem(KEY) ?? "{}") };
    } catch {
      this.#kept = { ...EMPTY };
    }
  }

  get token() {
    return this.#kept.token;
  }

  get agent() {
    return this.#kept.agent;
  }

  get thread() {
    return this.#kept.thread;
  }

  /** `{ id, runId, agent, prompt }`, oldest first; `runId` is the id in its events, where it is another. */
  get runs() {
    return this.#kept.runs;
  }

  /** True to be sent merged deltas, as a slow frontend is. */
  get merge() {
    return this.#kept.merge;
  }

  /** What was typed and not yet taken by the gateway. */
  get draft() {
    return this.#kept.draft;
  }

  /** The id of the last event that was received, as the gateway wrote it. */
  get last() {
    return this.#kept.last;
  }

  set(changes) {
    Object.assign(this.#kept, changes);
    this.#save();
  }

  addRun(run) {
    this.#kept.runs = [...this.#kept.runs, run].slice(-RUNS_MOST);
    this.#kept.last = "";
    this.#save();
  }

  /** A run that the gateway never took. */
  dropRun(id) {
    this.set({ runs: this.#kept.runs.filter((run) => run.id !== id) });
  }

  forgetThread() {
    this.set({ thread: "", runs: [], last: "" });
  }

  #save() {
    try {
      this.storage.setItem(KEY, JSON.stringify(this.#kept));
    } catch {
      // A full or closed storage costs the resume after a reload, nothing else.
    }
  }
}
