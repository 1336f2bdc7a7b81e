// ResumableHttpAgent: the AG-UI client's own HttpAgent, whose runs survive lost connections.
//
// Everything that the base class does (parsing, checking, applying events) stays as it is: only the `fetch` that it reads
// from is another one, whose body goes on over as many connections as it takes. See `stream.js`.
import { HttpAgent } from "@ag-ui/client";
import { ResumingStream } from "./stream.js";

export { GatewaySocket } from "./socket.js";
export { ResumeError } from "./stream.js";
export { WebSocketAgent } from "./websocket.js";

export class ResumableHttpAgent extends HttpAgent {
  constructor({ resume, ...config }) {
    super(config);
    this.resume = { ...resume };
    this.activeRunId = undefined;
    this.lastEventId = undefined;
  }

  /** Runs the agent: one POST, and then as many GETs as there are cuts. */
  run(input) {
    if (this.resume.restore && isEmpty(input)) return this.connect(input);
    this.activeRunId = input.runId;
    this.lastEventId = undefined;
    const watch = () => `${this.gatewayUrl()}/runs/${encodeURIComponent(input.runId)}/events${versionOf(input)}`;
    return this.readThrough(input, (fetch, url, init) => ({
      start: (signal) => fetch(url, { ...init, signal }),
      resume: (lastEventId, signal) => fetch(watch(), resumption(init, lastEventId, signal)),
    }));
  }

  /** What `connectAgent` reads: the thread's history, and the run that is under way. */
  connect(input) {
    this.activeRunId = undefined;
    this.lastEventId = undefined;
    const thread = () => `${this.gatewayUrl()}/threads/${encodeURIComponent(this.threadId)}${versionOf(input)}`;
    return this.readThrough(input, (fetch, _url, init) => ({
      start: async (signal) => {
        const response = await fetch(thread(), resumption(init, undefined, signal));
        return response.status === 404 && this.resume.restore ? emptyThread(input) : response;
      },
      resume: (lastEventId, signal) => fetch(thread(), resumption(init, lastEventId, signal)),
    }));
  }

  /** The base class has no controller of its own for a connect. */
  connectAgent(parameters, subscriber) {
    this.abortController = parameters?.abortController ?? new AbortController();
    return super.connectAgent(parameters, subscriber);
  }

  /** Asks the gateway to stop the run under way. The stream then ends as a cancelled run ends. True if it was running. */
  async cancelRun() {
    if (this.activeRunId === undefined) return false;
    const init = { method: "POST", headers: { ...this.headers }, keepalive: true };
    const url = `${this.gatewayUrl()}/runs/${encodeURIComponent(this.activeRunId)}/cancel`;
    const response = await this.fetch(url, init);
    if (!response.ok) throw new Error(`the run could not be cancelled: HTTP ${response.status}`);
    return (await response.json()).cancelled;
  }

  clone() {
    const cloned = super.clone();
    cloned.resume = { ...this.resume };
    cloned.activeRunId = undefined;
    cloned.lastEventId = undefined;
    return cloned;
  }

  /** The address of the gateway: as configured, or the part before `/agents/` in the address of the agent. */
  gatewayUrl() {
    const configured = this.resume.gatewayUrl;
    const at = this.url.lastIndexOf("/agents/");
    if (configured === undefined && at < 0) {
      throw new Error(`${this.url} is not of the form …/agents/NAME: say where the gateway is by \`resume.gatewayUrl\``);
    }
    return (configured ?? this.url.slice(0, at)).replace(/\/$/, "");
  }

  /** Lets the base class read from a stream that resumes. */
  readThrough(input, requests) {
    const [outer, fetch] = [this, (url, init) => this.fetch(url, init)];
    // It differs from this agent by its `fetch` alone, and lives for one run.
    const reader = Object.create(this, {
      fetch: {
        value: async (url, init) => {
          outer.cancelWhenAborted(init.signal);
          const { retry, idleTimeoutMs, onReconnect } = outer.resume;
          const given = Object.entries({ retry, idleTimeoutMs, onReconnect }).filter(([, value]) => value !== undefined);
          const onFrame = (frame, lastEventId) => outer.note(frame, lastEventId);
          const stream = new ResumingStream({
            ...requests(fetch, url, init),
            ...Object.fromEntries(given),
            onFrame,
            signal: init.signal,
          });
          return stream.response();
        },
      },
    });
    return HttpAgent.prototype.run.call(reader, input);
  }

  note(frame, lastEventId) {
    this.lastEventId = lastEventId;
    if (frame.type === "RUN_STARTED") this.activeRunId = JSON.parse(frame.data).runId ?? this.activeRunId;
    if (frame.type === "RUN_FINISHED" || frame.type === "RUN_ERROR") this.activeRunId = undefined;
  }

  cancelWhenAborted(signal) {
    if (!this.resume.cancelOnAbort) return;
    const cancel = () => void this.cancelRun().catch((error) => this.resume.onCancelFailed?.(error));
    if (signal.aborted) cancel();
    else signal.addEventListener("abort", cancel, { once: true });
  }
}

/** The same request as a GET: same credentials, no body. */
function resumption(init, lastEventId, signal) {
  const headers = { ...init.headers };
  delete headers["Content-Type"];
  if (lastEventId !== undefined) headers["Last-Event-ID"] = lastEventId;
  return { ...init, method: "GET", body: undefined, headers, signal };
}

/** A reader is answered in the dialect that it began with. */
function versionOf(input) {
  return input.protocolVersion ? `?protocolVersion=${encodeURIComponent(input.protocolVersion)}` : "";
}

/** True if the client has nothing to say and to answer: all that such a run can be for is to read the thread. */
function isEmpty({ messages, resume }) {
  return messages.length === 0 && !resume?.length;
}

/** A thread that the gateway has not seen, as the run of it that a client reads. */
function emptyThread({ threadId, runId }) {
  const events = ["RUN_STARTED", "RUN_FINISHED"].map((type) => `data: ${JSON.stringify({ type, threadId, runId })}\n\n`);
  return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
}
