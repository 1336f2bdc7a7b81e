// What a person sees of the demo team, on every page: as the frontends come, and with `sdk/react`.
import assert from "node:assert/strict";

const ANSWER = "The team says: safe and fast. One source could not be read.";

/** Each sub-agent by name, with its tools and its failure; thoughts; the answer. */
export async function report(page) {
  await page.open();
  await page.say("report please");
  if (page.stage.hasLanes) {
    // Live: a lane is there and works before the answer is.
    await page.shows('[data-lane="researcher"][data-status="running"]');
    assert.equal(await page.count(ANSWER), 0);
  }
  await page.says(ANSWER, "researcher", "writer", "fetcher", "checker", "Two sources agree.", "A draft: what you gain is sleep.");
  if (page.stage.hasLanes) {
    await page.shows('[data-lane="researcher"][data-status="done"] [data-tool="search"][data-status="done"]');
    await page.shows('[data-lane="researcher"] [data-lane="checker"][data-status="done"]');
    await page.shows('[data-lane="fetcher"][data-status="failed"] [data-tool="fetch"][data-status="failed"]');
    await page.says("Failed: the sub-agent failed");
    assert.equal(await page.count("Two sources agree."), 1);
  } else {
    await page.says("researcher › checker", "⚠ fetcher › fetch failed: connection refused", "⚠ fetcher failed: the sub-agent failed");
  }
  await page.document();
  const name = (tool, agent) => (page.stage.hasLanes ? tool : `${agent} › ${tool}`);
  const searched = await page.inside(name("search", "researcher"));
  assert.match(searched, /report please[\s\S]*memory safety, speed, tooling/);
  assert.match(await page.inside(name("fetch", "fetcher")), /connection refused/);
  if (page.stage.hasLanes) await closes(page);
  else assert.match(await page.inside("writer"), /A draft: what you gain is sleep\./);
}

/** A lane closes and opens again. */
async function closes(page) {
  await page.click('[data-lane="writer"] > .aq-head');
  await page.eventually(async () => assert.equal(await page.count("A draft: what you gain is sleep."), 0));
  await page.click('[data-lane="writer"] > .aq-head');
  await page.says("A draft: what you gain is sleep.");
}

/** The thoughts of the agent and of a sub-agent can be read. */
export async function thinking(page) {
  await page.open();
  await page.say("report please");
  await page.says(ANSWER);
  const thoughts = page.tab.locator(page.page.startsWith("copilotkit") ? 'button:has-text("Thought for"), .aq-thought .aq-head' : ".aq-thought .aq-head, .reasoning summary");
  for (const thought of await thoughts.all()) await thought.click();
  await page.says("The facts come first, then the words.", "Begin with what the reader gains.");
  if (!page.stage.hasLanes) await page.says("writer: Begin with");
}

/** A question, approved. */
export async function approve(page) {
  await page.open();
  await page.say("deploy it");
  await page.says("Deploy release 1.4 to 3 hosts?");
  await page.document();
  await page.click('button:has-text("Approve")');
  await page.says('The reply was {"approved":true}.');
  assert.equal(await page.tab.locator('button:has-text("Approve")').count(), 0, "the question is still there");
}

/** The same, declined; and the thread goes on. */
export async function decline(page) {
  await page.open();
  await page.say("deploy it");
  await page.says("Deploy release 1.4 to 3 hosts?");
  await page.click('button:has-text("Decline")');
  await page.says("The reply was ");
  assert.equal(await page.count("approved\":true"), 0);
  await page.say("what else?");
  await page.says("I know: report, deploy");
}

/** A question that wants several values. */
export async function form(page) {
  await page.open();
  await page.say("book a train");
  await page.says("Which train do you want?");
  if (page.stage.hasLanes) {
    await page.tab.fill('[name="seats"]', "9");
    await page.click('.aq-question button:has-text("Send")');
    await page.says("Seats is above 6");
    await page.tab.fill('[name="seats"]', "3");
    await page.tab.selectOption('[name="train"]', { label: "late" });
    await page.tab.check('[name="quiet"]');
    await page.document();
    await page.click('.aq-question button:has-text("Send")');
  } else {
    await page.tab.fill('[name="reply"]', '{"train":"late","seats":3,"quiet":true}');
    await page.click('button:has-text("Send reply")');
  }
  await page.says("Booked: ");
  const text = await page.text();
  const reply = JSON.parse(/Booked: (\{.*\})\./.exec(text)[1]);
  assert.deepEqual(reply, { train: "late", seats: 3, quiet: true });
}

/** A tool of the agent itself fails, and then the run. */
export async function failure(page) {
  await page.open();
  await page.say("break");
  await page.says("charge", "I began to answer, but", "the model is overloaded (529)");
  if (page.stage.hasLanes) await page.shows('[data-tool="charge"][data-status="failed"]');
  else await page.says("⚠ charge failed: card declined");
  await page.document();
  await page.say("what else?");
  await page.says("I know: report, deploy");
}

/** A run that is stopped stops at the gateway too. */
export async function stop(page) {
  await page.open();
  await page.say("count");
  await page.says("counter", "three");
  await page.click(page.stage.stop);
  await page.eventually(async () => assert.match(await page.atGateway(), /"outcome":\{"type":"cancelled"\}/));
  assert.equal(await page.count("Counted to twenty."), 0);
}

/** A page that is loaded again in mid-run shows what was and follows what comes, each once. */
export async function reload(page) {
  await page.open();
  await page.say("count");
  await page.says("counter", "three");
  await page.tab.reload();
  await page.says("three");
  assert.equal(await page.count("Counted to twenty."), 0);
  await page.says("counter", "nineteen twenty", "Counted to twenty.");
  assert.equal(await page.count("nineteen twenty"), 1);
  assert.equal(await page.count("Counted to twenty."), 1);
  if (page.stage.hasLanes) await page.shows('[data-lane="counter"][data-status="done"] [data-tool="prepare"]');
  // And once more, when all is over.
  await page.tab.reload();
  await page.says("counter", "Counted to twenty.");
  assert.equal(await page.count("Counted to twenty."), 1);
}

/** By default, without a word of configuration, a question is a text and the next message its answer. */
export async function plain(page) {
  if (page.stage.hasLanes) return;
  await page.open("team-plain");
  await page.say("name");
  await page.says("Who shall be greeted?");
  await page.say("Ada");
  await page.says("Hello, Ada.");
}
