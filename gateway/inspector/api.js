// The gateway's routes, as the page uses them. Every address is relative to this script, so a prefix before it is kept.

import { Pace } from "./pace.js";
import { SseParser } from "./sse.js";

const root = new URL("../", import.meta.url);
const at = (path) => new URL(path, root);

/** The gateway does not answer at all. */
export class Gone extends Error {
  constructor() {
    super(`The gateway at ${root.origin} does not answer: it was stopped, or the network is down.`);
  }
}

/** An answer that says no. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Pauses before another try, in milliseconds. Past the last one the stream is given up. */
const PAUSES = [200, 500, 1000, 2000, 4000];

export class Api {
  constructor(session) {
    this.session = session;
  }

  async #ask(path, init = {}) {
    const headers = new Headers(init.headers);
    if (this.session.token) headers.set("authorization", `Bearer ${this.session.token}`);
    const response = await fetch(at(path), { ...init, headers, cache: "no-store", credentials: "omit" }).catch((error) => {
      throw init.signal?.aborted ? error : new Gone();
    });
    if (response.ok) return response;
    const body = await response.json().catch(() => ({}));
    throw new Refused(response.status, body.error?.message ?? `the gateway answered ${response.status}`);
  }

  #post(path, body, init = {}) {
    return this.#ask(path, { method: "POST", body: JSON.stringify(body), ...init, headers: { "content-type": "application/json", ...init.headers } });
  }

  async agents() {
    return (await (await this.#ask("agents")).json()).agents;
  }

  /** Agents with what the last calls to them came to: `[{ name, description, status, … }]`. */
  async health() {
    return (await (await this.#ask("inspector/agents")).json()).agents;
  }

  /** Runs of the log that pass the filters: `{ runs, more, searched, searchedAll }`. */
  async runs(filters = {}) {
    const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== "" && value !== undefined));
    return (await this.#ask(`inspector/runs?${query}`)).json();
  }

  /** One stored event in every protocol, and the rule that led to it. */
  async forms(run, number) {
    return (await this.#ask(`inspector/runs/${encodeURIComponent(run)}/forms?number=${number}`)).json();
  }

  /** The A2A card of an agent; none if it has none. */
  async card(agent) {
    return (await this.#ask(`a2a/${encodeURIComponent(agent)}/.well-known/agent-card.json`)).json().catch(() => undefined);
  }

  async cancel(run) {
    return (await this.#post(`runs/${encodeURIComponent(run)}/cancel`, {})).json();
  }

  async verify(trace, whole, signal) {
    return (await this.#post("inspector/verify", { trace, whole }, { signal })).json();
  }

  /** What was found out about a recording, and its events as lines. */
  async convert(trace, convert) {
    const response = await this.#post("inspector/convert", { trace, convert });
    const [found, ...lines] = (await response.text()).split("\n");
    return { found: JSON.parse(found), lines: lines.filter((line) => line !== "") };
  }

  /** Starts a run and gives its frames to `take`, over as many connections as it needs. */
  async start(agent, input, take, signal, onTaken = () => {}) {
    const headers = { accept: "text/event-stream" };
    const response = await this.#post(`agents/${encodeURIComponent(agent)}${this.session.merge ? "" : "?merge=false"}`, input, { headers, signal });
    onTaken();
    await this.#follow(response, input.runId, take, signal);
  }

  /** Watches a run from its beginning. */
  async watch(run, take, signal) {
    const response = await this.#watch(run, "", signal);
    await this.#follow(response, run, take, signal);
  }

  #watch(run, last, signal) {
    const headers = { accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) };
    return this.#ask(`runs/${encodeURIComponent(run)}/events?protocolVersion=1.0${this.session.merge ? "" : "&merge=false"}`, { headers, signal });
  }

  /** Reads to the terminal event. A connection that breaks before is taken up again after the last id. */
  async #follow(response, run, take, signal) {
    const seen = { last: "", over: false };
    let failures = 0;
    for (let next = response; ; ) {
      const before = seen.last;
      try {
        await read(next, take, seen);
      } catch (error) {
        if (signal?.aborted) throw error;
      }
      if (seen.over) return;
      failures = seen.last === before ? failures : 0;
      do {
        if (failures >= PAUSES.length) throw new Gone();
        await new Promise((resolve) => setTimeout(resolve, PAUSES[failures++]));
        take({ reconnecting: true });
        next = await this.#watch(run, seen.last, signal).catch((error) => {
          // The run is gone: no later try will find it.
          if (signal?.aborted || error instanceof Refused) throw error;
          return undefined;
        });
      } while (next === undefined);
    }
  }
}

/** Reading without a pause, in milliseconds: a part of a frame. Where the rest of the page takes longer, reading does too. */
const READ_MOST = 5;
const REST = 10;

const ENDS = /"type":\s*"(?:RUN_FINISHED|RUN_ERROR)"/;

async function read(response, take, seen) {
  const parser = new SseParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const pace = new Pace(REST);
  let [began, scale] = [performance.now(), 1];
  for (;;) {
    const { done, value } = await reader.read();
    for (const frame of done ? parser.end() : parser.push(value)) {
      if (frame.id) seen.last = frame.id;
      // Looked at without parsing: the members of an event come in the order of its type.
      if (ENDS.test(frame.data.slice(0, 40))) seen.over = true;
      take(frame);
      // What has arrived already is read without a pause in between, so the page must be let in on purpose.
      const took = performance.now() - began;
      if (took > READ_MOST * scale) {
        pace.end(began, took, true);
        await new Promise((resolve) => setTimeout(resolve));
        began = performance.now();
        scale = pace.begin(began);
      }
    }
    if (done) return;
  }
}
