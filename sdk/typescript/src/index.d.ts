import type { HttpAgentConfig, RunAgentParameters, AgentSubscriber, RunAgentResult } from "@ag-ui/client";
import { HttpAgent } from "@ag-ui/client";

/** Tries without an event in between, and how long they wait. */
export interface RetrySettings {
  /** Tries before the run fails. Any event that arrives begins the count anew. Default 8. */
  attempts?: number;
  /** The wait before the first try; it doubles from try to try. Default 250. */
  firstDelayMs?: number;
  /** The longest wait. Default 15000. */
  maxDelayMs?: number;
}

/** Told before each wait. */
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
