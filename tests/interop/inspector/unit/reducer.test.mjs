// Events to lanes and blocks: legal streams, chunks, what a verifier rejects, hostile names.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { messages, runInput } from "../../../../gateway/inspector/history.js";
import { answerWords } from "../../../../gateway/inspector/interrupts.js";
import { Model } from "../../../../gateway/inspector/model.js";
import { worst } from "../../../../gateway/inspector/problems.js";
import { Recording } from "../../../../gateway/inspector/recording.js";
import { apply } from "../../../../gateway/inspector/reducer.js";

function modelOf(events, prompts) {
  const recording = new Recording();
  events.forEach((event, n) => recording.push(JSON.stringify(event), { at: n * 10 }));
  const model = new Model(prompts);
  recording.records.forEach((record) => apply(model, record));
  return model;
}

const said = (model) => model.blocks.map(({ kind, lane, title, text, status }) => [lane.name, kind, title || text, status].join(" "));
const start = { type: "RUN_STARTED", threadId: "t", runId: "r" };
const end = { type: "RUN_FINISHED", threadId: "t", runId: "r" };

test("text, thinking, tools and their times", () => {
  const model = modelOf([
    start,
    { type: "REASONING_MESSAGE_START", messageId: "m", role: "reasoning" }, { type: "REASONING_MESSAGE_CONTENT", messageId: "m", delta: "hm" }, { type: "REASONING_MESSAGE_END", messageId: "m" },
    { type: "TEXT_MESSAGE_START", messageId: "m" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "he" }, { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "llo" }, { type: "TEXT_MESSAGE_END", messageId: "m" },
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "find" }, { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "{}" }, { type: "TOOL_CALL_END", toolCallId: "c" },
    { type: "TOOL_CALL_RESULT", messageId: "x", toolCallId: "c", content: "3" }, end,
  ], new Map([["r", { text: "hi" }]]));
  assert.deepEqual(said(model), ["run user You done", "run thinking hm done", "run text hello done", "run tool find done", "run end success done"]);
  const tool = model.blocks[3];
  assert.deepEqual([tool.text, tool.result, tool.start.at, tool.end.at], ["{}", "3", 80, 110]);
});

test("sub-agents are lanes inside lanes, however their fragments mix", () => {
  const tag = (id, event) => ({ ...event, subagentRunId: id });
  const model = modelOf([
    start, { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "alpha" }, { type: "SUBAGENT_STARTED", subagentRunId: "b", name: "beta", parentSubagentRunId: "a" },
    tag("a", { type: "TEXT_MESSAGE_START", messageId: "1" }), tag("b", { type: "TEXT_MESSAGE_START", messageId: "2" }),
    tag("a", { type: "TEXT_MESSAGE_CONTENT", messageId: "1", delta: "A" }), tag("b", { type: "TEXT_MESSAGE_CONTENT", messageId: "2", delta: "B" }), tag("a", { type: "TEXT_MESSAGE_CONTENT", messageId: "1", delta: "A" }),
    { type: "SUBAGENT_ERROR", subagentRunId: "b", message: "no" }, { type: "SUBAGENT_FINISHED", subagentRunId: "a" }, end,
  ]);
  assert.deepEqual(model.rows().map((lane) => [lane.name, lane.depth, lane.status]), [["run", 0, "done"], ["alpha", 1, "done"], ["beta", 2, "failed"]]);
  assert.deepEqual(said(model).filter((line) => line.includes("text")), ["alpha text AA done", "beta text B done"]);
});

test("a tag without an announcement is a lane too", () => {
  const model = modelOf([start, { type: "TEXT_MESSAGE_CHUNK", messageId: "m", delta: "x", subagentRunId: "s" }, end]);
  assert.deepEqual(said(model).slice(0, 2), ["run lane s done", "s text x done"]);
});

test("chunks open, go on without their id, and end each other", () => {
  const chunk = (messageId, delta) => ({ type: "TEXT_MESSAGE_CHUNK", messageId, delta });
  const model = modelOf([start, chunk("a", "1"), chunk(undefined, "2"), chunk("b", "3"), chunk("a", "4"),
    { type: "TOOL_CALL_CHUNK", toolCallId: "c", toolCallName: "f", delta: "{" }, { type: "TOOL_CALL_CHUNK", delta: "}" }, end]);
  assert.deepEqual(model.blocks.filter((block) => block.kind === "text").map((block) => block.text), ["12", "3", "4"]);
  assert.equal(model.blocks.find((block) => block.kind === "tool").text, "{}");
});

test("state: snapshots, patches, and patches that fail", () => {
  const model = modelOf([start, { type: "STATE_SNAPSHOT", snapshot: { a: 1 } }, { type: "STATE_DELTA", delta: [{ op: "add", path: "/b", value: [2] }] }, { type: "STATE_DELTA", delta: [{ op: "remove", path: "/zz" }] }]);
  assert.deepEqual(model.state, { a: 1, b: [2] });
  assert.deepEqual([model.patches.applied, model.patches.failed[0].n], [2, 3]);
  assert.ok(model.changed.has("/b"));
});

test("whatever is open ends with the run", () => {
  const model = modelOf([start, { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "alpha" }, { type: "TEXT_MESSAGE_START", messageId: "m", subagentRunId: "a" }, { type: "STEP_STARTED", stepName: "s" }, { type: "RUN_ERROR", message: "boom", code: "bad" }]);
  assert.ok(model.blocks.every((block) => block.status !== "open"), said(model).join("\n"));
  assert.equal(model.runs[0].status, "failed");
});

test("names of the language are only names", () => {
  const model = modelOf([{ type: "constructor" }, { type: "__proto__" }, { type: "toString", subagentRunId: "__proto__" }, { type: "CUSTOM", name: "constructor", value: 1 }, { noType: 1 }, { type: "TEXT_MESSAGE_CONTENT", messageId: "x", delta: { no: "text" } }]);
  assert.equal(model.blocks.filter((block) => block.kind === "custom").length, 5);
});

test("all types of the protocol have a handler, and every recorded stream can be shown", () => {
  const fixtures = new URL("../../../fixtures/agui/", import.meta.url);
  const corpus = JSON.parse(readFileSync(new URL("corpus_all_events.json", fixtures), "utf8"));
  const model = modelOf((corpus.events ?? corpus).map((entry) => entry.json ?? entry.event ?? entry));
  assert.ok(model.types.size >= 31, String(model.types.size));
  const unknown = model.blocks.filter((block) => block.kind === "custom" && /^[A-Z_]+$/.test(block.title));
  assert.deepEqual(unknown.map((block) => block.title), []);
  const good = readFileSync(new URL("good.jsonl", fixtures), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.ok(modelOf(good).blocks.every((block) => block.status !== "open"));
});

test("the next run of a thread gets its history", () => {
  const model = modelOf([start, { type: "TEXT_MESSAGE_CHUNK", messageId: "m", delta: "hello" }, { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "a" }, { type: "TEXT_MESSAGE_CHUNK", messageId: "n", delta: "inner", subagentRunId: "a" },
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f" }, { type: "TOOL_CALL_RESULT", messageId: "x", toolCallId: "c", content: "3" }, end], new Map([["r", { text: "hi" }]]));
  assert.deepEqual(messages(model).map((message) => message.role), ["user", "assistant", "assistant", "tool"]);
  const input = runInput("t", "r2", messages(model), { prompt: "more" });
  assert.deepEqual([input.messages.at(-1).content, input.protocolVersion, "resume" in input], ["more", "1.0", false]);
});

test("answers as words", () => {
  assert.equal(answerWords([{ status: "resolved", payload: { a: 1 } }, { status: "cancelled" }]), "{\"a\":1}\n(declined)");
});

test("a question stays with its answer, and an answer without its question is shown where it was given", () => {
  const asks = { type: "RUN_FINISHED", threadId: "t", runId: "r", outcome: { type: "interrupt", interrupts: [{ id: "q", message: "Which?" }] } };
  const again = [{ type: "RUN_STARTED", threadId: "t", runId: "r2" }, { type: "RUN_FINISHED", threadId: "t", runId: "r2" }];
  const prompts = new Map([["r2", { text: "early", isAnswer: true, answers: [{ id: "q", words: "early" }] }]]);
  const whole = modelOf([start, asks, ...again], prompts);
  assert.deepEqual(whole.blocks.filter((block) => ["question", "user"].includes(block.kind)).map((block) => [block.title, block.answer]), [["Which?", "early"]]);
  assert.deepEqual(said(modelOf(again, prompts))[0], "run user You answered done");
});

test("what was stopped is stopped, and nothing of it failed", () => {
  const model = modelOf([start, { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "alpha" }, { type: "SUBAGENT_ERROR", subagentRunId: "a", message: "the sub-agent was cancelled", code: "cancelled" },
    { type: "SUBAGENT_STARTED", subagentRunId: "b", name: "beta" }, { type: "RUN_FINISHED", threadId: "t", runId: "r", outcome: { type: "cancelled" } }]);
  assert.deepEqual(model.rows().map((lane) => lane.status), ["stopped", "stopped", "stopped"]);
  assert.deepEqual([model.failures, model.runs[0].status], [[], "cancelled"]);
  assert.equal(modelOf([start, { type: "RUN_ERROR", message: "x", code: "cancelled" }]).runs[0].status, "cancelled");
});

test("failures name the sub-agent, with its parents", () => {
  const model = modelOf([start, { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "alpha" }, { type: "SUBAGENT_STARTED", subagentRunId: "b", name: "beta", parentSubagentRunId: "a" },
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", subagentRunId: "b" }, { type: "TOOL_CALL_RESULT", messageId: "m", toolCallId: "c", content: "no", subagentRunId: "b", metadata: { "aqueduct.isError": true } },
    { type: "SUBAGENT_ERROR", subagentRunId: "b", message: "refused" }, { type: "RUN_ERROR", message: "gave up" }]);
  assert.deepEqual(worst(model.failures).map(({ lane, what }) => `${model.path(lane)}: ${what}`), ["alpha › beta: refused", "run: gave up", "alpha › beta: f failed"]);
});

test("a fork begins with what was said before its message", () => {
  const model = modelOf([start, { type: "TEXT_MESSAGE_CHUNK", messageId: "m", delta: "hello" }, end, { type: "RUN_STARTED", threadId: "t", runId: "r2" }, { type: "RUN_FINISHED", threadId: "t", runId: "r2" }], new Map([["r", { text: "hi" }], ["r2", { text: "more" }]]));
  const second = model.blocks.filter((block) => block.kind === "user")[1];
  assert.deepEqual(messages(model, second).map((message) => message.content), ["hi", "hello"]);
});
