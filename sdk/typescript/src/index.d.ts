import type { AgentConfig, AgentSubscriber, BaseEvent, HttpAgentConfig, RunAgentInput, RunAgentParameters, RunAgentResult } from "@ag-ui/client";
import { AbstractAgent, HttpAgent } from "@ag-ui/client";
import type { Observable } from "rxjs";

/** Tries without an event in between, and how long they wait. */
export interface RetrySettings {
  /** Tries before the run fails. Any event that arrives resets the count. Default 8. */
  attempts?: number;
  /** The wait before the first try; it doubles from try to try. Default 250. */
  firstDelayMs?: number;
  /** The longest wait. Default 15000. */
  maxDelayMs?: number;
}

/** Passed to `onReconnect` before each wait. */
export interface Reconnect {
  cause: unknown;
  delayMs: number;
  lastEventId: string | undefined;
}

export interface ResumeSettings {
  /** Where the gateway is, if the agent's address is not of the form `…/agents/NAME`. */
  gatewayUrl?: string;
  retry?: RetrySettings;
  /** A connection on which nothing came for so long is given up, and another one is made. Default 45000. */
  idleTimeoutMs?: number;
  /** Stops the run itself when it is aborted here. Without it the run goes on and can be watched again. Default false. */
  cancelOnAbort?: boolean;
  /**
   * A run without messages and replies restates the thread, as `connectAgent` does, instead of asking the agent nothing. For
   * frontends that load a thread by a run. Default false.
   */
  restore?: boolean;
  onReconnect?(reconnect: Reconnect): void;
  onCancelFailed?(error: unknown): void;
}

export interface ResumableHttpAgentConfig extends HttpAgentConfig {
  resume?: ResumeSettings;
}

/** An `HttpAgent` whose runs survive lost connections. */
export class ResumableHttpAgent extends HttpAgent {
  constructor(config: ResumableHttpAgentConfig);
  resume: ResumeSettings;
  /** The run under way. */
  activeRunId: string | undefined;
  /** The id of the last event that was handed on. */
  lastEventId: string | undefined;
  /** Restates the thread and follows the run that is under way. */
  connectAgent(
    parameters?: RunAgentParameters & { abortController?: AbortController },
    subscriber?: AgentSubscriber,
  ): Promise<RunAgentResult>;
  /** Asks the gateway to stop the run under way. True if it was running. */
  cancelRun(): Promise<boolean>;
  /** Where the gateway is. */
  gatewayUrl(): string;
  clone(): ResumableHttpAgent;
}

/** A stream that could not be taken up again. */
export class ResumeError extends Error {
  /** The HTTP status, if the gateway answered. */
  status?: number;
  /** The gateway's word for it, e.g. `gone`. */
  code?: string;
  /** The first event that is left, where events are gone. */
  earliest?: number;
  lastEventId?: string;
}

export interface GatewaySocketConfig {
  /** The gateway's `/ws`, e.g. `wss://gateway.example.org/ws`. */
  url: string;
  /** A bearer token. */
  token?: string;
  retry?: RetrySettings;
  /** How long a socket without a run is kept for the next one. Default 10000. */
  lingerMs?: number;
  onReconnect?(reconnect: Reconnect): void;
  /** The class to use where there is no global one (Node.js before 22). */
  WebSocket?: new (url: string, protocols?: string[]) => unknown;
}

/** Several runs over one WebSocket of the gateway, each of which survives lost sockets. */
export class GatewaySocket {
  constructor(config: GatewaySocketConfig);
  /** Closes the socket. Runs go on at the gateway. */
  close(): void;
}

export interface WebSocketAgentSettings extends AgentConfig {
  /** The agent's name at the gateway. */
  agent: string;
  /** The version of AG-UI to be answered in; the client's own without it. */
  protocolVersion?: string;
  /** Stops the run itself when it is aborted here. Default false. */
  cancelOnAbort?: boolean;
}

/** Either a socket that agents share, or what is needed to open one. */
export type WebSocketAgentConfig = WebSocketAgentSettings & (GatewaySocketConfig | { socket: GatewaySocket });

/** An agent over the gateway's WebSocket. */
export class WebSocketAgent extends AbstractAgent {
  constructor(config: WebSocketAgentConfig);
  readonly agentName: string;
  readonly socket: GatewaySocket;
  /** The run under way. */
  activeRunId: string | undefined;
  run(input: RunAgentInput): Observable<BaseEvent>;
  /** Asks the gateway to stop the run under way. */
  cancelRun(): void;
  clone(): WebSocketAgent;
}
