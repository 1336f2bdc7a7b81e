// Markdown of the inspector: what becomes what, what stays text, what hostile text costs.
import assert from "node:assert/strict";
import { test } from "node:test";

import { inline } from "../../../../gateway/inspector/inline.js";
import { parse, settled } from "../../../../gateway/inspector/markdown.js";
import { safeTarget } from "../../../../gateway/inspector/markdown-dom.js";

const kinds = (text) => parse(text).map((block) => block.kind);
/** Runs as short text: `strong(a)`. */
const flat = (runs) => runs.map((run) => (run.kind === "text" ? run.text : `${run.kind}(${run.children ? flat(run.children) : run.text})`)).join("");

test("blocks", () => {
  assert.deepEqual(kinds("# a\n\nb\nc\n\n- d\n- e\n\n1. f\n\n> g\n\n---\n\n```js\nh\n```\n\n| i | j |\n|---|---|\n| k | l |"),
    ["heading", "paragraph", "list", "list", "quote", "rule", "code", "table"]);
  const [list] = parse("- a\n  - b\n  - c\n- d");
  assert.equal(list.items.length, 2);
  assert.equal(list.items[0][1].items.length, 2);
  assert.equal(parse("3. a")[0].start, 3);
  assert.deepEqual(parse("```\n<b>\n# no\n")[0], { kind: "code", language: "", text: "<b>\n# no\n" });
  const [table] = parse("| a | b |\n|---|:-:|\n| **c** | d |");
  assert.equal(flat(table.rows[0][0]), "strong(c)");
});

test("runs", () => {
  for (const [text, expected] of [
    ["**a** *b* ~~c~~ `d`", "strong(a) emphasis(b) strike(c) code(d)"],
    ["__a__ _b_", "strong(a) emphasis(b)"],
    ["a * b * c", "a * b * c"],
    ["snake_case_name", "snake_case_name"],
    ["**a *b* c**", "strong(a emphasis(b) c)"],
    ["`a **b**`", "code(a **b**)"],
    ["\\*a\\*", "*a*"],
    ["**open", "**open"],
    ["<script>alert(1)</script>", "<script>alert(1)</script>"],
    ["see https://a.example/x_y. Yes", "see link(https://a.example/x_y). Yes"],
    ["![p](https://a.example/p.png)", "link(p)"],
  ]) assert.equal(flat(inline(text)), expected, text);
  assert.equal(inline("[a](https://b.example \"t\")")[0].target, "https://b.example");
  assert.equal(inline("[a](https://b.example/x_(y)) z")[0].target, "https://b.example/x_(y)");
});

test("links lead to the web or to mail, or nowhere", () => {
  for (const good of ["https://a.example/", "http://a.example/?q=1", "mailto:a@b.example"]) assert.equal(safeTarget(good), good);
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x", "//a.example", "/x", "#x", ""]) {
    assert.equal(safeTarget(bad), undefined, bad);
  }
});

test("what is settled does not change when more comes", () => {
  const text = "# a\n\nb *c*\n\n```\nd\n\ne\n```\n\n- f\n- g\n\nh";
  const whole = JSON.stringify(parse(text));
  for (let end = 1; end <= text.length; end += 1) {
    const at = settled(text.slice(0, end), 0);
    const parts = [...parse(text.slice(0, at)), ...parse(text.slice(at))];
    assert.equal(JSON.stringify(parts), whole, JSON.stringify(text.slice(0, at)));
  }
});

/** No time is asserted: the runner ends what never ends. A cost that grows with the square would take minutes here. */
test("hostile text ends", () => {
  const many = 200_000;
  for (const piece of ["*", "_", "`", "[", "](", "<", "> ", "- ", "#", " ", "~", "| ", "https://", "```\n", "**a", "\\", "*a ", "[a](", "1. ", "\t"]) {
    const text = piece.repeat(many / piece.length);
    for (const hostile of [text, `# ${text}x`, `| a |\n${text}`, `\`\`\`${text}\``, text.match(/.{1,70}/gs).join("\n")]) assert.ok(parse(hostile).length >= 0);
    settled(text, 0);
  }
});
