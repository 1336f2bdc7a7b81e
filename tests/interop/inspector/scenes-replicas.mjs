// Scenes over two replicas that share a log, with principals: what an admin sees of the runs of others.
import assert from "node:assert/strict";

const texts = (page, selector) => page.$$eval(selector, (nodes) => nodes.map((node) => node.textContent.trim()));
const token = (name) => `the token of ${name}, long enough`;

/** A run of another principal, driven by another replica: found by an admin, opened while it goes on, stopped from here. */
export async function replicas(harness) {
  const other = new URL(harness.options.other).origin;
  const ann = await harness.open({ token: token("ann") });
  // The card of an agent has example prompts.
  await ann.selectOption("#agent", "question");
  await harness.eventually(async () => assert.deepEqual(await texts(ann, "#examples button"), ["Book a train"]));
  await ann.click("#examples button");
  assert.equal(await ann.inputValue("#prompt"), "Book a train");
  await harness.say(ann, "endless", "Count for me");
  await harness.until(ann, "some words", () => document.querySelector("#log").textContent.includes("word2"));

  const bob = await harness.open({ token: token("bob"), origin: other });
  await harness.say(bob, "question", "Book a train");
  await harness.phase(bob, "waiting");
  await bob.click("#new-thread");
  await harness.say(bob, "gone", "Are you there?");
  await harness.phase(bob, "failed");
  await bob.click("#go-runs");
  await harness.eventually(async () => assert.equal((await texts(bob, "#runs-list tr")).length, 2, "bob sees bob's runs"));
  assert.equal(await bob.isVisible("#runs-filters [name=principal]"), false);

  const root = await harness.open({ token: token("root"), origin: other });
  await root.click("#go-runs");
  await harness.eventually(async () => assert.deepEqual(await texts(root, "#runs-list .prompt"), ["Are you there?", "Book a train", "Count for me"]));
  await root.fill("#runs-filters [name=principal]", "ann");
  await harness.eventually(async () => assert.deepEqual(await texts(root, "#runs-list .prompt"), ["Count for me"]));
  assert.match(await root.textContent("#runs-list tr"), /ann/);
  assert.match(root.url(), /principal=ann/, "the filter is part of the address");
  await harness.eventually(async () => {
    const { href, text } = await root.$eval("#runs-list a.trace", (link) => ({ href: link.href, text: link.textContent }));
    assert.match(`${text} ${href}`, /^trace https:\/\/traces\.example\.org\/trace\/[0-9a-f]{32}$/);
  });
  await harness.shot(root, "runs-of-all");

  // Driven by the first replica, opened at the second, and going on.
  await root.click("#runs-list tr:first-child button.link");
  await harness.phase(root, "running");
  const words = await root.evaluate(() => document.querySelector("#log").textContent.length);
  await harness.until(root, "more words", (words) => document.querySelector("#log").textContent.length > words, words);
  await harness.eventually(async () => assert.deepEqual(await texts(root, "#log .user p"), ["Count for me"]));
  await root.click("#send");
  await harness.phase(root, "stopped");
  await harness.phase(ann, "stopped");

  await root.click("#go-agents");
  await harness.eventually(async () => {
    const row = await root.textContent("#agents-list tr[data-agent=gone]");
    assert.match(row, /not called for now/);
    assert.match(row, /127\.0\.0\.1/, "an admin sees the cause");
    assert.match(await root.textContent("#agents-list tr[data-agent=question]"), /in the gateway/);
    assert.match(await root.textContent("#agents-about"), /^3 agents, 1 of them with trouble\.$/);
  });
  await harness.shot(root, "agents");
  await bob.click("#go-agents");
  await harness.eventually(async () => assert.match(await bob.textContent("#agents-list tr[data-agent=gone]"), /1 failure/));
  assert.doesNotMatch(await bob.textContent("#agents-list"), /127\.0\.0\.1/);
}
