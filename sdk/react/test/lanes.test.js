// The store: what it holds after events, in the order and states in which streams have them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LaneStore } from "../src/lanes.js";

const fold = (events, store = new LaneStore()) => {
  for (const event of events) store.handle(event);
  return store;
};
const opened = (id, name, more) => ({ type: "SUBAGENT_STARTED", subagentRunId: id, name, ...more });
const said = (lane, messageId, ...deltas) => [
  { type: "TEXT_MESSAGE_START", messageId, subagentRunId: lane, role: "assistant" },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta, subagentRunId: lane })),
  { type: "TEXT_MESSAGE_END", messageId, subagentRunId: lane },
];
const called = (lane, toolCallId, name, content, isError) => [
  { type: "TOOL_CALL_START", toolCallId, toolCallName: name, subagentRunId: lane },
  { type: "TOOL_CALL_ARGS", toolCallId, delta: "{}", subagentRunId: lane },
  { type: "TOOL_CALL_END", toolCallId, subagentRunId: lane },
  { type: "TOOL_CALL_RESULT", toolCallId, messageId: `${toolCallId}/r`, content, role: "tool", subagentRunId: lane, ...(isError && { metadata: { "aqueduct.isError": true } }) },
];

test("lanes nest, and hold what happened in its order", () => {
  const store = fold([
    { type: "RUN_STARTED" },
    opened("a", "researcher"),
    ...called("a", "c1", "search", "42"),
    opened("b", "checker", { parentSubagentRunId: "a" }),
    ...said("b", "m1", "Right", "."),
    { type: "SUBAGENT_FINISHED", subagentRunId: "b" },
    ...said("a", "m2", "Found it."),
    ...said(undefined, "m3", "The answer."),
  ]);
  assert.deepEqual(store.roots, ["a"]);
  const { items, status } = store.lanes.get("a");
  assert.deepEqual(items.map(({ kind, id, text }) => [kind, id, text]), [["tool", "c1", ""], ["lane", "b", ""], ["text", "m2", "Found it."]]);
  assert.equal(status, "running");
  assert.equal(store.lanes.get("b").items[0].text, "Right.");
  assert.equal(store.topOf("b"), "a");
  assert.deepEqual(store.tools.get("c1"), { id: "c1", name: "search", args: "{}", result: "42", isError: false });
});

test("each end is reported unchanged", () => {
  const end = (...events) => fold([opened("a", "x"), ...events]).lanes.get("a");
  assert.equal(end({ type: "SUBAGENT_FINISHED", subagentRunId: "a", outcome: { type: "suspended" } }).status, "waiting");
  assert.equal(end({ type: "SUBAGENT_ERROR", subagentRunId: "a", message: "no", code: "cancelled" }).status, "stopped");
  const { status, error } = end({ type: "SUBAGENT_ERROR", subagentRunId: "a", message: "no way" });
  assert.deepEqual([status, error], ["failed", "no way"]);
  assert.equal(end({ type: "RUN_FINISHED" }).status, "done");
  assert.equal(end({ type: "RUN_FINISHED", outcome: { type: "cancelled" } }).status, "stopped");
  assert.equal(end({ type: "RUN_ERROR", message: "broke" }).status, "stopped");
});

test("a failed run is a failure until the next one; a stopped one is none", () => {
  const store = fold([{ type: "RUN_STARTED" }, { type: "RUN_ERROR", message: "broke", code: "e" }]);
  assert.deepEqual(store.failure, { message: "broke", code: "e" });
  assert.equal(fold([{ type: "RUN_STARTED" }], store).failure, undefined);
  for (const code of ["cancelled", "abort"]) assert.equal(fold([{ type: "RUN_ERROR", message: "", code }]).failure, undefined);
});

test("a failed tool is known from its mark", () => {
  const store = fold(called(undefined, "c", "charge", "declined", true));
  assert.equal(store.tools.get("c").isError, true);
  assert.deepEqual(store.roots, []);
});

test("a thread that is replayed changes nothing", () => {
  const events = [opened("a", "x"), ...said("a", "m", "One ", "two."), ...called("a", "c", "t", "r"), { type: "SUBAGENT_FINISHED", subagentRunId: "a" }];
  const store = fold(events);
  const before = structuredClone([...store.lanes.values()]);
  fold(events, store);
  assert.deepEqual([...store.lanes.values()], before);
});

test("a restated thread has its lanes, done, with names from their texts", () => {
  const store = fold([{
    type: "MESSAGES_SNAPSHOT",
    messages: [
      { id: "u", role: "user", content: "hi" },
      { id: "t", role: "reasoning", content: "hm", subagentRunId: "a" },
      { id: "c", role: "assistant", subagentRunId: "a", toolCalls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }] },
      { id: "r", role: "tool", toolCallId: "c", content: "refused", error: "refused", subagentRunId: "a" },
      { id: "m", role: "assistant", name: "scout", content: "Seen.", subagentRunId: "a" },
    ],
  }]);
  const lane = store.lanes.get("a");
  assert.deepEqual([lane.name, lane.status], ["scout", "done"]);
  assert.deepEqual(lane.items.map(({ kind }) => kind), ["thought", "tool", "text"]);
  assert.equal(store.tools.get("c").isError, true);
});

test("subscribers are notified of changes alone", () => {
  const store = new LaneStore();
  let notified = 0;
  const leave = store.subscribe(() => (notified += 1));
  fold([{ type: "STEP_STARTED" }, ...said(undefined, "m", "x"), opened("a", "x")], store);
  assert.equal(notified, 1);
  leave();
  fold([opened("b", "y")], store);
  assert.equal(notified, 1);
});
