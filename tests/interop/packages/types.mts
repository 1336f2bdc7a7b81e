// How an application in TypeScript uses the React components without a frontend: compiled, never run.
import type { HttpAgent } from "@ag-ui/client";
import { WebSocketAgent } from "aqueduct-agui";
import { LaneStore, type LaneState, Question, StoredLane, useLanes } from "aqueduct-react";
import { createElement } from "react";

export function useOwn(agent: HttpAgent | WebSocketAgent) {
  const store: LaneStore = useLanes(agent, "thread");
  const lanes: LaneState[] = store.roots.flatMap((id) => store.lanes.get(id) ?? []);
  return [
    ...lanes.map(({ id }) => createElement(StoredLane, { key: id, store, id })),
    createElement(Question, { interrupt: { id: "i", message: "Which?" }, onReply: (payload) => payload, onDecline: () => undefined }),
  ];
}
