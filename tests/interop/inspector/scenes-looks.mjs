// Scenes about size, sight and reach: 100,000 events, small and dark screens, keyboard and screen readers.
import assert from "node:assert/strict";

/** Runs in the page: the times of all frames from now on. */
function watchFrames() {
  window.frames_ = [];
  let last = performance.now();
  const frame = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

function frameTimes() {
  const times = window.frames_.sort((a, b) => a - b);
  const at = (part) => Math.round(times[Math.floor((times.length - 1) * part)] * 10) / 10;
  return { frames: times.length, median: at(0.5), p95: at(0.95), p99: at(0.99), longest: at(1) };
}

/** From now on: what the page's thread works at, in milliseconds of processor time, however busy the machine is. */
async function watchWork(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => Math.round(metrics.find((metric) => metric.name === name).value * 1000);
    return { all: of("TaskDuration"), script: of("ScriptDuration"), layout: of("LayoutDuration"), style: of("RecalcStyleDuration") };
  };
}

/** 100,000 events in 50 lanes: all of them arrive, few of them are nodes, and the page answers meanwhile. */
export async function many(harness) {
  const page = await harness.open();
  await page.evaluate(watchFrames);
  const work = await watchWork(page);
  const began = Date.now();
  await harness.say(page, "many", "Go");
  await page.click("#tab-state");
  await page.click("#tab-events");
  await harness.phase(page, "finished");
  const live = { took: Date.now() - began, ...(await page.evaluate(frameTimes)), work: await work() };
  await harness.until(page, "100,000 events", () => Number(document.querySelector("#fig-events").textContent) >= 100_000);
  const events = Number(await page.textContent("#fig-events"));
  await harness.eventually(async () => assert.ok((await page.$$("#raw-space .row")).length < 100, "rows out of sight do not exist"));
  await page.evaluate(watchFrames);
  for (let n = 0; n < 20; n += 1) {
    await page.$eval("#raw-view", (view, n) => { view.scrollTop = (view.scrollHeight / 20) * n; view.dispatchEvent(new WheelEvent("wheel")); }, n);
    await page.waitForTimeout(20);
  }
  await page.fill("#raw-words", "word97");
  await harness.until(page, "the search", () => / of /.test(document.querySelector("#raw-count").textContent));
  const scrolling = await page.evaluate(frameTimes);
  await harness.verdict(page, "good");
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  await harness.shot(page, "many");
  return { events, nodes, live, scrolling };
}

async function shown(harness, options) {
  const page = await harness.open(options);
  await harness.say(page, "release", "Is checkout healthy?");
  await harness.phase(page, "finished");
  await harness.verdict(page, "good");
  return page;
}

/** Runs in the page: what reaches beyond its right edge. */
function sticking() {
  const beyond = (node) => node.getBoundingClientRect().right > innerWidth + 0.5;
  const found = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && beyond(node)).map((node) => `${node.tagName}#${node.id}.${node.className}`);
  return { width: document.documentElement.scrollWidth, inner: innerWidth, found: found.slice(0, 10) };
}

/** No scrolling sideways, whatever the letters of this machine are as wide as. */
async function fits(page, what) {
  const { width, inner, found } = await page.evaluate(sticking);
  assert.ok(width <= inner, `${what}: ${width} of ${inner} pixels: ${found}`);
}

/** Every page and every tab on a small screen. */
async function fitsEverywhere(page) {
  await fits(page, "the page with a run");
  for (const tab of ["state", "artifacts", "verdict", "figures", "events"]) {
    await page.click(`#tab-${tab}`);
    await fits(page, tab);
  }
  for (const place of ["#/runs", "#/agents"]) {
    await page.evaluate((place) => { location.hash = place; }, place);
    await page.waitForSelector(`${place.replace("#/", "#")}-list tr`);
    await fits(page, place);
  }
  await page.evaluate(() => { location.hash = ""; });
  await page.waitForSelector("#page-live", { state: "visible" });
}

/** The page in the light or in the dark, as it is; its reader may switch at any time. */
async function looksLike(harness, page, name, dark) {
  await page.emulateMedia({ colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  await harness.until(page, dark ? "the dark" : "the light", (dark) => {
    const ground = /\d+/.exec(getComputedStyle(document.body).backgroundColor)[0];
    return Number(ground) > 128 === !dark;
  }, dark);
  await fits(page, name);
  // The timeline is drawn in the colours of its ground with one of the next frames.
  await page.waitForTimeout(300);
  await harness.shot(page, name, { fullPage: name.startsWith("small") });
}

/** Pictures: of the README, in the dark, and on a small screen, where nothing sticks out. */
export async function looks(harness) {
  for (const [light, dark, options] of [["inspector", "dark", {}], ["small", "small-dark", { width: 360, height: 740 }]]) {
    const page = await shown(harness, options);
    if (options.width) await fitsEverywhere(page);
    await page.selectOption("#raw-type", "group:tools");
    await page.fill("#raw-words", "promql");
    await page.click("#raw-space .row");
    await page.fill("#raw-words", "");
    await page.$eval("#log", (log) => { log.scrollTop = 0; });
    await page.evaluate(() => document.activeElement.blur());
    await looksLike(harness, page, light, false);
    await looksLike(harness, page, dark, true);
    await page.close();
  }
  // A page that is opened in the dark is dark from its first frame.
  const page = await harness.open({ dark: true });
  await harness.until(page, "the dark", () => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)[0]) < 128);
}

/** Everything by keyboard, everything with a name, readable contrast. */
export async function keyboard(harness) {
  const page = await harness.open();
  await page.selectOption("#agent", "release");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Tab");
  await harness.eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the prompt"));
  await page.keyboard.press("Enter");
  await page.focus("#prompt");
  await page.keyboard.type("Hello");
  await page.keyboard.press("Enter");
  await harness.phase(page, "running");
  await page.focus("#tab-events");
  await page.keyboard.press("ArrowRight");
  await harness.eventually(async () => {
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-state");
    assert.equal(await page.isVisible("#panel-state"), true);
  });
  await harness.until(page, "an end", () => ["finished", "waiting", "failed"].includes(document.querySelector("#phase").dataset.phase));
  const nameless = await page.evaluate(() => {
    const named = (node) => node.labels?.length || node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") || node.textContent.trim() || node.title;
    return [...document.querySelectorAll("button, nav, select, input, textarea, canvas, [role=tabpanel], [role=listbox], section, aside")].filter((node) => !named(node)).map((node) => node.outerHTML.slice(0, 80));
  });
  assert.deepEqual(nameless, []);
  const landmarks = await page.evaluate(() => ["header", "main", "aside", "section"].map((tag) => document.querySelectorAll(`${tag}:not([hidden])`).length));
  assert.deepEqual(landmarks, [1, 1, 1, 2]);
  for (const dark of [false, true]) {
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    const poor = await page.evaluate(contrasts);
    assert.deepEqual(poor, [], dark ? "dark" : "light");
  }
}

/** Runs in the page: pairs of the palette that are used as text on ground, below 4.5 to 1 (WCAG 2.2, 1.4.3). */
function contrasts() {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim().slice(1);
    const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pairs = [["--text", "--ground"], ["--text", "--paper"], ["--soft", "--paper"], ["--faint", "--paper"], ["--faint", "--ground"], ["--faint", "--sunken"], ["--accent", "--paper"], ["--accent", "--accent-soft"], ["--on-accent", "--accent"], ["--good", "--good-soft"], ["--bad", "--bad-soft"], ["--wait", "--wait-soft"]];
  for (let n = 0; n < 8; n += 1) pairs.push([`--hue-${n}`, "--paper"]);
  return pairs.map(([a, b]) => [a, b, (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05)]).filter(([, , ratio]) => ratio < 4.5);
}

/** Proof that the harness sees what it must not see: a page that complains and calls home. */
export async function complaining(harness) {
  const page = await harness.open();
  await page.evaluate(() => {
    console.error("a complaint");
    const picture = document.createElement("img");
    picture.src = "https://elsewhere.invalid/pixel.png";
    document.body.append(picture);
  });
  await page.waitForTimeout(500);
}
