// Scenes with live runs: run, question and answer, lanes, filter, reload, stop, past runs, tokens.
import assert from "node:assert/strict";

const texts = (page, selector) => page.$$eval(selector, (nodes) => nodes.map((node) => node.textContent));

/** A run from a prompt to its end: the answer as Markdown, a tool call, a verdict, figures. */
export async function run(harness) {
  const page = await harness.open();
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "running");
  await harness.phase(page, "finished");
  await harness.eventually(async () => {
    const answer = (await texts(page, "#log > .text .prose")).join("\n");
    assert.ok(answer.includes(harness.options.expect ?? "The service is up, but slow since 09:13"), `the answer is ${answer}`);
    assert.deepEqual(await texts(page, "#log > .text strong"), ["slow since 09:13"]);
    assert.equal((await page.$$("#log > .text table tbody tr")).length, 2);
    assert.match(await page.textContent("#fig-first"), /\d/);
  });
  assert.match(await harness.verdict(page, "good"), /Nothing found/);
  await page.click("#log > .tool summary");
  await harness.eventually(async () => assert.ok((await page.textContent("#log > .tool .body")).includes("\"service\": \"checkout\"")));
  await page.click("#tab-figures");
  await page.waitForSelector("#figures-panel td");
  assert.equal(await page.evaluate(() => document.title), "Aqueduct inspector");
  return { figures: (await texts(page, "#figures-panel tr")).slice(0, 5) };
}

/** A question is asked, answered by keyboard, and the run goes on in its thread; declining works too. */
export async function interrupt(harness) {
  const page = await harness.open();
  await harness.say(page, "question", "Book a train");
  await harness.phase(page, "waiting");
  await page.waitForSelector("form.interrupt input:focus");
  await harness.eventually(async () => assert.equal(await page.textContent("form.interrupt label"), "Which one do you want?"));
  await page.keyboard.type("early");
  await page.keyboard.press("Enter");
  await harness.phase(page, "finished");
  await harness.eventually(async () => {
    assert.ok((await texts(page, "#log .text .prose")).at(-1).includes("Done: early."));
    assert.deepEqual(await texts(page, "#log .user p"), ["Book a train", "early"]);
  });
  await harness.verdict(page, "good");
  await page.reload();
  await harness.phase(page, "finished");
  await harness.eventually(async () => {
    assert.deepEqual(await texts(page, "#log .user p"), ["Book a train", "early"]);
    assert.equal((await page.$$("form.interrupt")).length, 0, "an answered question is not asked again");
  });
  await harness.say(page, "question", "Again");
  await page.waitForSelector("form.interrupt");
  await page.click("form.interrupt button:not(.main)");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.equal((await texts(page, "#log .user p")).at(-1), "(declined)"));
}

/** Runs in the page: the longest stretch of one opaque colour in each of four rows of the timeline, right of the names. */
function paint(canvas) {
  // A copy: Chromium warns of a canvas that is read more than once.
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const pen = copy.getContext("2d");
  pen.drawImage(canvas, 0, 0);
  const { data, width } = pen.getImageData(0, 0, copy.width, copy.height);
  const scale = canvas.width / canvas.clientWidth;
  return [0, 1, 2, 3].map((row) => {
    const line = Math.round((18 + row * 20 + 6) * scale) * width;
    let [best, stretch] = [{ length: 0 }, { length: 0 }];
    for (let x = Math.round(140 * scale); x < width; x += 1) {
      const [r, g, b, a] = data.subarray((line + x) * 4, (line + x) * 4 + 4);
      const colour = a > 200 ? `${r},${g},${b}` : undefined;
      const length = colour !== undefined && colour === stretch.colour ? stretch.length + 1 : 1;
      stretch = { colour, length, middle: (x - length / 2) / scale };
      if (colour && length > best.length) best = stretch;
    }
    return best;
  });
}

/** Sub-agents: boxes inside boxes in colours of their own, and a row each in the timeline. */
export async function lanes(harness) {
  const page = await harness.open();
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "finished");
  await harness.eventually(async () => {
    assert.deepEqual(await texts(page, "#log > .lane > .lane-body > .lane > summary .label"), ["query"]);
    assert.deepEqual(await texts(page, "#log > .lane > summary .label"), ["rollouts", "metrics"]);
  });
  const hues = await page.$$eval(".lane", (lanes) => lanes.map((lane) => getComputedStyle(lane).borderInlineStartColor));
  assert.equal(new Set(hues).size, 3, hues.join());
  await harness.eventually(async () => assert.match(await page.getAttribute("#timeline-canvas", "aria-label"), /4 lanes/));
  // Every lane has painted something of its colour in its row.
  await harness.eventually(async () => {
    const painted = await page.$eval("#timeline-canvas", paint);
    assert.ok(painted.every((row) => row.length > 30), JSON.stringify(painted));
    assert.equal(new Set(painted.map(({ colour }) => colour)).size, 4, JSON.stringify(painted));
  });
  await page.click("#as-table");
  await page.waitForSelector("#timeline-table tbody tr");
  await harness.eventually(async () => assert.ok((await texts(page, "#timeline-table tbody tr")).some((row) => row.startsWith("query") && row.includes("promql"))));
  await page.click("#as-table");
  // A click on a bar shows what it is, and marks it for a second: the longest bar of the run, wherever its events arrived.
  await harness.eventually(async () => {
    const [{ middle }] = await page.$eval("#timeline-canvas", paint);
    await page.click("#timeline-canvas", { position: { x: middle, y: 28 } });
    assert.equal((await page.$$("#log > .text.found")).length, 1);
  });
  await harness.eventually(async () => assert.match(await page.textContent("#raw-detail-title"), /TEXT_MESSAGE_START$/));
}

/** The events by type, by group and by words; one of them whole; arrows move. */
export async function filter(harness) {
  const page = await harness.open();
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "finished");
  const shown = async (count) => harness.until(page, count, (count) => new RegExp(count).test(document.querySelector("#raw-count").textContent), count);
  await page.selectOption("#raw-type", "TOOL_CALL_RESULT");
  await shown("^3 of ");
  await harness.eventually(async () => assert.deepEqual(new Set(await texts(page, "#raw-space .type")), new Set(["TOOL_CALL_RESULT"])));
  await page.selectOption("#raw-type", "group:sub-agents");
  await shown("^6 of ");
  await page.selectOption("#raw-type", "");
  await page.fill("#raw-words", "HISTOGRAM_QUANTILE");
  await shown("^1 of ");
  await page.click("#raw-space .row");
  await harness.eventually(async () => assert.ok((await page.textContent("#raw-detail-text")).includes("histogram_quantile")));
  await page.fill("#raw-words", "");
  await shown("events");
  await page.focus("#raw-view");
  await page.keyboard.press("Home");
  await harness.eventually(async () => assert.match(await page.textContent("#raw-detail-title"), /^Event 0 · RUN_STARTED/));
  await page.keyboard.press("ArrowDown");
  await harness.eventually(async () => assert.match(await page.textContent("#raw-detail-title"), /^Event 1 /));
  await page.keyboard.press("End");
  await harness.eventually(async () => assert.match(await page.textContent("#raw-detail-title"), /RUN_FINISHED$/));
}

/** A reload in the middle of a run: everything is there again, and the rest comes live, none lost and none twice. */
export async function resume(harness) {
  const page = await harness.open();
  await harness.say(page, "slow", "Speak");
  await harness.until(page, "some words", () => document.querySelector("#log").textContent.includes("four"));
  const before = JSON.parse(await page.evaluate(() => sessionStorage.getItem("aqueduct.inspector")));
  assert.match(before.last, /\.\d+\.\d+$/, "the last event is remembered");
  await page.reload();
  await harness.until(page, "the words again", () => document.querySelector("#log").textContent.includes("four"));
  await page.waitForSelector("#resumed:not([hidden])");
  await harness.eventually(async () => assert.equal(await page.getAttribute("#phase", "data-phase"), "running"));
  await harness.phase(page, "finished");
  const words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty";
  await harness.eventually(async () => {
    assert.deepEqual(await texts(page, "#log .text .prose"), [words]);
    assert.deepEqual(await texts(page, "#log .user p"), ["Speak"]);
  });
  await harness.verdict(page, "good");
}

/** Stop reaches the agent. */
export async function stop(harness) {
  const page = await harness.open();
  await harness.say(page, "slow", "Speak");
  await harness.until(page, "some words", () => document.querySelector("#log").textContent.includes("two"));
  await page.click("#send");
  await harness.phase(page, "stopped");
  await harness.eventually(async () => assert.deepEqual(await texts(page, "#log .end span"), ["Run stopped"]));
  assert.ok(!(await page.textContent("#log")).includes("twenty"));
}

/** Past runs of the log: listed, opened in another tab, replayed with a pause, moved through, saved. */
export async function past(harness) {
  const first = await harness.open();
  await harness.say(first, "release", "Is checkout healthy?");
  await harness.phase(first, "finished");
  const page = await harness.open();
  await page.click("#go-runs");
  await page.click("#runs-list tr:first-child button.small");
  await harness.phase(page, "replaying");
  await page.click("#replay");
  await harness.phase(page, "paused");
  const total = await page.evaluate(() => Number(document.querySelector("#position").max));
  await page.fill("#position", "20");
  await harness.until(page, "the place", () => document.querySelector("#place").textContent.startsWith("20 /"));
  await harness.eventually(async () => assert.equal((await texts(page, "#log .end")).length, 0));
  await page.selectOption("#speed", "100");
  await page.click("#replay");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.equal(await page.textContent("#place"), `${total} / ${total}`));
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  assert.equal(download.suggestedFilename(), "release.sse");
  const saved = await download.path();
  await harness.drop(page, saved, "saved.sse");
  await page.waitForSelector("#file-about:not([hidden])");
  await harness.verdict(page, "good");
  await harness.eventually(async () => assert.equal(await page.textContent("#place"), `${total} / ${total}`));
}

/** A protected agent is there for those who bring its token, which stays in this tab. */
export async function token(harness) {
  const page = await harness.open();
  assert.ok(!(await texts(page, "#agent option")).includes("guarded"));
  await page.click("#access summary");
  await page.fill("#token", "open sesame");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#agent option[value=guarded]", { state: "attached" });
  await harness.say(page, "guarded", "Hello");
  await harness.phase(page, "finished");
  const [local, url] = await page.evaluate(() => [localStorage.length, location.href]);
  assert.deepEqual([local, url.includes("sesame")], [0, false]);
  const other = await harness.open();
  assert.ok(!(await texts(other, "#agent option")).includes("guarded"), "another tab knows nothing of it");
}
