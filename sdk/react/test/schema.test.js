// Forms from schemas, and replies from forms.
import assert from "node:assert/strict";
import { test } from "node:test";
import { formOf, replyOf, valuesOf } from "../src/schema.js";

const TRAIN = {
  type: "object",
  required: ["train", "seats"],
  properties: {
    train: { type: "string", enum: ["early", "late"] },
    seats: { type: "integer", minimum: 1, maximum: 6, default: 2 },
    quiet: { type: "boolean" },
    note: { type: "string" },
    stops: { type: "array", items: { type: "string" } },
  },
};
const reply = (schema, values) => {
  const form = formOf(schema);
  return replyOf(form, { ...valuesOf(form), ...values });
};

test("a form begins with defaults and gives the types of the schema", () => {
  assert.deepEqual(reply(TRAIN, {}).payload, { train: "early", seats: 2, quiet: false });
  const filled = { train: "late", seats: "3", quiet: true, note: "window", stops: '["A","B"]' };
  assert.deepEqual(reply(TRAIN, filled).payload, { train: "late", seats: 3, quiet: true, note: "window", stops: ["A", "B"] });
});

test("errors are reported by field", () => {
  assert.deepEqual(reply(TRAIN, { seats: "" }).errors, { seats: "is needed" });
  assert.deepEqual(reply(TRAIN, { seats: "1.5" }).errors, { seats: "is no whole number" });
  assert.deepEqual(reply(TRAIN, { seats: "9", stops: "A, B" }).errors, { seats: "is above 6", stops: "is no JSON" });
  assert.deepEqual(reply(TRAIN, { seats: "0" }).errors, { seats: "is below 1" });
});

test("one truth is a choice; no schema is words; a plain type is itself", () => {
  const approval = { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] };
  assert.equal(formOf(approval).kind, "choice");
  assert.equal(formOf(undefined).kind, "text");
  assert.equal(reply(undefined, { "": "Ada" }).payload, "Ada");
  assert.deepEqual(reply(undefined, {}).errors, { "": "is needed" });
  assert.equal(reply({ type: "number" }, { "": "2.5" }).payload, 2.5);
  assert.equal(reply({ enum: [1, 2] }, { "": 2 }).payload, 2);
});

test("choices may have titles, and an object without members is JSON", () => {
  const size = { type: "object", properties: { size: { oneOf: [{ const: 1, title: "small" }, { const: 2, title: "large" }] }, n: { type: "string" } } };
  assert.deepEqual(formOf(size).fields[0].choices, [{ value: 1, title: "small" }, { value: 2, title: "large" }]);
  assert.deepEqual(reply({ type: "object" }, { "": '{"a":1}' }).payload, { a: 1 });
});
