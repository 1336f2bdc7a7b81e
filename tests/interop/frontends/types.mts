// How an application in TypeScript uses the packages beside the frontends: compiled, never run.
import { HttpAgent } from "@ag-ui/client";
import { ResumableHttpAgent, WebSocketAgent } from "aqueduct-agui";
import { LaneStore, type LaneState, Question, StoredLane, Tool, formOf, replyOf, useLanes, valuesOf } from "aqueduct-react";
import { AqueductMessage, AqueductQuestions, useAqueductRuntime } from "aqueduct-react/assistant-ui";
import { AqueductChat } from "aqueduct-react/copilotkit";
import { createElement } from "react";

export const chat = createElement(AqueductChat, { agentId: "team", threadId: "thread", renderText: (text: string) => text.trim() });

export function useAssistant(agent: ResumableHttpAgent) {
  const runtime = useAqueductRuntime({ agent, restore: true });
  return [runtime, createElement(AqueductMessage, { Text: ({ text }) => text }), createElement(AqueductQuestions as () => any)];
}

export function useOwn(agent: HttpAgent | WebSocketAgent) {
  const store: LaneStore = useLanes(agent, "thread");
  const lanes: LaneState[] = store.roots.flatMap((id) => store.lanes.get(id) ?? []);
  return [
    ...lanes.map(({ id }) => createElement(StoredLane, { key: id, store, id })),
    createElement(Tool, { name: "search", args: { query: "x" }, result: "42", isError: false }),
    createElement(Question, { interrupt: { id: "i", message: "Which?" }, onReply: (payload) => payload, onDecline: () => undefined }),
  ];
}

const form = formOf({ type: "object", properties: { seats: { type: "integer" } } });
const { payload, errors } = replyOf(form, valuesOf(form));
export const shown: string[] = [String(payload), ...Object.values(errors ?? {})];
