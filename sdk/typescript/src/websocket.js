// WebSocketAgent: an AG-UI agent over the gateway's WebSocket. Its runs share a socket with those of other agents, survive lost
// sockets, can be stopped, and are answered (`resume` entries of the next run) on the same socket.
import { AbstractAgent } from "@ag-ui/client";
import { Observable } from "rxjs";
import { GatewaySocket } from "./socket.js";

const TERMINAL = ["RUN_FINISHED", "RUN_ERROR"];

export class WebSocketAgent extends AbstractAgent {
  /** The run under way. */
  #run;

  constructor({ url, agent, token, socket, protocolVersion, cancelOnAbort = false, retry, onReconnect, WebSocket, ...config }) {
    super(config);
    this.agentName = agent;
    this.protocolVersion = protocolVersion;
    this.cancelOnAbort = cancelOnAbort;
    this.socket = socket ?? new GatewaySocket({ url, token, retry, onReconnect, WebSocket });
    this.activeRunId = undefined;
  }

  /** The events of a run, to its terminal event. */
  run(input) {
    const { protocolVersion = input.protocolVersion } = this;
    const declared = protocolVersion === undefined ? input : { ...input, protocolVersion };
    return new Observable((subscriber) => {
      let isOver = false;
      const run = this.socket.start({ agent: this.agentName, input: declared, protocolVersion }, {
        event: (event) => {
          isOver = TERMINAL.includes(event.type);
          subscriber.next(event);
        },
        end: () => (isOver ? subscriber.complete() : subscriber.error(new Error("the stream ended before the run did"))),
        fail: (error) => subscriber.error(error),
      });
      const abort = () => {
        subscriber.next({ type: "RUN_ERROR", code: "abort", message: "the run was aborted" });
        subscriber.complete();
      };
      this.activeRunId = input.runId;
      this.#run = { ...run, abort };
      return () => {
        run.leave();
        if (this.activeRunId === input.runId) this.activeRunId = undefined;
      };
    });
  }

  /** Leaves the run under way, which goes on at the gateway unless `cancelOnAbort` is set. */
  abortRun() {
    if (this.activeRunId === undefined) return;
    if (this.cancelOnAbort) this.#run.cancel();
    this.#run.abort();
  }

  /** Asks the gateway to stop the run under way. The stream then ends as a cancelled run ends. */
  cancelRun() {
    if (this.activeRunId !== undefined) this.#run.cancel();
  }

  /** Another agent on the same socket. */
  clone() {
    const { agentName, protocolVersion, cancelOnAbort, socket } = this;
    const cloned = new this.constructor({ agent: agentName, protocolVersion, cancelOnAbort, socket });
    const { agentId, description, threadId, messages, state } = this;
    return Object.assign(cloned, { agentId, description, threadId, messages: structuredClone(messages), state: structuredClone(state) });
  }
}
