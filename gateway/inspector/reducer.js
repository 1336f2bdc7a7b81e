// AG-UI events into the model. Lenient: what a verifier would reject is shown as well as it can be. Pure.

import { applyPatch } from "./patch.js";

/** Takes one record of a recording. */
export function apply(model, record) {
  const { event, n, at, type } = record;
  model.at = { n, at };
  model.types.set(type, (model.types.get(type) ?? 0) + 1);
  // A type is the agent's word: `constructor` is no handler.
  const handle = Object.hasOwn(HANDLERS, type) ? HANDLERS[type] : undefined;
  // A lane that is announced gets its name from the handler.
  if (type === "SUBAGENT_STARTED") handle(model, event);
  else if (handle) handle(model, event, model.lane(event.subagentRunId));
  else model.add("custom", model.lane(event.subagentRunId), { title: type || "(no type)", value: event });
}

const keyOf = (kind, id, lane) => `${kind} ${id ?? `of ${lane.id}`}`;

function grow(kind, blockKind) {
  const open = (model, id, lane, event) => {
    const key = keyOf(kind, id, lane);
    return model.current(key) ?? model.open(key, blockKind, lane, {
      id: id ?? "", role: event.role ?? "assistant", title: event.name ?? "", metadata: event.metadata,
    });
  };
  return {
    start: (model, event, lane) => {
      model.close(keyOf(kind, event.messageId, lane));
      const block = open(model, event.messageId, lane, event);
      if (event.metadata?.["aqueduct.replaces"]) replace(model, event.metadata["aqueduct.replaces"], block);
    },
    content: (model, event, lane) => model.append(open(model, event.messageId, lane, event), event.delta),
    end: (model, event, lane) => model.close(keyOf(kind, event.messageId, lane)),
    chunk: (model, event, lane) => {
      // One stream of chunks per lane: another id ends the one before.
      const id = event.messageId ?? lane.chunk?.id;
      if (lane.chunk && lane.chunk.id !== id) model.close(lane.chunk.key);
      lane.chunk = { id, key: keyOf(kind, id, lane) };
      model.append(open(model, id, lane, event), event.delta);
    },
  };
}

function replace(model, id, by) {
  const old = model.blocks.findLast((block) => block.id === id && block !== by && block.kind === by.kind);
  if (!old) return;
  old.replaced = true;
  model.touch(old);
}

const text = grow("text", "text");
const thinking = grow("thinking", "thinking");
// The retired events name no message.
const legacy = (handle) => (model, event, lane) => handle(model, { ...event, messageId: "(legacy)" }, lane);

function toolStart(model, event, lane) {
  const block = model.open(keyOf("tool", event.toolCallId, lane), "tool", lane, { id: event.toolCallId, title: event.toolCallName ?? "tool" });
  model.rememberCall(event.toolCallId, block);
  return block;
}

function toolArgs(model, event, lane) {
  const block = model.current(keyOf("tool", event.toolCallId, lane)) ?? toolStart(model, event, lane);
  model.append(block, event.delta);
}

function toolChunk(model, event, lane) {
  const id = event.toolCallId ?? lane.callChunk;
  lane.callChunk = id;
  toolArgs(model, { ...event, toolCallId: id }, lane);
}

/** The arguments are whole; the call goes on until its result. */
function toolEnd(model, event, lane) {
  const block = model.current(keyOf("tool", event.toolCallId, lane));
  if (!block) return;
  block.called = model.at;
  model.touch(block);
}

function toolResult(model, event, lane) {
  const block = model.call(event.toolCallId) ?? toolStart(model, event, lane);
  const failed = event.metadata?.["aqueduct.isError"] === true;
  block.result = event.content;
  if (block.status === "open") model.close(keyOf("tool", event.toolCallId, block.lane), failed ? "failed" : "done");
  Object.assign(block, { status: failed ? "failed" : "done", end: model.at });
  if (failed) model.fail(block.lane, block, `${block.title} failed`);
  model.touch(block);
}

function stateDelta(model, event) {
  try {
    const { value, changed } = applyPatch(model.state ?? {}, event.delta ?? []);
    model.state = value;
    model.patches.applied += 1;
    changed.forEach((pointer) => model.changed.add(pointer));
  } catch (error) {
    model.patches.failed.push({ n: model.at.n, what: error.message });
  }
}

function stateSnapshot(model, event) {
  model.state = event.snapshot ?? null;
  model.patches.applied += 1;
  model.changed.add("");
}

function activity(model, event, lane) {
  const key = keyOf("activity", event.messageId, lane);
  const known = model.current(key);
  if (known && event.replace === false) return;
  const block = known ?? model.open(key, "activity", lane, { id: event.messageId, title: event.activityType });
  block.value = event.content;
  model.touch(block);
}

function activityDelta(model, event, lane) {
  const block = model.current(keyOf("activity", event.messageId, lane));
  if (!block) return;
  try {
    block.value = applyPatch(block.value, event.patch ?? []).value;
  } catch (error) {
    block.problem = error.message;
  }
  model.touch(block);
}

/** The user's last words in the input that a stream repeats. */
function saidIn(input) {
  const content = input?.messages?.findLast?.((message) => message.role === "user")?.content;
  if (content === undefined) return undefined;
  return { text: typeof content === "string" ? content : JSON.stringify(content) };
}

function runStarted(model, event) {
  const run = { id: event.runId, thread: event.threadId, start: model.at, status: "open" };
  model.runs.push(run);
  model.interrupts = [];
  model.root.status = "open";
  const said = model.prompts.get(event.runId) ?? saidIn(event.input);
  // Answers go to their questions; those whose question is not here are shown where they were given.
  const strays = said?.answers?.filter(({ id, words }) => !model.answer(id, words));
  if (strays && strays.length < said.answers.length) return;
  if (said) model.add("user", model.root, { id: `user-${event.runId}`, text: said.text, title: said.isAnswer ? "You answered" : "You", isAnswer: said.isAnswer });
}

function runFinished(model, event) {
  const outcome = event.outcome?.type ?? "success";
  endRun(model, outcome, event.usage);
  model.interrupts = outcome === "interrupt" ? event.outcome.interrupts ?? [] : [];
  model.interrupts.forEach((interrupt) => model.ask(interrupt));
  model.add("end", model.root, { title: outcome, value: event.result, interrupts: model.interrupts });
}

function runError(model, event) {
  // 0.0.59 has no outcome for a run that was stopped, and says it by the code.
  if (event.code === "cancelled") {
    endRun(model, "cancelled", event.usage);
    model.add("end", model.root, { title: "cancelled" });
    return;
  }
  endRun(model, "failed", event.usage);
  const block = model.add("error", model.root, { title: event.code ?? "the run failed", text: event.message ?? "", status: "failed" });
  model.fail(model.root, block, event.message ?? "the run failed");
}

const ENDED = { failed: "failed", cancelled: "stopped" };

function endRun(model, outcome, usage) {
  const status = ENDED[outcome] ?? "done";
  model.closeAll(status);
  Object.assign(model.root, { status, end: model.at });
  Object.assign(model.runs.at(-1) ?? {}, { status: outcome, end: model.at });
  model.usage.push(...(usage ?? []));
}

function subagentError(model, event, lane) {
  if (event.code === "cancelled") return model.closeLane(lane, "stopped");
  model.closeLane(lane, "failed", { problem: event.message, code: event.code });
  return model.fail(lane, lane.block ?? lane.blocks.at(-1), event.message ?? "failed");
}

const HANDLERS = {
  RUN_STARTED: runStarted,
  RUN_FINISHED: runFinished,
  RUN_ERROR: runError,
  TEXT_MESSAGE_START: text.start,
  TEXT_MESSAGE_CONTENT: text.content,
  TEXT_MESSAGE_END: text.end,
  TEXT_MESSAGE_CHUNK: text.chunk,
  REASONING_START: () => {},
  REASONING_END: () => {},
  REASONING_MESSAGE_START: thinking.start,
  REASONING_MESSAGE_CONTENT: thinking.content,
  REASONING_MESSAGE_END: thinking.end,
  REASONING_MESSAGE_CHUNK: thinking.chunk,
  REASONING_ENCRYPTED_VALUE: (model, event, lane) => model.add("note", lane, { title: "encrypted reasoning", text: `for ${event.subtype} ${event.entityId}` }),
  THINKING_START: () => {},
  THINKING_END: () => {},
  THINKING_TEXT_MESSAGE_START: legacy(thinking.start),
  THINKING_TEXT_MESSAGE_CONTENT: legacy(thinking.content),
  THINKING_TEXT_MESSAGE_END: legacy(thinking.end),
  TOOL_CALL_START: toolStart,
  TOOL_CALL_ARGS: toolArgs,
  TOOL_CALL_CHUNK: toolChunk,
  TOOL_CALL_END: toolEnd,
  TOOL_CALL_RESULT: toolResult,
  STATE_SNAPSHOT: stateSnapshot,
  STATE_DELTA: stateDelta,
  MESSAGES_SNAPSHOT: (model, event, lane) => model.add("note", lane, { title: "messages restated", text: `${event.messages?.length ?? 0} messages` }),
  ACTIVITY_SNAPSHOT: activity,
  ACTIVITY_DELTA: activityDelta,
  RAW: (model, event, lane) => model.add("custom", lane, { title: `raw${event.source ? ` · ${event.source}` : ""}`, value: event.event }),
  CUSTOM: (model, event, lane) => model.add("custom", lane, { title: event.name ?? "custom", value: event.value }),
  STEP_STARTED: (model, event, lane) => model.open(keyOf("step", event.stepName, lane) + lane.id, "step", lane, { title: event.stepName }),
  STEP_FINISHED: (model, event, lane) => model.close(keyOf("step", event.stepName, lane) + lane.id),
  SUBAGENT_STARTED: (model, event) => model.openLane(event.subagentRunId, event.name ?? event.subagentRunId, event.parentSubagentRunId, { about: event.description, call: event.parentToolCallId }),
  SUBAGENT_FINISHED: (model, event, lane) => model.closeLane(lane, event.outcome?.type === "suspended" ? "suspended" : "done", { result: event.result }),
  SUBAGENT_ERROR: subagentError,
};
