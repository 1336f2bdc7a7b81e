import type { ReactElement, ReactNode } from "react";

/** How a sub-agent stands. */
export type LaneStatus = "running" | "done" | "failed" | "waiting" | "stopped";

/** One thing in a lane, in the order of its first event. */
export interface LaneItem {
  kind: "text" | "thought" | "tool" | "notice" | "lane";
  /** Of the message, the tool call or the lane. */
  id: string;
  text: string;
}

/** The work of one sub-agent. */
export interface LaneState {
  id: string;
  name: string;
  description?: string;
  status: LaneStatus;
  /** Why it failed. */
  error?: string;
  result?: unknown;
  /** The lane of the agent that called it; absent for the agent's own sub-agents. */
  parent?: string;
  items: LaneItem[];
}

export interface ToolState {
  id: string;
  name: string;
  /** As they came: JSON, or the beginning of it. */
  args: string;
  result: string | undefined;
  isError: boolean;
}

/** What the sub-agents of a thread do, folded from its attributed AG-UI events. */
export class LaneStore {
  readonly lanes: Map<string, LaneState>;
  readonly tools: Map<string, ToolState>;
  /** The lanes of the agent's own sub-agents, oldest first. */
  readonly roots: string[];
  /** How the last run failed. */
  readonly failure: { message: string; code?: string } | undefined;
  readonly version: number;
  handle(event: { type: string }): void;
  subscribe(listener: () => void): () => void;
  /** The lane that a lane hangs under at the top. */
  topOf(id: string): string;
}

/** An AG-UI agent, as far as its events are concerned. */
export interface EventSource {
  subscribe(subscriber: { onEvent(params: { event: any }): any }): { unsubscribe(): void };
}

/** Follows an AG-UI agent. A new `thread` begins with an empty store. */
export function useLanes(agent: EventSource, thread?: string): LaneStore;
/** Follows a store. */
export function useStore(store: LaneStore): LaneStore;

/** A lane of a store, with all that it holds. `renderText` shows words by other means, such as Markdown. */
export function StoredLane(props: { store: LaneStore; id: string; renderText?: (text: string) => ReactNode }): ReactElement | null;
/** A box for the work of a sub-agent. */
export function Lane(props: { name: string; status: LaneStatus; error?: string; description?: string; open?: boolean; children?: ReactNode }): ReactElement;
/** A tool call: its name and how it went; arguments and result inside. */
export function Tool(props: { name: string; args?: unknown; result?: unknown; isError?: boolean; status?: LaneStatus }): ReactElement;
export function Thought(props: { text: string; isActive?: boolean }): ReactElement;
export function Words(props: { text: string }): ReactElement;
export function Failure(props: { message: string; code?: string }): ReactElement;

/** A question of an agent, as AG-UI sends it. */
export interface Interrupt {
  id: string;
  message?: string;
  /** JSON Schema of the reply. */
  responseSchema?: any;
}

/** A question as the form that its JSON Schema describes. A promise that is rejected lets the person try again. */
export function Question(props: {
  interrupt: Interrupt;
  onReply(payload: unknown): unknown;
  onDecline(): unknown;
}): ReactElement;

export interface Field {
  name: string;
  type: "string" | "number" | "integer" | "boolean" | "choice" | "json";
  title: string;
  description?: string;
  required: boolean;
  choices?: { value: unknown; title: string }[];
  minimum: number;
  maximum: number;
  initial?: unknown;
}

export interface Form {
  kind: "choice" | "form" | "text";
  fields: Field[];
}

/** What a JSON Schema asks for. */
export function formOf(schema: unknown): Form;
/** The first values of the fields. */
export function valuesOf(form: Form): Record<string, unknown>;
/** The reply, or what is wrong with which field. */
export function replyOf(form: Form, values: Record<string, unknown>): { payload: unknown; errors?: undefined } | { errors: Record<string, string>; payload?: undefined };
