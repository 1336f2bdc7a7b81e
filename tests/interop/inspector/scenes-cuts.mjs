// Scenes with connections that are cut: a proxy between the page and the gateway hangs up in the middle of a run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";

/** What a browser notes by itself when a connection is cut; it is what the scene is about. */
const CUT = /net::ERR_(INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_[A-Z]+|SOCKET_NOT_CONNECTED|NETWORK_CHANGED)/;

/** Carries bytes to the gateway, until it is told not to. */
export class Proxy {
  #open = new Set();
  isDown = false;

  static async to(url) {
    const proxy = new Proxy();
    const { hostname, port } = new URL(url);
    proxy.server = createServer((near) => proxy.#carry(near, connect(Number(port), hostname)));
    await proxy.listen(0);
    proxy.origin = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  /** Listens, again at the same port after an end. */
  listen(port = Number(new URL(this.origin).port)) {
    return new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
  }

  #carry(near, far) {
    for (const [from, to] of [[near, far], [far, near]]) {
      this.#open.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        this.#open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
    if (this.isDown) near.resetAndDestroy();
  }

  /** Cuts every connection there is. */
  cut() {
    for (const socket of this.#open) socket.destroy();
  }

  end() {
    this.cut();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

const said = (page, word) => page.waitForFunction((word) => document.querySelector("#log").textContent.includes(word), word);

/** The data of every event of a trace. */
const dataOf = (trace) => [...trace.matchAll(/^data: (.*)$/gm)].map((found) => JSON.parse(found[1]));

/** Cut thrice, once for longer: the page comes back by itself, and has exactly the events of the log. */
export async function reconnect(harness) {
  const gateway = harness.origin;
  const proxy = await Proxy.to(gateway);
  harness.origin = proxy.origin;
  const page = await harness.open();
  // Phases may be short: all of them are noted.
  await page.evaluate(() => {
    const pill = document.querySelector("#phase");
    window.phases_ = [];
    new MutationObserver(() => window.phases_.push(pill.dataset.phase)).observe(pill, { attributes: true, attributeFilter: ["data-phase"] });
  });
  await harness.say(page, "slow", "Speak");
  let cuts = 0;
  for (const word of ["two", "five", "nine"]) {
    await said(page, word);
    proxy.isDown = word === "five";
    proxy.cut();
    cuts += 1;
    await harness.until(page, "another try", (cuts) => window.phases_.filter((phase) => phase === "reconnecting").length >= cuts, cuts);
    proxy.isDown = false;
  }
  await harness.phase(page, "finished");
  await harness.verdict(page, "good");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  const seen = dataOf(readFileSync(await download.path(), "utf8"));
  const run = seen[0].runId;
  const logged = dataOf(await (await fetch(`${gateway}/runs/${run}/events?protocolVersion=1.0`)).text());
  assert.deepEqual(seen, logged, "nothing is lost, and nothing came twice");
  assert.equal((await page.$$("#log .problem")).length, 0);
  harness.faults = harness.faults.filter((fault) => !CUT.test(fault));
  await page.close();
  await proxy.end();
  return { cuts, events: seen.length };
}
