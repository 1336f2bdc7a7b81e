// The judge must be able to say no: node --test judge.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, judge } from "./judge.mjs";
import { contents } from "./talk.mjs";

const call = (id, city) => ({ id, type: "function", function: { name: "weather", arguments: JSON.stringify({ city }) } });
const expect = {
  texts: ["Both are warm."],
  calls: [{ name: "weather", arguments: { city: "Paris" } }, { name: "weather", arguments: { city: "Rome" } }],
  results: ["21 degrees", "28 degrees"],
};
const grouped = [
  { id: "1", role: "user", content: "two-tools" },
  { id: "2", role: "assistant", toolCalls: [call("a", "Paris"), call("b", "Rome")] },
  { id: "3", role: "tool", toolCallId: "b", content: "28 degrees" },
  { id: "4", role: "assistant", content: "Both are warm." },
  { id: "5", role: "tool", toolCallId: "a", content: "21 degrees" },
];
const split = [grouped[0], { ...grouped[1], toolCalls: [call("a", "Paris")] }, { ...grouped[1], id: "6", toolCalls: [call("b", "Rome")] }, ...grouped.slice(2)];

function held(messages, more = {}) {
  return { turns: [{ messages: contents(messages), questions: [], error: null, runError: null, outcome: "success", warnings: [], state: {}, ...more }], checkpoint: null };
}

const faults = (messages, more, traits = {}, wanted = expect) => judge(wanted, traits, held(messages, more)).join("; ");
const differs = (direct, through) => compare(held(direct), held(through), { client: "1.0.0", expect, traits: {} }).join("; ");

test("what is right has no fault, wherever a snapshot has put the results", () => {
  assert.equal(faults(grouped), "");
  assert.equal(differs(grouped, grouped), "");
});

test("a text twice, a missing result, a result without call and empty reasoning are faults", () => {
  assert.match(faults([...grouped, { id: "7", role: "assistant", content: "Both are warm." }]), /texts are/);
  assert.match(faults(grouped.slice(0, 4)), /results are/);
  assert.match(faults([...grouped, { id: "7", role: "tool", toolCallId: "x", content: "?" }]), /without call/);
  assert.match(faults([...grouped, { id: "7", role: "reasoning", content: "" }]), /empty reasoning/);
  assert.match(faults([...grouped, { id: "7", role: "reasoning", content: "Hm." }]), /reasoning is/);
});

test("a client that throws, an error and a stream without end are faults", () => {
  assert.match(faults(grouped, { error: "zod" }), /throws/);
  assert.match(faults(grouped, { runError: "broken" }), /RUN_ERROR/);
  assert.match(faults(grouped, { outcome: null }), /no end/);
  assert.match(faults(grouped, {}, {}, { ...expect, runError: "overloaded" }), /error is not shown/);
});

test("a question without words is a fault", () => {
  const wanted = { ...expect, question: "deploy" };
  assert.match(faults(grouped, { questions: [{ reason: "tool_call" }] }, {}, wanted), /question is not shown/);
  assert.equal(faults(grouped, { questions: [{ message: "Deploy to prod?" }] }, {}, wanted), "");
});

test("parallel calls in two messages, another checkpoint and a new warning differ from direct", () => {
  assert.match(differs(grouped, split), /5 and 6 messages/);
  const [direct, through] = [held(grouped), held(grouped, { warnings: ["dropped"] })];
  [direct.checkpoint, through.checkpoint] = [[{ type: "human" }], [{ type: "human" }, { type: "human" }]];
  assert.match(compare(direct, through, { client: "1.0.0", expect, traits: {} }).join("; "), /checkpoint differs.*warnings/);
});

test("what is wrong without the gateway is no measure", () => {
  assert.equal(differs([...grouped, { id: "7", role: "tool", toolCallId: "x", content: "?" }], grouped), "");
});
