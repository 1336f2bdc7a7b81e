// assistant-ui: its AG-UI runtime, which nests the messages of a sub-agent in the tool call that called it, and components that show
// them.
import { ErrorPrimitive, MessagePrimitive } from "@assistant-ui/react";
import { useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";
import { createElement as h, useMemo, useRef } from "react";
import { Lane, Thought, Tool, Words } from "./components.js";
import { nested } from "./nested.js";
import { Question } from "./question.js";

/**
 * `useAgUiRuntime`, with all of its options. With `restore` (a `ResumableHttpAgent` with `resume: { restore: true }`) a page that is
 * loaded again shows its thread and follows the run under way.
 */
export function useAqueductRuntime({ agent, restore = false, adapters, ...options }) {
  const shown = useMemo(() => nested(agent), [agent]);
  const history = useMemo(() => ({ load: async () => ({ messages: [], unstable_resume: true }), append: async () => {} }), []);
  return useAgUiRuntime({ ...options, agent: shown, adapters: restore ? { history, ...adapters } : adapters });
}

/** What an assistant says and does: for `ThreadPrimitive.Messages` or a message of your own. `Text` shows words. */
export function AqueductMessage({ Text = Words, className = "aq-message" }) {
  const components = useMemo(() => ({ Text, Reasoning: Thought, tools: { Override: (part) => h(Call, { part, Text }) } }), [Text]);
  return h(
    MessagePrimitive.Root,
    { className },
    h(MessagePrimitive.Parts, { components }),
    h(MessagePrimitive.Error, null, h(ErrorPrimitive.Root, { className: "aq-failure", role: "alert" }, h("strong", null, "Failed: "), h(ErrorPrimitive.Message))),
  );
}

/** The questions that the thread waits for, as forms. They are sent together, when the last one is answered. */
export function AqueductQuestions() {
  const [interrupts, submit] = [useAgUiInterrupts(), useAgUiSubmitInterruptResponses()];
  const replies = useRef(new Map());
  const reply = async (interruptId, entry) => {
    replies.current.set(interruptId, { interruptId, ...entry });
    const entries = interrupts.map(({ id }) => replies.current.get(id));
    if (entries.every((entry) => entry !== undefined)) await submit(entries);
  };
  return interrupts.map((interrupt) =>
    h(Question, {
      key: interrupt.id,
      interrupt,
      onReply: (payload) => reply(interrupt.id, { status: "resolved", payload }),
      onDecline: () => reply(interrupt.id, { status: "cancelled" }),
    }));
}

/** A tool call, or the lanes that it opened. */
function Call({ part, Text }) {
  const lanes = part.messages ?? [];
  if (lanes.length > 0) return lanes.map((message) => h(LaneMessage, { key: message.id, message, Text }));
  const isStopped = part.result === undefined && part.status?.type === "incomplete";
  const status = isStopped ? { status: "stopped" } : {};
  return h(Tool, { name: part.toolName, args: part.argsText, result: textOf(part.result), isError: part.isError, ...status });
}

/** The message of a sub-agent, which assistant-ui holds inside the call. */
function LaneMessage({ message, Text }) {
  const { status, content, metadata } = message;
  const { name, description } = metadata?.custom?.agui ?? {};
  const parts = content.map((part, at) => h("div", { key: at }, partOf({ status, ...part }, Text)));
  const error = status.reason === "error" ? String(status.error ?? "the sub-agent failed") : undefined;
  return h(Lane, { name: name ?? "agent", description, status: statusOf(status), error }, parts);
}

function partOf(part, Text) {
  if (part.type === "text") return h(Text, part);
  if (part.type === "reasoning") return h(Thought, part);
  if (part.type === "tool-call") return h(Call, { part, Text });
  return part.type === "data" && part.name === "aqueduct.notice" ? h("p", { className: "aq-notice" }, part.data?.text) : null;
}

function statusOf({ type, reason }) {
  if (type === "incomplete") return reason === "error" ? "failed" : "stopped";
  return { running: "running", "requires-action": "waiting" }[type] ?? "done";
}

/** A result that failed comes as the object of an MCP tool, with its text inside. */
function textOf(result) {
  if (result === undefined || typeof result === "string") return result;
  const [part] = Array.isArray(result?.content) ? result.content : [];
  return part?.type === "text" ? part.text : JSON.stringify(result);
}
