// Scenes with recordings, and with text that means harm.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const texts = (page, selector) => page.$$eval(selector, (nodes) => nodes.map((node) => node.textContent));

async function dropped(harness, file, about, says) {
  const page = await harness.open();
  await harness.drop(page, join(harness.options.fixtures, file));
  await page.waitForSelector("#file-about:not([hidden])");
  await harness.eventually(async () => assert.ok((await page.textContent("#file-about")).includes(about), await page.textContent("#file-about")));
  await harness.until(page, "the words", (says) => document.querySelector("#log").textContent.includes(says), says);
  return page;
}

/** AG-UI as it was recorded, with what is wrong with it; and repaired. */
export async function drop_agui(harness) {
  const page = await dropped(harness, "agui/agui_wf_error_agent.sse", "as recorded", "Run failed");
  await harness.verdict(page, "bad");
  await page.click("#verdict");
  await harness.eventually(async () => assert.ok((await texts(page, "#verdict-list li")).some((item) => item.includes("rejected"))));
  await page.click("#verdict-list button");
  await harness.eventually(async () => assert.match(await page.textContent("#raw-detail-title"), /^Event \d+/));
  await page.click("#file-about button");
  await harness.until(page, "the repaired stream", () => document.querySelector("#file-about").textContent.includes("repaired"));
  await harness.verdict(page, "good");
}

export async function drop_a2a(harness) {
  const page = await dropped(harness, "a2a/v1-jsonrpc-default.sse", "a2a, converted", "Run finished");
  await harness.verdict(page, "good");
}

export async function drop_a2a_0_3(harness) {
  const page = await dropped(harness, "a2a/v03-jsonrpc-default.sse", "a2a-0.3, converted", "Run finished");
  await harness.verdict(page, "good");
}

export async function drop_magentic(harness) {
  const page = await dropped(harness, "magentic/mag_tool_int.events.jsonl", "magentic, converted", "Run finished");
  await harness.verdict(page, "good");
  await harness.eventually(async () => assert.ok((await page.$$(".block.lane")).length > 0, "the participants are lanes"));
}

/** What `aqueduct record` writes: AG-UI at its times, A2A converted. */
export async function drop_recording(harness) {
  const write = (name, dialect, data) => {
    const path = join(harness.options.out, name);
    const head = { aqueduct: "recording", version: 1, dialect };
    writeFileSync(path, [head, ...data.map((data, n) => ({ at: n * 700, data })), { at: 9000, end: "closed" }].map((line) => `${JSON.stringify(line)}\n`).join(""));
    return path;
  };
  const page = await harness.open();
  const events = [{ type: "RUN_STARTED", threadId: "t", runId: "r" }, { type: "TEXT_MESSAGE_CHUNK", messageId: "m", delta: "Recorded words" }, { type: "RUN_FINISHED", threadId: "t", runId: "r" }];
  await harness.drop(page, write("recorded-agui.jsonl", "agui", events.map((event) => JSON.stringify(event))));
  await harness.until(page, "the words", () => document.querySelector("#log").textContent.includes("Recorded words"));
  await harness.eventually(async () => assert.ok((await texts(page, "#raw-space .at")).includes("1.4 s"), "its times are kept"));
  const frames = [...readFileSync(join(harness.options.fixtures, "a2a/v1-jsonrpc-default.sse"), "utf8").matchAll(/^data: (.*)$/gm)].map((found) => found[1].trim());
  await harness.drop(page, write("recorded-a2a.jsonl", "a2a", frames));
  await harness.eventually(async () => assert.ok((await page.textContent("#file-about")).includes("a2a, converted"), await page.textContent("#file-about")));
  await harness.verdict(page, "good");
}

/** By the button and the file dialogue too; what is no recording is told, and changes nothing. */
export async function open_file(harness) {
  const page = await harness.open();
  const choose = async (path) => {
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click("#open-file")]);
    await chooser.setFiles(path);
  };
  const path = join(harness.options.out, "no-recording.txt");
  writeFileSync(path, "Dear diary");
  // The gateway's refusal is an answer with status 400, which a browser notes in its console.
  await choose(path);
  await page.waitForSelector("#log .problem");
  await harness.eventually(async () => assert.ok((await page.textContent("#log .problem")).includes("no known dialect")));
  harness.faults = harness.faults.filter((fault) => !fault.includes("status of 400"));
  await choose(join(harness.options.fixtures, "a2a/v1-jsonrpc-multi.sse"));
  await page.waitForSelector("#file-about:not([hidden])");
  await harness.verdict(page, "good");
}

/** The state as a tree: snapshots, patches, a patch that fails. */
export async function state(harness) {
  const path = join(harness.options.out, "state.jsonl");
  const events = [
    { type: "RUN_STARTED", threadId: "t", runId: "r" }, { type: "STATE_SNAPSHOT", snapshot: { list: [1], deep: { inner: { leaf: "old" } } } },
    { type: "STATE_DELTA", delta: [{ op: "replace", path: "/deep/inner/leaf", value: "new" }, { op: "add", path: "/list/-", value: 2 }] },
    { type: "STATE_DELTA", delta: [{ op: "remove", path: "/nothing" }] }, { type: "RUN_FINISHED", threadId: "t", runId: "r" },
  ];
  writeFileSync(path, events.map((event) => JSON.stringify(event)).join("\n"));
  const page = await harness.open();
  await page.click("#tab-state");
  await harness.drop(page, path);
  await harness.until(page, "the failed patch", () => document.querySelector("#state-about").textContent.includes("1 failed: event 3"));
  await harness.eventually(async () => {
    const tree = await page.textContent("#state-tree");
    assert.ok(tree.includes("\"new\"") && !tree.includes("\"old\"") && tree.includes("[2]"), tree);
    assert.ok((await texts(page, "#state-tree .changed")).some((text) => text.includes("\"new\"")));
  });
}

/** Text that would be code stays text, wherever it stands. */
export async function hostile(harness) {
  const page = await harness.open();
  await harness.say(page, "hostile", "<script>alert('prompt')</script>");
  await harness.phase(page, "finished");
  for (const summary of await page.$$("#log details:not([open]) > summary")) await summary.click();
  const harmless = ["<script>document.title", "<img src=x onerror=alert(2)>", "run (javascript:alert(3))", "<iframe srcdoc", "⟨U+202E⟩gpj.exe", "⟨U+200F⟩marks", "<b onmouseover"];
  await harness.eventually(async () => {
    const text = await page.textContent("#log");
    for (const shown of harmless) assert.ok(text.includes(shown), shown);
    assert.equal(text.match(/A+/g).sort().at(-1).length, 300_000, "the huge line is whole");
  });
  const inside = await page.evaluate(() => {
    const log = document.querySelector("main");
    return {
      code: log.querySelectorAll("script, img, iframe, object, embed, link, style, svg, u, b").length,
      handlers: [...log.querySelectorAll("*")].filter((node) => [...node.attributes].some(({ name }) => name.startsWith("on") || name === "style" && node.closest("#log"))).length,
      links: [...log.querySelectorAll("a")].map((link) => [link.protocol, link.rel, link.target]),
      title: document.title, polluted: {}.polluted === undefined, wide: document.documentElement.scrollWidth > innerWidth,
      text: log.querySelector("#log").textContent,
    };
  });
  assert.equal(inside.code + inside.handlers, 0);
  assert.deepEqual([inside.title, inside.polluted, inside.wide], ["Aqueduct inspector", true, false]);
  assert.ok(inside.links.length >= 1);
  for (const [protocol, rel, target] of inside.links) assert.ok(["https:", "http:", "mailto:"].includes(protocol) && rel.includes("noopener") && target === "_blank", protocol);
  assert.ok(!/[\u202A-\u202E\u2066-\u2069]/.test(inside.text));
  await page.click("#tab-state");
  await page.waitForSelector("#state-tree .leaf");
  await page.click("#tab-events");
  await page.focus("#raw-view");
  await page.keyboard.press("End");
  await harness.verdict(page, "good");
  await harness.shot(page, "hostile");
}

/** Events that no agent should send: the page shows what it can, and the verdict says what is wrong. */
export async function nonsense(harness) {
  const path = join(harness.options.out, "nonsense.jsonl");
  const events = [{ type: "__proto__" }, { type: "constructor", subagentRunId: "__proto__" }, { type: "TEXT_MESSAGE_CONTENT", messageId: {}, delta: 7 }, { type: "TOOL_CALL_RESULT" }, { type: "RUN_FINISHED", outcome: null }, { type: "STATE_DELTA", delta: "x" }, { type: "ACTIVITY_DELTA" }, { type: 5 }, {}];
  writeFileSync(path, `{"type":"RUN_STARTED"}\n${events.map((event) => JSON.stringify(event)).join("\n")}\n`);
  const page = await harness.open();
  await harness.drop(page, path);
  await page.waitForSelector("#file-about:not([hidden])");
  await harness.verdict(page, "bad");
  await harness.until(page, "all events", () => document.querySelector("#place").textContent === "10 / 10");
}
