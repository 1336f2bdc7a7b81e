// One stream of events over as many connections as it takes.
//
//            start()                    whole frames, each once
//   opening ─────────► reading ──────────────────────────────────► the body that the AG-UI client reads
//      ▲ lost before      │ the connection ends or breaks
//      │ an answer        ├─ after RUN_FINISHED or RUN_ERROR ──► ended
//      └── waiting ◄──────┘
//            │ resume(last id) ── an answer ──► reading
//            ├─ refused for good (404, 410, 401 …) ──► failed: ResumeError
//            └─ no try is left ──────────────────────► failed: ResumeError
//
// The last id is remembered before its event is handed on, and only whole frames are handed on: so nothing is lost and
// nothing comes twice, wherever a connection breaks. A stream that ends without its terminal event never looks as if it
// had ended well.
import { FrameSplitter } from "./frames.js";
import { isRepeated } from "./position.js";
import { RetryBudget, abortReason, pause } from "./retry.js";

/** A stream that could not be taken up again. */
export class ResumeError extends Error {
  /** @param {string} message @param {{ status?: number, code?: string, earliest?: number, lastEventId?: string, cause?: unknown }} details */
  constructor(message, { cause, ...details } = {}) {
    super(message, { cause });
    this.name = "ResumeError";
    Object.assign(this, details);
  }
}

const EVENT_STREAM = "text/event-stream";
/** The gateway writes at least a comment every 15 s; three of them missing mean that it is gone. */
const IDLE_TIMEOUT_MS = 45_000;

export class ResumingStream {
  #start;
  #resume;
  /** Ends all of it: the caller's signal, or a body without a reader. */
  #life = new AbortController();
  #options;
  #budget;
  #connection;
  #lastEventId;
  #retryAfterMs;
  #ended = false;

  /**
   * `start(signal)` opens the stream, `resume(lastEventId, signal)` takes it up again; both are a `fetch`. `signal` ends
   * all of it.
   */
  constructor({ start, resume, signal, ...options }) {
    this.#start = start;
    this.#resume = resume;
    if (signal?.aborted) this.#life.abort(signal.reason);
    signal?.addEventListener("abort", () => this.#life.abort(signal.reason), { once: true });
    this.#options = { idleTimeoutMs: IDLE_TIMEOUT_MS, ...options };
    this.#budget = new RetryBudget(options.retry);
  }

  /** The answer, whose body is the whole stream. An answer that is no event stream is given as it is. */
  async response() {
    const first = await this.#open();
    if (!isEventStream(first)) return first;
    const frames = this.#frames(first);
    const body = new ReadableStream({
      pull: async (controller) => {
        try {
          const { done, value } = await frames.next();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(error);
        }
      },
      cancel: (reason) => this.#life.abort(reason),
    });
    return withQuietCancel(new Response(body, { status: 200, headers: { "content-type": EVENT_STREAM } }));
  }

  /** Opens the stream. If no answer came it is not known whether the run began: it is looked for before it is begun again. */
  async #open() {
    try {
      return await this.#connect(this.#start);
    } catch (error) {
      return this.#openAgain(error);
    }
  }

  async #openAgain(cause) {
    for (;;) {
      await this.#wait(cause);
      try {
        const found = await this.#connect((signal) => this.#resume(undefined, signal));
        if (found.status !== 404) {
          if (!isTransient(found)) return found;
          this.#note(found);
          continue;
        }
        const started = await this.#connect(this.#start);
        // The first request had arrived after all.
        if (started.status !== 409) return started;
      } catch (error) {
        cause = error;
      }
    }
  }

  async *#frames(first) {
    const encoder = new TextEncoder();
    for (let response = first; ; ) {
      let cause = new Error("the stream ended before the run did");
      try {
        for await (const frame of this.#read(response)) yield encoder.encode(frame.text);
      } catch (error) {
        cause = error;
      }
      if (this.#ended) return;
      response = await this.#reconnect(cause);
    }
  }

  /** The frames of one connection that were not there before. */
  async *#read(response) {
    const [reader, splitter] = [response.body.getReader(), new FrameSplitter()];
    try {
      for (;;) {
        const { done, value } = await this.#inTime(reader.read());
        if (done) return;
        for (const frame of splitter.take(value)) {
          if (this.#admit(frame)) yield frame;
        }
      }
    } finally {
      // Also when the reader of the frames has gone.
      this.#connection?.abort();
      reader.cancel().catch(() => {});
    }
  }

  #admit(frame) {
    if (frame.id !== undefined) {
      if (isRepeated(frame.id, this.#lastEventId)) return false;
      this.#lastEventId = frame.id;
    }
    if (!frame.hasData) return false;
    this.#budget.reset();
    if (frame.type === "RUN_STARTED") this.#ended = false;
    if (frame.type === "RUN_FINISHED" || frame.type === "RUN_ERROR") this.#ended = true;
    this.#options.onFrame?.(frame, this.#lastEventId);
    return true;
  }

  async #reconnect(cause) {
    for (;;) {
      await this.#wait(cause);
      let response;
      try {
        response = await this.#connect((signal) => this.#resume(this.#lastEventId, signal));
      } catch (error) {
        cause = error;
        continue;
      }
      if (isEventStream(response)) return response;
      const refused = await this.#refusal(response);
      if (!isTransient(response)) throw refused;
      this.#note(response);
      cause = refused;
    }
  }

  async #wait(cause) {
    if (this.#life.signal.aborted) throw abortReason(this.#life.signal);
    const delay = this.#budget.next(this.#retryAfterMs);
    this.#retryAfterMs = undefined;
    if (delay === undefined) {
      const message = "the stream was lost and could not be taken up again: the gateway cannot be reached";
      throw new ResumeError(message, { cause, lastEventId: this.#lastEventId });
    }
    this.#options.onReconnect?.({ cause, delayMs: delay, lastEventId: this.#lastEventId });
    await pause(delay, this.#life.signal);
  }

  async #refusal(response) {
    const body = await response.json().catch(() => undefined);
    const error = body?.error ?? {};
    const message = `the stream cannot be taken up again: HTTP ${response.status}: ${error.message ?? response.statusText}`;
    const { code, earliest } = error;
    return new ResumeError(message, { status: response.status, code, earliest, lastEventId: this.#lastEventId });
  }

  /** A server that is busy may say for how long. */
  #note(response) {
    const seconds = Number(response.headers.get("retry-after"));
    if (seconds > 0) this.#retryAfterMs = seconds * 1000;
  }

  /** A connection of its own signal: it ends with the whole, or alone when nothing comes. */
  async #connect(open) {
    const connection = new AbortController();
    this.#connection = connection;
    const life = this.#life.signal;
    if (life.aborted) throw abortReason(life);
    const stop = () => connection.abort(life.reason);
    life.addEventListener("abort", stop, { once: true });
    connection.signal.addEventListener("abort", () => life.removeEventListener("abort", stop), { once: true });
    return open(connection.signal);
  }

  #inTime(reading) {
    const limit = this.#options.idleTimeoutMs;
    let timer;
    const silence = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came for ${limit} ms`)), limit);
    });
    return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
  }
}

/**
 * The AG-UI client cancels the reader of a body that has failed, and lets what that throws go unhandled, which ends a
 * process of Node.js. The failure itself has been reported by then.
 */
function withQuietCancel(response) {
  const source = response.body;
  const getReader = () => {
    const reader = source.getReader();
    const cancel = (reason) => reader.cancel(reason).catch(() => {});
    return { read: () => reader.read(), cancel };
  };
  return Object.defineProperty(response, "body", { value: { getReader } });
}

function isEventStream(response) {
  return response.ok && (response.headers.get("content-type") ?? "").startsWith(EVENT_STREAM);
}

/** An answer that may be another one later. */
function isTransient(response) {
  return response.status === 408 || response.status === 425 || response.status === 429 || response.status >= 500;
}
