// An agent whose sub-agents each have a tool call: assistant-ui nests a sub-agent in the call that opened it, and one without a call
// would be shown as if the agent itself had said everything.
//
//   SUBAGENT_STARTED                        ──► TOOL_CALL_START, _ARGS, _END, then SUBAGENT_STARTED with that call as its parent
//   SUBAGENT_FINISHED, SUBAGENT_ERROR       ──► the same, then TOOL_CALL_RESULT
//   TOOL_CALL_RESULT that is a failure      ──► the same, with the members by which assistant-ui knows one
//   MESSAGES_SNAPSHOT                       ──► each sub-agent's messages as its call and its last text
//
// The calls have the ids of the sub-agents, which the gateway takes out again when the history comes back. Only events are
// rewritten: the agent stays the one that it was given.

const IS_ERROR = "aqueduct.isError";

/** The agent, whose events are rewritten. */
export function nested(agent) {
  return new Proxy(agent, {
    get(target, name, receiver) {
      const value = Reflect.get(target, name, target === receiver ? receiver : target);
      if (name === "run" || name === "connect") return (input) => rewritten(value.call(target, input));
      if (name === "clone") return () => nested(value.call(target));
      // The client's own methods call `this.run`: they must find the one above.
      return typeof value === "function" && METHODS.has(name) ? value.bind(receiver) : typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const METHODS = new Set(["runAgent", "connectAgent"]);

/** A stream like the one given, without a dependency on the library that made it: its class is found from the stream. */
function rewritten(source) {
  let prototype = Object.getPrototypeOf(source);
  while (Object.getPrototypeOf(prototype) !== Object.prototype) prototype = Object.getPrototypeOf(prototype);
  const nest = new Nest();
  return new prototype.constructor((subscriber) =>
    source.subscribe({
      next: (event) => nest.handle(event).forEach((event) => subscriber.next(event)),
      error: (error) => subscriber.error(error),
      complete: () => subscriber.complete(),
    }));
}

/** The events of one run. */
export class Nest {
  /** Lanes that have a call of ours, with the last text that they said. */
  #lanes = new Map();

  /** The events that stand for an event. */
  handle(event) {
    const lane = this.#lanes.get(event.subagentRunId);
    switch (event.type) {
      case "SUBAGENT_STARTED":
        return event.parentToolCallId === undefined && lane === undefined ? this.#open(event) : [event];
      case "SUBAGENT_FINISHED":
        return lane === undefined ? [event] : [event, this.#result(event, lane, textOf(event.result) ?? lane.text)];
      case "SUBAGENT_ERROR":
        return lane === undefined ? [event] : [event, this.#result(event, lane, event.message, true)];
      case "TEXT_MESSAGE_START":
        if (lane !== undefined) lane.text = "";
        return [event];
      case "TEXT_MESSAGE_CONTENT":
        if (lane !== undefined) lane.text += event.delta;
        return [event];
      case "TOOL_CALL_RESULT":
        return event.metadata?.[IS_ERROR] === true ? [failed(event)] : [event];
      case "MESSAGES_SNAPSHOT":
        return [{ ...event, messages: folded(event.messages) }];
      default:
        return [event];
    }
  }

  #open(event) {
    const { subagentRunId: toolCallId, name: toolCallName, description, parentSubagentRunId } = event;
    const tag = parentSubagentRunId === undefined ? {} : { subagentRunId: parentSubagentRunId };
    this.#lanes.set(toolCallId, { tag, text: "" });
    const delta = JSON.stringify(description === undefined ? {} : { input: description });
    return [
      { type: "TOOL_CALL_START", toolCallId, toolCallName, ...tag },
      { type: "TOOL_CALL_ARGS", toolCallId, delta, ...tag },
      { type: "TOOL_CALL_END", toolCallId, ...tag },
      { ...event, parentToolCallId: toolCallId },
    ];
  }

  #result({ subagentRunId: toolCallId }, { tag }, content, isError = false) {
    const result = { type: "TOOL_CALL_RESULT", messageId: `${toolCallId}/result`, toolCallId, content, role: "tool", ...tag };
    return isError ? failed(result) : result;
  }
}

const failed = (result) => ({ ...result, isError: true, _meta: { [IS_ERROR]: true } });
const textOf = (value) => (value === undefined || typeof value === "string" ? value : JSON.stringify(value));

/** Messages of sub-agents have no place of their own in a snapshot: each sub-agent becomes its call, with its last text. */
function folded(messages) {
  const [out, results] = [[], new Map()];
  for (const message of messages) {
    const { subagentRunId: id, role, content, name } = message;
    if (id === undefined) {
      out.push(message);
      continue;
    }
    if (!results.has(id)) {
      const call = { id, type: "function", function: { name: name ?? "agent", arguments: "{}" } };
      const result = { id: `${id}/result`, role: "tool", toolCallId: id, content: "" };
      results.set(id, { call, result });
      out.push({ id, role: "assistant", toolCalls: [call] }, result);
    }
    const held = results.get(id);
    if (name !== undefined) held.call.function.name = name;
    if (role === "assistant" && content) held.result.content = content;
  }
  return out;
}
