// Scenes with the log: counts that agree, runs found again, two of them compared, one event in every protocol.
import assert from "node:assert/strict";

import { Proxy } from "./scenes-cuts.mjs";

const texts = (page, selector) => page.$$eval(selector, (nodes) => nodes.map((node) => node.textContent));
const figures = (page) => page.evaluate(() => ["#fig-events", "#fig-stored", "#raw-count", "#place"].map((id) => document.querySelector(id).textContent));

/** The events of a run in the log, straight from the gateway. */
async function logged(harness, run) {
  const text = await (await fetch(`${harness.origin}/runs/${run}/events?protocolVersion=1.0&merge=false`)).text();
  return [...text.matchAll(/^data: /gm)].length;
}

/** The same counts live, after a reload, from the list of runs, and in the log; merging changes none of what is stored. */
export async function exact(harness) {
  const page = await harness.open();
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "finished");
  await harness.verdict(page, "good");
  const run = await page.evaluate(() => JSON.parse(sessionStorage.getItem("aqueduct.inspector")).runs[0].id);
  const inLog = await logged(harness, run);
  let live;
  // The figures are drawn every 250 ms at most, and so may follow the end.
  await harness.eventually(async () => {
    live = await figures(page);
    assert.equal(Number(live[0]), inLog, "every event of the log is shown");
    assert.equal(live[2], `${live[0]} events`);
    assert.equal(live[3], `${live[0]} / ${live[0]}`);
  });
  await page.reload();
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.deepEqual(await figures(page), live, "after a reload"));
  await page.check("#merge");
  await page.waitForSelector("#merge-about:not([hidden])");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.equal((await figures(page))[1], live[1], "merging changes nothing in the log"));
  await page.uncheck("#merge");
  await harness.eventually(async () => assert.deepEqual(await figures(page), live, "switched off again"));
  await page.click("#go-runs");
  await page.waitForSelector("#runs-list tr");
  await harness.eventually(async () => assert.equal(await page.textContent(`#runs-list tr[data-run="${run}"] td:nth-child(8)`), live[1], "the list counts the same"));
  await page.click(`#runs-list tr[data-run="${run}"] button.link`);
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.deepEqual(await figures(page), live, "opened from the list"));
  return { events: live[0], stored: live[1] };
}

/** With a stream that is faster than any reader: merged, it is shorter and says so; the stored count stays. */
export async function merged(harness) {
  const page = await harness.open();
  await harness.say(page, "many", "Go");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.equal((await figures(page))[2], `${(await figures(page))[0]} events`));
  const [events, stored] = await figures(page);
  await page.check("#merge");
  await page.waitForSelector("#merge-about:not([hidden])");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.equal((await figures(page))[1], stored));
  const fewer = Number((await figures(page))[0]);
  const said = Number.parseInt(await page.textContent("#merge-about"), 10);
  assert.ok(said > 0 && fewer < Number(events), `${fewer} of ${events}, ${said} merged`);
  await page.fill("#raw-words", "word1 word2");
  await page.waitForSelector("#raw-space .stands");
  return { events, stored, fewer, merged: said };
}

/** A failed run of another day: Runs, the filter, the run. Then the sub-agent that failed is open, with what it failed of. */
export async function found(harness) {
  const first = await harness.open();
  for (const [agent, phase] of [["failure", "failed"], ["release", "finished"]]) {
    await harness.say(first, agent, `Ask ${agent}`);
    await harness.phase(first, phase);
    await first.click("#new-thread");
  }
  await first.close();
  const page = await harness.open();
  let clicks = 0;
  const click = async (selector) => {
    clicks += 1;
    await page.click(selector);
  };
  await click("#go-runs");
  await page.waitForSelector("#runs-list tr");
  await harness.eventually(async () => assert.deepEqual(await texts(page, "#runs-list .pill"), ["finished", "failed"]));
  const row = await page.textContent("#runs-list tr:nth-child(2)");
  for (const word of ["Ask failure", "fetcher", "overloaded"]) assert.ok(row.includes(word), row);
  clicks += 1;
  await page.selectOption("#runs-filters [name=outcome]", "errors");
  await harness.eventually(async () => assert.deepEqual(await texts(page, "#runs-list .pill"), ["failed"]));
  await harness.shot(page, "runs");
  await click("#runs-list tr:first-child button.link");
  await harness.phase(page, "failed");
  assert.equal(clicks, 3);
  await page.waitForSelector("#problems:not([hidden])");
  await harness.eventually(async () => {
    assert.match((await texts(page, "#problems button"))[0], /^fetcher: /);
    assert.match(await page.textContent("#raw-detail-title"), /SUBAGENT_ERROR$/);
    assert.deepEqual(await texts(page, "#log .user p"), ["Ask failure"]);
    assert.equal(await page.isVisible("#log .lane[data-status=failed] .tool[open] .body"), true, "the failed call is open");
  });
  await harness.shot(page, "failed-run");
  await page.goBack();
  await harness.eventually(async () => assert.deepEqual(await texts(page, "#runs-list .pill"), ["failed"], "the filters are in the address"));
}

/** Words, agents, times and threads narrow the list. */
export async function filters(harness) {
  const page = await harness.open();
  for (const words of ["Alpha question", "Beta question"]) {
    await harness.say(page, "release", words);
    await harness.phase(page, "finished");
    await page.click("#new-thread");
  }
  await harness.say(page, "slow", "Gamma");
  await harness.until(page, "some words", () => document.querySelector("#log").textContent.includes("two"));
  await page.click("#go-runs");
  const listed = (prompts) => harness.eventually(async () => assert.deepEqual(await texts(page, "#runs-list .prompt"), prompts));
  await listed(["Gamma", "Beta question", "Alpha question"]);
  assert.equal(await page.textContent("#runs-list .pill"), "running");
  await page.fill("#runs-filters [name=q]", "alpha QUESTION");
  await listed(["Alpha question"]);
  await page.click("#runs-clear");
  await page.selectOption("#runs-filters [name=agent]", "slow");
  await listed(["Gamma"]);
  await page.click("#runs-clear");
  await page.selectOption("#runs-filters [name=outcome]", "success");
  await listed(["Beta question", "Alpha question"]);
  await page.click("#runs-clear");
  await page.fill("#runs-filters [name=until]", "2001-01-01T00:00");
  await listed([]);
  await page.click("#runs-clear");
  await listed(["Gamma", "Beta question", "Alpha question"]);
  await page.click("#runs-list tr:nth-child(2) a.link");
  await listed(["Beta question"]);
  await page.goBack();
  await page.click("#runs-clear");
  // A run that is under way is opened, and goes on.
  await page.click("#runs-list tr:first-child button.link");
  await harness.phase(page, "running");
  await page.click("#send");
  await harness.phase(page, "stopped");
}

/** Two runs side by side, with what differs marked. */
export async function compare(harness) {
  const page = await harness.open();
  for (const [agent, words, phase] of [["question", "Book", "waiting"], ["release", "Is it up?", "finished"], ["release", "Is it up?", "finished"]]) {
    await harness.say(page, agent, words);
    await harness.phase(page, phase);
    await page.click("#new-thread");
  }
  await page.click("#go-runs");
  await page.waitForSelector("#runs-list tr:nth-child(3)");
  const choose = async (...rows) => {
    for (const row of rows) await page.check(`#runs-list tr:nth-child(${row}) input`);
    await page.click("#runs-compare");
    await page.waitForSelector("#compare-table tr");
  };
  await choose(1, 2);
  await harness.eventually(async () => {
    assert.match(await page.textContent("#compare-about"), /the answers are the same/);
    assert.ok(!(await texts(page, "#compare-table .differs th")).some((name) => ["Outcome", "Tools", "Stored events"].includes(name)));
  });
  await page.goBack();
  await page.waitForSelector("#runs-list tr:nth-child(3)");
  await choose(1, 3);
  await harness.eventually(async () => {
    assert.match(await page.textContent("#compare-about"), /the answers are different/);
    const differs = await texts(page, "#compare-table .differs th");
    for (const name of ["Agent", "Prompt", "Outcome", "Sub-agents"]) assert.ok(differs.includes(name), differs.join());
    assert.ok((await texts(page, "#compare-answers mark.left")).join("").includes("slow since 09:13"));
  });
  await harness.shot(page, "compare");
}

/** One stored event in every protocol, with the rule that led to it. */
export async function forms(harness) {
  const page = await harness.open();
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "finished");
  await page.selectOption("#raw-type", "REASONING_MESSAGE_END");
  await harness.until(page, "the filter", () => / of /.test(document.querySelector("#raw-count").textContent));
  await page.click("#raw-space .row");
  await page.click("#raw-forms");
  await page.waitForSelector("#forms .form");
  await harness.eventually(async () => {
    assert.match(await page.textContent("#forms .rule"), /deferred end/);
    const [canonical, agui, old, a2a] = await texts(page, "#forms .form");
    assert.ok(canonical.includes("\"block.ended\"") && agui.includes("REASONING_MESSAGE_END") && old.includes("0.0.59") && a2a.includes("A2A"), canonical);
    assert.match(await page.textContent("#raw-detail-place"), /^stored event \d+/);
  });
  await harness.shot(page, "forms");
}

/** A gateway that is gone is said as such, and what was typed is kept; once it is back, the page goes on. */
export async function gone(harness) {
  const proxy = await Proxy.to(harness.origin);
  harness.origin = proxy.origin;
  const page = await harness.open();
  await proxy.end();
  await harness.say(page, "release", "Words that took long to write");
  await page.waitForSelector("#connection:not([hidden])");
  await harness.eventually(async () => {
    assert.match(await page.textContent("#connection"), /The gateway at http:\/\/127\.0\.0\.1:\d+ does not answer/);
    assert.equal(await page.inputValue("#prompt"), "Words that took long to write");
    assert.equal(await page.getAttribute("#phase", "data-phase"), "gone");
  });
  await proxy.listen();
  await page.click("#connection button");
  await page.waitForSelector("#connection", { state: "hidden" });
  await page.click("#send");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.deepEqual(await texts(page, "#log .user p"), ["Words that took long to write"]));
  // Gone in the middle of a run, for longer than the page tries.
  await harness.say(page, "slow", "Speak");
  await harness.until(page, "some words", () => document.querySelector("#log").textContent.includes("four"));
  await proxy.end();
  await harness.phase(page, "gone");
  await proxy.listen();
  await page.click("#connection button");
  await harness.phase(page, "finished");
  await harness.eventually(async () => assert.ok((await page.textContent("#log")).includes("twenty")));
  harness.faults = harness.faults.filter((fault) => !/net::ERR_/.test(fault));
  await page.close();
  await proxy.end();
}
