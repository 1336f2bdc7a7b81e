// Pure parts of the inspector: schemas, differences, addresses, tables, surfaces, filters.
import assert from "node:assert/strict";
import { test } from "node:test";

import { operationsOf, surfacesOf, valueOf } from "../../../../gateway/inspector/a2ui.js";
import { diff, wordsOf } from "../../../../gateway/inspector/diff.js";
import { number } from "../../../../gateway/inspector/dom.js";
import { readField } from "../../../../gateway/inspector/input-side.js";
import { readCsv, tableOf } from "../../../../gateway/inspector/media.js";
import { Pace } from "../../../../gateway/inspector/pace.js";
import { addressOf, placeOf } from "../../../../gateway/inspector/pages.js";
import { queryOf, wrongWords } from "../../../../gateway/inspector/runs-page.js";
import { fieldKind, validate } from "../../../../gateway/inspector/schema.js";

test("a field is of the kind that its schema names", () => {
  const kinds = [[undefined, "text"], [{ type: "string" }, "text"], [{ type: ["string", "null"] }, "text"], [{ type: "boolean" }, "flag"], [{ type: "integer" }, "number"], [{ enum: ["a", 1] }, "choice"], [{ oneOf: [{ const: "a" }] }, "choice"],
    [{ type: "object" }, "json"], [{ type: "object", properties: { a: {} } }, "group"], [{ properties: { a: {} } }, "group"], [{ type: "array", items: { enum: ["a"] } }, "choices"], [{ type: "array", items: { type: "string" } }, "lines"], [{ $ref: "#/x" }, "json"]];
  for (const [schema, kind] of kinds) assert.equal(fieldKind(schema), kind, JSON.stringify(schema));
});

test("what is wrong with an answer is said with its place", () => {
  const schema = { type: "object", required: ["name", "copies"], properties: { name: { type: "string", minLength: 2 }, copies: { type: "integer", minimum: 1, maximum: 9 }, tags: { type: "array", items: { enum: ["a", "b"] }, minItems: 1 }, mail: { type: "string", format: "email" } } };
  const wrong = (value) => validate(schema, value).map(({ path, what }) => `${path} ${what}`);
  assert.deepEqual(wrong({ name: "Ann", copies: 2, tags: ["a"], mail: "a@b" }), []);
  assert.deepEqual(wrong({ name: "x" }), ["/copies is required", "/name must have at least 2 characters"]);
  assert.deepEqual(wrong({ name: "Ann", copies: 12 }), ["/copies must be at most 9"]);
  assert.deepEqual(wrong({ name: "Ann", copies: 1.5 }), ["/copies must be integer"]);
  assert.deepEqual(wrong({ name: "Ann", copies: 1, tags: ["c"], mail: "no" }), ["/tags/0 must be one of a, b", "/mail must be a email"]);
  assert.deepEqual(validate({ type: "number", multipleOf: 0.1 }, 0.3), [], "a third tenth is a tenth");
  assert.deepEqual(validate({ type: "string", pattern: "(" }, "x"), [], "a pattern that cannot be read is not judged");
  assert.equal(validate({ const: 1 }, 2).length, 1);
});

test("a difference keeps both sides whole", () => {
  for (const [left, right] of [["a b c d", "a x c d e"], ["", "one two"], ["same", "same"], ["a b", "b a"]]) {
    const parts = diff(wordsOf(left), wordsOf(right));
    const side = (kind) => parts.filter((part) => part.kind === "same" || part.kind === kind).flatMap((part) => part.items).join("");
    assert.deepEqual([side("left"), side("right")], [left, right]);
  }
  assert.deepEqual(diff(["a", "b", "c"], ["a", "c"]).map((part) => part.kind), ["same", "left", "same"]);
});

test("a page has an address, whatever its parts are", () => {
  assert.deepEqual(placeOf(addressOf("run", ["a/b?c"], { replay: 1 })), { page: "run", parts: ["a/b?c"], query: { replay: "1" } });
  assert.deepEqual(placeOf("#/runs?outcome=failed&q=a%20b").query, { outcome: "failed", q: "a b" });
  assert.equal(placeOf("#/constructor").page, "");
  assert.equal(placeOf("").page, "");
});

test("tables are recognised, and others are not", () => {
  assert.deepEqual(tableOf([{ a: 1 }, { b: 2 }]), { head: ["a", "b"], rows: [[1, ""], ["", 2]] });
  assert.deepEqual(tableOf({ columns: ["a"], rows: [[1]] }), { head: ["a"], rows: [[1]] });
  assert.equal(tableOf([{ a: { b: 1 } }]), undefined);
  assert.equal(tableOf({ rows: 1 }), undefined);
  assert.deepEqual(readCsv("a,b\r\n\"x, \"\"y\"\"\",2\n"), { head: ["a", "b"], rows: [["x, \"y\"", "2"]] });
  assert.equal(readCsv("one line"), undefined);
});

test("surfaces of both versions", () => {
  const newer = surfacesOf([{ createSurface: { surfaceId: "s" } }, { updateComponents: { surfaceId: "s", components: [{ id: "root", component: "Text", text: "hi" }] } }, { updateDataModel: { surfaceId: "s", path: "/a/b", value: 1 } }]);
  assert.equal(newer.get("s").components.get("root").text, "hi");
  assert.equal(valueOf({ path: "/a/b" }, newer.get("s").data), 1);
  const older = surfacesOf([{ surfaceUpdate: { surfaceId: "s", components: [{ id: "t", component: { Text: {} } }] } }, { beginRendering: { surfaceId: "s", root: "t" } }, { dataModelUpdate: { surfaceId: "s", contents: [{ key: "k", valueString: "v" }] } }]);
  assert.deepEqual([older.get("s").root, valueOf({ path: "k" }, older.get("s").data)], ["t", "v"]);
  assert.equal(surfacesOf([{ createSurface: { surfaceId: "s" } }, { deleteSurface: { surfaceId: "s" } }]).size, 0);
  assert.equal(operationsOf([{ a: 1 }]), undefined);
  surfacesOf([{ updateDataModel: { path: "/__proto__/polluted", value: true } }]);
  assert.equal({}.polluted, undefined);
});

test("numbers without noise, filters with times, errors with names", () => {
  assert.deepEqual([0.1 + 0.2, 3, 1e-7, 12345.678].map(number), ["0.3", "3", "1e-7", "12345.678"]);
  assert.equal(queryOf({ since: "2024-01-02T03:04" }).since, new Date("2024-01-02T03:04").getTime());
  assert.equal(wrongWords({ error: { code: "c", message: "m" }, failedAgents: [{ name: "a", message: "x" }] }), "a: x · c: m");
});

test("input beside words is checked", () => {
  assert.deepEqual(readField("tools", "[{\"name\":\"f\"}]"), [{ name: "f" }]);
  assert.equal(readField("state", " "), undefined);
  for (const [name, text] of [["tools", "{}"], ["context", "[{\"description\":1}]"], ["state", "{"]]) assert.throws(() => readField(name, text), new RegExp(name));
});

test("work keeps its share of a slow machine, and frames stay short on a fast one", () => {
  /** Frames of work with a budget of 10 ms, between which others take `others`: what a frame works, in the end. */
  const settles = (others, isBehind = true) => {
    const pace = new Pace(12);
    let [now, worked] = [0, 0];
    for (let n = 0; n < 20; n += 1) {
      worked = 10 * pace.begin(now);
      pace.end(now, worked, isBehind);
      now += worked + others;
    }
    return worked;
  };
  assert.equal(settles(5), 10, "a fast machine");
  assert.ok(settles(120) >= 0.8 * 120, "a slow one");
  assert.equal(settles(60_000), 160, "the page answers however slow it is");
  assert.equal(settles(120, false), 10, "a pause in which there was nothing to do is no lack of time");
});
