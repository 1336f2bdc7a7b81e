// Pure modules of the inspector: streams, recordings, patches, filters, figures.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Filter, summary } from "../../../../gateway/inspector/filter.js";
import { applyPatch } from "../../../../gateway/inspector/patch.js";
import { Player } from "../../../../gateway/inspector/player.js";
import { Recording, placeOf, timesOf } from "../../../../gateway/inspector/recording.js";
import { Session } from "../../../../gateway/inspector/session.js";
import { SseParser } from "../../../../gateway/inspector/sse.js";
import { figures, usageRows } from "../../../../gateway/inspector/stats.js";
import { barsOf, ticks } from "../../../../gateway/inspector/timeline.js";

test("frames do not depend on how the text was cut", () => {
  const stream = ": hello\nid: r.1.1\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid: r.2.1\nevent: e\ndata: last";
  const whole = new SseParser();
  const expected = [...whole.push(stream), ...whole.end()];
  assert.deepEqual(expected.map(({ data, id }) => [data, id]), [["{\"a\":\n1}", "r.1.1"], ["x", "r.1.1"], ["last", "r.2.1"]]);
  for (let size = 1; size < stream.length; size += 1) {
    const parser = new SseParser();
    const frames = [];
    for (let at = 0; at < stream.length; at += size) frames.push(...parser.push(stream.slice(at, at + size)));
    frames.push(...parser.end());
    assert.deepEqual(frames, expected, `in pieces of ${size}`);
  }
});

test("a recording comes back from its trace with its times", () => {
  const recording = new Recording();
  recording.push("{\"type\":\"RUN_STARTED\"}", { at: 3.4 });
  recording.push("{\"type\":\n\"RAW\"}", { at: 12 });
  recording.push("oops", { at: 20 });
  assert.equal(recording.records[2].type, "(not JSON)");
  const trace = recording.toTrace();
  assert.deepEqual(timesOf(trace), [3, 12, 20]);
  const parser = new SseParser();
  assert.deepEqual([...parser.push(trace), ...parser.end()].map((frame) => frame.data), recording.records.map((record) => record.text));
  assert.equal(timesOf("data: {}\n\n"), undefined);
  assert.deepEqual(timesOf("{\"aqueduct\":\"recording\",\"version\":1}\n{\"at\":5,\"data\":\"{}\"}\n{\"at\":9,\"end\":\"closed\"}\n"), [5]);
  assert.equal(recording.lines().trim().split("\n").length, 3);
});

test("patches of RFC 6902", () => {
  const start = { a: [1, 2], "x/y": { "~": 1 } };
  const after = (...operations) => applyPatch(start, operations).value;
  assert.deepEqual(after({ op: "add", path: "/a/1", value: 9 }).a, [1, 9, 2]);
  assert.deepEqual(after({ op: "add", path: "/a/-", value: 9 }).a, [1, 2, 9]);
  assert.deepEqual(after({ op: "replace", path: "/x~1y/~0", value: 2 })["x/y"], { "~": 2 });
  assert.deepEqual(after({ op: "remove", path: "/a/0" }).a, [2]);
  assert.deepEqual(after({ op: "move", from: "/a/0", path: "/b" }), { a: [2], "x/y": { "~": 1 }, b: 1 });
  assert.deepEqual(after({ op: "copy", from: "/a", path: "/b" }).b, [1, 2]);
  assert.deepEqual(after({ op: "test", path: "/a", value: [1, 2] }), start);
  assert.equal(after({ op: "replace", path: "", value: 7 }), 7);
  assert.deepEqual(applyPatch({}, [{ op: "add", path: "/k", value: 1 }]).changed, ["/k"]);
});

test("a patch that fails changes nothing and says what fails", () => {
  const start = { a: 1 };
  for (const operation of [
    { op: "replace", path: "/b", value: 1 }, { op: "remove", path: "/b" }, { op: "test", path: "/a", value: 2 }, { op: "add", path: "/a/b/c", value: 1 },
    { op: "add", path: "a", value: 1 }, { op: "destroy", path: "/a" }, { op: "remove", path: "/constructor" },
  ]) assert.throws(() => applyPatch(start, [{ op: "add", path: "/z", value: 1 }, operation]), JSON.stringify(operation));
  assert.deepEqual(start, { a: 1 });
});

test("a patch cannot reach prototypes", () => {
  const { value } = applyPatch({}, [{ op: "add", path: "/__proto__", value: { polluted: true } }]);
  assert.equal({}.polluted, undefined);
  assert.ok(Object.hasOwn(value, "__proto__"));
});

test("events are found by type, by group and by words, in pieces", () => {
  const recording = new Recording();
  for (let n = 0; n < 1000; n += 1) recording.push(JSON.stringify({ type: n % 10 === 0 ? "TOOL_CALL_START" : "TEXT_MESSAGE_CONTENT", delta: `word ${n}` }));
  const filter = new Filter();
  let looks = 0;
  while (!filter.scan(recording.records, 1000, () => true)) looks += 1;
  assert.ok(looks > 2, "a frame can end in between");
  assert.equal(filter.found.length, 1000);
  const find = (type, words) => {
    filter.set(type, words);
    filter.scan(recording.records, 1000);
    return filter.found.length;
  };
  assert.equal(find("TOOL_CALL_START", ""), 100);
  assert.equal(find("group:tools", "WORD 99"), 1);
  assert.equal(find("", "word 999"), 1);
  assert.equal(find("group:state", ""), 0);
  filter.set("", "");
  filter.scan(recording.records, 10);
  assert.deepEqual(filter.found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(summary({ type: "X", name: "n", value: { a: 1 }, subagentRunId: "s" }), "n · {\"a\":1}");
});

test("figures count from the request", () => {
  const recording = new Recording();
  [5, 10, 110, 1010].forEach((at, n) => recording.push(JSON.stringify({ type: n === 2 ? "TEXT_MESSAGE_CONTENT" : "RAW" }), { at }));
  const found = figures(recording.records, 4, 1010);
  assert.deepEqual([found.first, found.answer, found.last, found.rate], [5, 110, 1010, 2]);
  assert.deepEqual(figures(recording.records, 4, undefined, { n: 2, at: 100 }).first, 10);
  assert.equal(figures([{ at: undefined, type: "RAW" }], 1).first, undefined);
  assert.deepEqual(usageRows([{ model: "m", inputTokens: 1 }, { model: "m", inputTokens: 2, outputTokens: 3 }]), [{ provider: "", model: "m", inputTokens: 3, outputTokens: 3 }]);
});

test("a replay keeps the times, and can be held and moved", () => {
  const recording = new Recording();
  [0, 100, 200, 400].forEach((at) => recording.push("{\"type\":\"RAW\"}", { at }));
  const player = new Player(recording);
  assert.equal(player.target(0), 4);
  player.replay(1000);
  assert.equal(player.target(1150), 2);
  player.pause();
  assert.equal(player.target(9000), 2);
  player.speed = 2;
  player.resume(9000);
  assert.equal(player.target(9030), 3);
  assert.equal(player.target(9999), 4);
  assert.equal(player.state, "live");
  player.seek(1);
  assert.equal(player.target(0), 1);
});

test("bars and ticks of the timeline", () => {
  const block = { kind: "text", start: { n: 1, at: 10 }, end: undefined, status: "open" };
  assert.deepEqual(barsOf([block], "time", 50), [{ block, from: 10, to: 50 }]);
  assert.deepEqual(barsOf([{ ...block, kind: "lane" }], "time", 50), []);
  assert.deepEqual(ticks(100, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(ticks(0, 5), [0]);
  assert.ok(ticks(12_345, 8).length <= 9);
  assert.deepEqual(ticks(0.5, 5), [0, 0.1, 0.2, 0.3, 0.4, 0.5], "a sum of tenths is no tenth");
  assert.deepEqual(ticks(3, 10, { least: 1 }), [0, 1, 2, 3], "there is no half event");
  assert.deepEqual(ticks(60, 3, { from: 40 }), [40, 50, 60]);
});

test("a session survives, and broken storage does not break the page", () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  const session = new Session(storage);
  session.set({ token: "t", thread: "th" });
  for (let n = 0; n < 30; n += 1) session.addRun({ id: `r${n}` });
  assert.equal(new Session(storage).runs.length, 20);
  session.forgetThread();
  assert.deepEqual([new Session(storage).token, new Session(storage).runs], ["t", []]);
  const full = { getItem: () => "{", setItem: () => { throw new Error("full"); } };
  new Session(full).set({ token: "x" });
});

test("an event knows its place in the log, and whether it stands for several", () => {
  assert.deepEqual(placeOf("run.a.12.3"), { run: "run.a", number: 12, part: 3 });
  assert.equal(placeOf("7"), undefined);
  const delta = JSON.stringify({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "x" });
  const recording = new Recording();
  recording.merges = true;
  recording.push("{\"type\":\"RUN_STARTED\"}", { id: "r.1.1" });
  recording.push("{\"type\":\"TEXT_MESSAGE_START\"}", { id: "r.3.1" });
  recording.push(delta, { id: "r.9.1" });
  recording.push("{\"type\":\"RUN_STARTED\"}", { id: "s.1.1" });
  assert.deepEqual(recording.records.map((record) => record.stands), [undefined, undefined, 6, undefined]);
  assert.deepEqual([recording.stored, recording.merged, new Recording().stored], [10, 1, undefined]);
});
