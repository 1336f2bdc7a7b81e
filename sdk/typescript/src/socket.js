// GatewaySocket: several runs over one WebSocket of the gateway (subprotocol `aqueduct.v1.json`), each of which survives lost sockets.
//
//             connect            open: every run is started or watched
//   closed ───────────► opening ─────────────────────────────────────► open ── events, by run ──► the sink of each run
//     ▲                    │ refused, or lost                            │ lost
//     │ no run is left     └────────► waiting (doubling, with jitter) ◄──┘
//     └──────────────────────────────────┴─ no try is left ──► every run fails: ResumeError
//
// A run's position is (number, k) of its last payload. After a loss it is watched behind that, and what comes again is dropped: so
// nothing is lost and nothing comes twice. Whether a start that got no answer has begun a run is not known: the run is looked for
// by its id first, and begun again only if the gateway does not have it.
import { RetryBudget } from "./retry.js";
import { ResumeError } from "./stream.js";

const PROTOCOL = "aqueduct.v1.json";
/** How long a socket without a run is kept for the next one. */
const LINGER_MS = 10_000;

export class GatewaySocket {
  #options;
  #budget;
  #socket;
  #timer;
  #runs = new Map();
  #count = 0;

  /** `url` is the gateway's `/ws`; `WebSocket` is the class to use where there is no global one (Node.js before 22). */
  constructor({ url, token, retry, lingerMs = LINGER_MS, onReconnect, WebSocket = globalThis.WebSocket }) {
    if (WebSocket === undefined) throw new Error("there is no WebSocket here: pass the class as `WebSocket`");
    this.#options = { url, token, lingerMs, onReconnect, WebSocket };
    this.#budget = new RetryBudget(retry);
  }

  /**
   * Starts a run. `sink` has `event(data)`, `end()` and `fail(error)`, of which the last two are called once. The run that is returned can
   * be left (`leave()`: it goes on) and stopped (`cancel()`).
   */
  start({ agent, input, protocolVersion }, sink) {
    this.#count += 1;
    const run = { ref: `r${this.#count}`, agent, input, protocolVersion, id: input.runId, state: "new", last: undefined, sink };
    this.#runs.set(run.ref, run);
    clearTimeout(this.#timer);
    if (this.#socket === undefined) this.#connect();
    else if (this.#isOpen()) this.#begin(run);
    return { leave: () => this.#leave(run), cancel: () => this.#cancel(run), get lastNumber() { return run.last?.number; } };
  }

  #isOpen() {
    return this.#socket?.readyState === 1;
  }

  #connect() {
    const { url, token, WebSocket } = this.#options;
    const socket = new WebSocket(url, token === undefined ? [PROTOCOL] : [PROTOCOL, `aqueduct.bearer.${token}`]);
    this.#socket = socket;
    socket.onopen = () => this.#runs.forEach((run) => this.#begin(run));
    socket.onmessage = ({ data }) => typeof data === "string" && this.#take(JSON.parse(data));
    const lost = (what) => socket === this.#socket && this.#lost(new Error(what));
    // A browser closes after an error; Node.js does not if the socket never opened.
    socket.onerror = () => socket.readyState !== 1 && lost("the socket could not be opened");
    socket.onclose = ({ code, reason }) => lost(`the socket was closed (${code}${reason ? `: ${reason}` : ""})`);
  }

  #lost(cause) {
    this.#socket = undefined;
    if (this.#runs.size === 0) return;
    const delayMs = this.#budget.next();
    if (delayMs === undefined) {
      const message = "the socket was lost and could not be opened again: the gateway cannot be reached";
      return [...this.#runs.values()].forEach((run) => this.#fail(run, new ResumeError(message, { cause })));
    }
    this.#options.onReconnect?.({ cause, delayMs, lastEventId: undefined });
    this.#timer = setTimeout(() => this.#connect(), delayMs);
  }

  /** Starts a run, or takes it up where it was. */
  #begin(run) {
    if (run.state === "new") {
      run.state = "starting";
      const { ref, agent, input } = run;
      return this.#send({ type: "start", ref, agent, input });
    }
    run.state = run.state === "starting" || run.state === "looking" ? "looking" : "watching";
    const options = run.protocolVersion === undefined ? {} : { options: { protocolVersion: run.protocolVersion } };
    this.#send({ type: "watch", ref: run.ref, run: run.id, after: afterOf(run), ...options });
  }

  #take(message) {
    const run = message.ref === undefined ? this.#byId(message.run) : this.#runs.get(message.ref);
    if (run === undefined) return;
    switch (message.type) {
      case "started":
        run.id = message.run;
        run.state = "watching";
        break;
      case "watching":
        run.state = "watching";
        break;
      case "event":
        this.#event(run, message);
        break;
      case "ended":
        this.#drop(run);
        run.sink.end();
        break;
      case "gone":
        this.#fail(run, new ResumeError("events of the run are no longer kept", { code: "gone", earliest: message.earliest }));
        break;
      case "error":
        this.#refused(run, message);
    }
  }

  #byId(id) {
    for (const run of this.#runs.values()) if (run.id === id) return run;
    return undefined;
  }

  #event(run, { number, k = 0, data, more = false }) {
    const { last } = run;
    if (last !== undefined && (number < last.number || (number === last.number && k <= last.k))) return;
    run.last = { number, k, more };
    this.#budget.reset();
    run.sink.event(data);
  }

  #refused(run, { code, message }) {
    if (run.state === "looking" && code === "not_found") {
      run.state = "new";
      return this.#begin(run);
    }
    if (run.state === "watching" && code === "lost") return this.#begin(run);
    this.#fail(run, new ResumeError(`the gateway refused the run: ${message}`, { code }));
  }

  #fail(run, error) {
    if (this.#drop(run)) run.sink.fail(error);
  }

  #leave(run) {
    if (this.#drop(run) && this.#isOpen() && run.state === "watching") this.#send({ type: "unwatch", run: run.id });
  }

  #cancel(run) {
    if (this.#isOpen()) this.#send({ type: "cancel", run: run.id });
  }

  #drop(run) {
    const was = this.#runs.delete(run.ref);
    if (was && this.#runs.size === 0) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.close(), this.#options.lingerMs);
      // A process of Node.js does not wait for it.
      this.#timer.unref?.();
    }
    return was;
  }

  /** Closes the socket. Runs go on at the gateway. */
  close() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    [...this.#runs.values()].forEach((run) => this.#fail(run, new ResumeError("the socket was closed here")));
    clearTimeout(this.#timer);
  }

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }
}

/** The number to watch a run after: an event of which a payload is missing comes again. */
function afterOf({ last }) {
  if (last === undefined) return 0;
  return last.more ? last.number - 1 : last.number;
}
