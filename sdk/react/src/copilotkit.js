// CopilotKit v2: its chat, with sub-agents as lanes, tool calls that can fail, failures in words, and questions as forms.
import {
  CopilotChat,
  CopilotChatAssistantMessage,
  CopilotChatMessageView,
  CopilotChatReasoningMessage,
  useAgent,
  useDefaultRenderTool,
  useInterrupt,
} from "@copilotkit/react-core/v2";
import { createContext, createElement as h, useContext, useMemo } from "react";
import { Failure, StoredLane, Tool, useStore } from "./components.js";
import { LaneStore } from "./lanes.js";
import { Question } from "./question.js";
import { useLanes } from "./use-lanes.js";

/** The store of the chat, for the slots that CopilotKit fills. */
const Lanes = createContext(new LaneStore());

/** `CopilotChat`, with all of its props. `renderText` shows the words of sub-agents by other means. */
export function AqueductChat({ agentId, renderText, messageView, ...rest }) {
  const { agent } = useAgent({ agentId, updates: [] });
  const store = useLanes(agent, rest.threadId);
  useDefaultRenderTool({ render: (props) => h(RootTool, props) });
  useInterrupt({
    agentId,
    render: ({ interrupts, resolve, cancel }) =>
      h("div", { className: "aq-questions" }, interrupts.map((interrupt) =>
        h(Question, {
          key: interrupt.id,
          interrupt,
          onReply: (payload) => resolve(payload, interrupt.id),
          onDecline: () => cancel(interrupt.id),
        }))),
  });
  const view = useMemo(() => (props) => h(MessageView, { ...props, ...messageView, renderText }), [messageView, renderText]);
  return h(Lanes.Provider, { value: store }, h(CopilotChat, { agentId, ...rest, messageView: view }));
}

/** A tool call of the agent itself. */
function RootTool({ name, toolCallId, parameters, result }) {
  const store = useStore(useContext(Lanes));
  return h(Tool, { name, args: parameters, result, isError: store.tools.get(toolCallId)?.isError });
}

/** The messages; those of sub-agents are shown once, as lanes where the first of them stands. */
function MessageView({ renderText, messages = [], ...rest }) {
  const store = useStore(useContext(Lanes));
  const anchors = new Map();
  for (const { id, subagentRunId } of messages) {
    const top = subagentRunId === undefined ? undefined : store.topOf(subagentRunId);
    if (top !== undefined && ![...anchors.values()].includes(top)) anchors.set(id, top);
  }
  const anchored = new Set(anchors.values());
  const slot = useMemo(() => (Stock) => (props) => {
    const { id, subagentRunId } = props.message;
    return subagentRunId === undefined ? h(Stock, props) : h(Anchor, { id, renderText });
  }, [renderText]);
  const slots = useMemo(
    () => ({ assistantMessage: slot(CopilotChatAssistantMessage), reasoningMessage: slot(CopilotChatReasoningMessage) }),
    [slot],
  );
  const lonely = store.roots.filter((id) => !anchored.has(id));
  return h(
    Anchors.Provider,
    { value: anchors },
    h(CopilotChatMessageView, { messages, ...slots, ...rest }),
    lonely.map((id) => h(StoredLane, { key: id, store, id, renderText })),
    store.failure && h(Failure, store.failure),
  );
}

/** Lanes by the id of the message that they stand at. */
const Anchors = createContext(new Map());

function Anchor({ id, renderText }) {
  const [store, lane] = [useContext(Lanes), useContext(Anchors).get(id)];
  return lane === undefined ? null : h(StoredLane, { store, id: lane, renderText });
}
