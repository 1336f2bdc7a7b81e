// Events as assistant-ui nests them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Nest, nested } from "../src/nested.js";

const all = (events) => {
  const nest = new Nest();
  return events.flatMap((event) => nest.handle(event));
};
const kinds = (events) => events.map(({ type }) => type);

test("a sub-agent without a call gets one, with its last text as the result", () => {
  const out = all([
    { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "scout", description: "Look." },
    { type: "TEXT_MESSAGE_START", subagentRunId: "a", messageId: "m" },
    { type: "TEXT_MESSAGE_CONTENT", subagentRunId: "a", messageId: "m", delta: "Seen." },
    { type: "SUBAGENT_FINISHED", subagentRunId: "a" },
  ]);
  assert.deepEqual(kinds(out).slice(0, 4), ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "SUBAGENT_STARTED"]);
  assert.deepEqual([out[0].toolCallName, out[1].delta, out[3].parentToolCallId], ["scout", '{"input":"Look."}', "a"]);
  assert.deepEqual([out.at(-1).type, out.at(-1).content], ["TOOL_CALL_RESULT", "Seen."]);
});

test("one with a call keeps it, and one below another is nested there", () => {
  const own = { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "scout", parentToolCallId: "c" };
  assert.deepEqual(all([own, { type: "SUBAGENT_FINISHED", subagentRunId: "a" }]), [own, { type: "SUBAGENT_FINISHED", subagentRunId: "a" }]);
  const out = all([{ type: "SUBAGENT_STARTED", subagentRunId: "b", name: "x", parentSubagentRunId: "a" }, { type: "SUBAGENT_FINISHED", subagentRunId: "b" }]);
  assert.deepEqual(out.filter(({ type }) => type.startsWith("TOOL")).map(({ subagentRunId }) => subagentRunId), ["a", "a", "a", "a"]);
});

test("failures have the marks by which assistant-ui knows them", () => {
  const [, , , , error, result] = all([
    { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "x" },
    { type: "SUBAGENT_ERROR", subagentRunId: "a", message: "no way" },
  ]);
  assert.deepEqual([error.type, result.content, result.isError], ["SUBAGENT_ERROR", "no way", true]);
  const [tool] = all([{ type: "TOOL_CALL_RESULT", toolCallId: "c", content: "no", metadata: { "aqueduct.isError": true } }]);
  assert.equal(tool.isError, true);
  const [fine] = all([{ type: "TOOL_CALL_RESULT", toolCallId: "c", content: "yes" }]);
  assert.equal(fine.isError, undefined);
});

test("a restated sub-agent is its call", () => {
  const [{ messages }] = all([{
    type: "MESSAGES_SNAPSHOT",
    messages: [
      { id: "u", role: "user", content: "hi" },
      { id: "t", role: "reasoning", content: "hm", subagentRunId: "a" },
      { id: "m", role: "assistant", name: "scout", content: "Seen.", subagentRunId: "a" },
      { id: "n", role: "assistant", content: "Done." },
    ],
  }]);
  assert.deepEqual(messages.map(({ id, role }) => [id, role]), [["u", "user"], ["a", "assistant"], ["a/result", "tool"], ["n", "assistant"]]);
  assert.deepEqual([messages[1].toolCalls[0].function.name, messages[2].content], ["scout", "Seen."]);
});

test("an agent's own methods run through what is rewritten, and its clones too", async () => {
  class Stream {
    constructor(subscribe) {
      this.subscribe = (observer) => subscribe(observer);
    }
  }
  class Agent {
    #secret = 1;
    run() {
      return new Stream((observer) => {
        observer.next({ type: "SUBAGENT_STARTED", subagentRunId: "a", name: "x" });
        observer.complete();
      });
    }
    runAgent() {
      const seen = [];
      this.run().subscribe({ next: ({ type }) => seen.push(type), error() {}, complete() {} });
      return seen;
    }
    abortRun() {
      return this.#secret;
    }
    clone() {
      return new Agent();
    }
  }
  const agent = nested(new Agent());
  assert.equal(agent.runAgent().length, 4);
  assert.equal(agent.clone().runAgent().length, 4);
  assert.equal(agent.abortRun(), 1);
});
