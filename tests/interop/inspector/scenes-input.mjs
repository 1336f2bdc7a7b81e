// Scenes with what goes in and what is made of what comes out: forms, input beside words, forks, media, zoom.
import assert from "node:assert/strict";

const texts = (page, selector) => page.$$eval(selector, (nodes) => nodes.map((node) => node.textContent));

/** The bodies of all runs that a page starts. */
function bodies(page) {
  const found = [];
  page.on("request", (request) => request.method() === "POST" && request.url().includes("/agents/") && found.push(request.postDataJSON()));
  return found;
}

/** An object schema becomes fields; what does not fit is said beside its field, and the question stays with its answer. */
export async function object_form(harness) {
  const page = await harness.open();
  const sent = bodies(page);
  await harness.say(page, "form", "Send it");
  await page.waitForSelector("form.interrupt");
  await harness.eventually(async () => assert.deepEqual((await texts(page, "form.interrupt :is(label, legend)")).map((text) => text.replace(" (optional)", "")), ["Where shall it be sent?", "Name", "copies", "size", "express", "address", "city"]));
  const fields = await page.$$("form.interrupt input, form.interrupt select");
  await fields[0].fill("x");
  await fields[1].fill("12");
  await page.click("form.interrupt button.main");
  await harness.eventually(async () => assert.deepEqual((await texts(page, "form.interrupt .problem:not([hidden])")).slice(0, 2), ["must have at least 2 characters", "must be at most 9"]));
  assert.equal(sent.length, 1, "nothing was sent");
  await harness.shot(page, "form");
  await fields[0].fill("Ann");
  await fields[1].fill("2");
  await fields[2].selectOption({ label: "A5" });
  await page.fill("form.interrupt fieldset fieldset input", "Oslo");
  await page.click("form.interrupt button.main");
  await harness.phase(page, "finished");
  assert.deepEqual(sent[1].resume[0].payload, { name: "Ann", copies: 2, size: "A5", express: true, address: { city: "Oslo" } });
  const together = () => harness.eventually(async () => {
    assert.match(await page.textContent("#log .asked"), /Where shall it be sent\?.*"city":"Oslo"/);
    assert.equal((await page.$$("form.interrupt")).length, 0);
  });
  await together();
  await page.reload();
  await harness.phase(page, "finished");
  await together();
}

/** Tools, context, state and forwarded properties go with the next run; what is no JSON is said, and nothing is sent. */
export async function input_side(harness) {
  const page = await harness.open();
  const sent = bodies(page);
  await page.click("#input-side > summary");
  await page.fill("#input-tools", "[{\"name\":\"confirm\",\"description\":\"Asks\",\"parameters\":{}}]");
  await page.fill("#input-context", "[{\"description\":\"zone\"}]");
  await harness.eventually(async () => assert.match(await page.textContent("#input-problem"), /context must be a list of facts/));
  await harness.say(page, "release", "Hello");
  assert.equal(sent.length, 0);
  await page.fill("#input-context", "[{\"description\":\"zone\",\"value\":\"Oslo\"}]");
  await page.fill("#input-forwardedProps", "{\"locale\":\"en\"}");
  await page.fill("#input-state", "{\"draft\":true}");
  await page.click("#send");
  await harness.phase(page, "finished");
  const { tools, context, state, forwardedProps } = sent[0];
  assert.deepEqual([tools[0].name, context, state, forwardedProps], ["confirm", [{ description: "zone", value: "Oslo" }], { draft: true }, { locale: "en" }]);
  await page.click("#input-state-now");
  await harness.eventually(async () => assert.equal(JSON.parse(await page.inputValue("#input-state")).suspect, "v42", "the state of the run can be edited"));
}

/** A thread is forked at a message: another thread, with what was said before. */
export async function fork(harness) {
  const page = await harness.open();
  const sent = bodies(page);
  for (const words of ["First", "Second"]) {
    await harness.say(page, "question", words);
    await harness.phase(page, "waiting");
    if (words === "First") {
      await page.fill("form.interrupt input", "early");
      await page.keyboard.press("Enter");
      await harness.phase(page, "finished");
    }
  }
  await page.click("#log > .user:last-of-type .again, #log > .user:nth-last-of-type(n) .again >> nth=-1");
  await harness.eventually(async () => assert.equal(await page.inputValue("#prompt"), "Second"));
  await page.fill("#prompt", "Second, otherwise");
  await page.click("#send");
  await harness.phase(page, "waiting");
  const [first, , second, forked] = sent;
  assert.notEqual(forked.threadId, first.threadId);
  assert.equal(second.threadId, first.threadId);
  const said = forked.messages.filter((message) => message.role === "user").map((message) => message.content);
  assert.deepEqual(said, ["First", "Second, otherwise"]);
}

/** Pictures, Markdown, tables, trees and surfaces are shown as what they are; fractions without their noise. */
export async function media(harness) {
  const page = await harness.open();
  await harness.say(page, "media", "Show");
  await harness.phase(page, "finished");
  await page.click("#tab-artifacts");
  await page.waitForSelector("#artifacts-list .artifact:nth-child(6)");
  await harness.eventually(async () => {
    assert.equal(await page.$eval("#artifacts-list img", (picture) => picture.naturalWidth), 1);
    assert.deepEqual(await texts(page, "#artifacts-list .prose strong"), ["Bold"]);
    const tables = await texts(page, "#artifacts-list table");
    assert.ok(tables[0].includes("book12") && tables[1].includes("0.3") && !tables[1].includes("0.30000000000000004"), tables.join());
    assert.ok((await texts(page, "#artifacts-list .tree")).some((tree) => tree.includes("deeper")));
    assert.deepEqual(await texts(page, "#artifacts-list .a2ui p"), ["Early train", "Book it"]);
  });
  assert.ok(!(await page.textContent("#log")).includes("0.30000000000000004"));
  await harness.shot(page, "artifacts");
  await page.click("#tab-state");
  await harness.eventually(async () => {
    const state = await page.textContent("#state-tree");
    assert.ok(state.includes("price0.3") && !state.includes("0.30000000000000004"), state);
  });
}

/** The timeline is zoomed by buttons and keys, moved, fitted; a grip sets its height; long names are whole. */
export async function zoom(harness) {
  const page = await harness.open();
  await harness.say(page, "wide", "Go");
  await harness.phase(page, "finished");
  const box = () => page.$eval("#timeline-box", (box) => box.clientHeight);
  const before = await box();
  await page.focus("#timeline-grip");
  for (let n = 0; n < 6; n += 1) await page.keyboard.press("ArrowDown");
  await harness.eventually(async () => assert.ok((await box()) >= before + 100, `${before} to ${await box()}`));
  // By order: how many agents speak at a moment depends on the machine, how many in a part of the events does not.
  await page.selectOption("#axis", "order");
  await harness.until(page, "the order of events", () => document.querySelector("#timeline-canvas").getAttribute("aria-label").includes("events"));
  const bars = async () => Number(/(\d+) blocks/.exec(await page.getAttribute("#timeline-canvas", "aria-label"))[1]);
  const all = await bars();
  await page.focus("#timeline-box");
  for (let n = 0; n < 8; n += 1) await page.keyboard.press("+");
  await harness.eventually(async () => assert.ok((await bars()) < all / 4, `${await bars()} of ${all}`));
  const part = await page.$eval("#timeline-canvas", (canvas) => canvas.toDataURL());
  await page.keyboard.press("ArrowRight");
  await harness.eventually(async () => assert.notEqual(await page.$eval("#timeline-canvas", (canvas) => canvas.toDataURL()), part));
  await page.click("#zoom-fit");
  await harness.eventually(async () => assert.equal(await bars(), all));
  await page.hover("#timeline-canvas", { position: { x: 30, y: 18 + 20 + 10 } });
  await harness.eventually(async () => assert.equal(await page.textContent("#timeline-tip"), "a sub-agent with a name that is long enough to be cut somewhere 0"));
  await harness.shot(page, "lanes");
}
