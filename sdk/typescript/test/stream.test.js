// The stream alone, against connections that break wherever they can. No package is needed: `node --test test/`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ResumeError, ResumingStream } from "../src/stream.js";
import { isRepeated, readPosition } from "../src/position.js";
import { RetryBudget } from "../src/retry.js";

const KINDS = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
const FRAMES = KINDS.map((type, at) => `id: r.${at + 1}.1\ndata: {"type":"${type}","delta":"é ${at}"}\n\n`);
const WHOLE = new TextEncoder().encode(`id: r.0\nretry: 1\n\n${FRAMES.join(": keep-alive\n\n")}`);
const QUICK = { attempts: 3, firstDelayMs: 1, maxDelayMs: 2 };

/** A body of these bytes that then ends, or breaks. */
function answer(bytes, { breaks = false, status = 200, type = "text/event-stream", headers = {} } = {}) {
  const body = new ReadableStream({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
    },
    pull(controller) {
      if (breaks) controller.error(new TypeError("terminated"));
      else controller.close();
    },
  });
  return new Response(body, { status, headers: { "content-type": type, ...headers } });
}

function rest(lastEventId) {
  const from = lastEventId === undefined || lastEventId === "r.0" ? 0 : Number(lastEventId.split(".")[1]);
  return new TextEncoder().encode(FRAMES.slice(from).join(""));
}

async function read(options) {
  const stream = new ResumingStream({ retry: QUICK, ...options });
  const [reader, decoder] = [(await stream.response()).body.getReader(), new TextDecoder()];
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
}

test("a stream cut at any byte is whole and has nothing twice", async () => {
  for (const [breaks, step] of [[true, 1], [false, 7]]) {
    for (let at = 0; at < WHOLE.length; at += step) {
      const start = async () => answer(WHOLE.slice(0, at), { breaks });
      const resume = async (lastEventId) => answer(rest(lastEventId));
      assert.equal(await read({ start, resume }), FRAMES.join(""), `cut at ${at}, breaks: ${breaks}`);
    }
  }
});

test("what comes again is shown once", async () => {
  const start = async () => answer(WHOLE.slice(0, -20), { breaks: true });
  const resume = async () => answer(WHOLE);
  assert.equal(await read({ start, resume }), FRAMES.join(""));
});

test("a run whose request got no answer is looked for before it is begun again", async () => {
  const asked = [];
  const lost = async () => {
    asked.push("start");
    if (asked.length === 1) throw new TypeError("fetch failed");
    return answer(WHOLE);
  };
  const unknown = async () => {
    asked.push("resume");
    return answer(new Uint8Array(), { status: 404 });
  };
  assert.equal(await read({ start: lost, resume: unknown }), FRAMES.join(""));
  assert.deepEqual(asked, ["start", "resume", "start"]);

  const arrived = async () => {
    throw new TypeError("fetch failed");
  };
  assert.equal(await read({ start: arrived, resume: async (id) => answer(rest(id)) }), FRAMES.join(""));
});

test("an answer that is no stream is handed on", async () => {
  const start = async () => answer(new TextEncoder().encode("no"), { status: 400, type: "text/plain" });
  const response = await new ResumingStream({ start, resume: start, retry: QUICK }).response();
  assert.equal(response.status, 400);
  assert.equal(await response.text(), "no");
});

test("a run that is gone is an error, with what the gateway said", async () => {
  const start = async () => answer(WHOLE.slice(0, 60), { breaks: true });
  const gone = new TextEncoder().encode('{"error":{"code":"gone","message":"too late","earliest":7}}');
  const resume = async () => answer(gone, { status: 410, type: "application/json" });
  await assert.rejects(read({ start, resume }), (error) => {
    assert.ok(error instanceof ResumeError);
    assert.deepEqual([error.status, error.code, error.earliest], [410, "gone", 7]);
    return true;
  });
});

test("tries are bounded, and progress resets the count", async () => {
  let tries = 0;
  const start = async () => answer(WHOLE.slice(0, 60), { breaks: true });
  const never = async () => {
    tries += 1;
    throw new TypeError("fetch failed");
  };
  await assert.rejects(read({ start, resume: never }), ResumeError);
  assert.equal(tries, QUICK.attempts);

  // One event per connection: more connections than tries, and no error.
  const single = async (lastEventId) => {
    const from = lastEventId === "r.0" ? 0 : Number(lastEventId.split(".")[1]);
    return answer(new TextEncoder().encode(FRAMES[from]), { breaks: true });
  };
  const first = async () => answer(WHOLE.slice(0, 18), { breaks: true });
  assert.equal(await read({ start: first, resume: single }), FRAMES.join(""));
});

test("a busy gateway is asked again", async () => {
  let tries = 0;
  const start = async () => answer(WHOLE.slice(0, 60), { breaks: true });
  const resume = async (lastEventId) => {
    tries += 1;
    return tries === 1 ? answer(new Uint8Array(), { status: 503 }) : answer(rest(lastEventId));
  };
  assert.equal(await read({ start, resume }), FRAMES.join(""));
});

test("an abort ends the waiting and the reading", async () => {
  const controller = new AbortController();
  const start = async () => answer(WHOLE.slice(0, 60), { breaks: true });
  const resume = async () => {
    throw new TypeError("fetch failed");
  };
  const slow = { attempts: 3, firstDelayMs: 60_000, maxDelayMs: 60_000 };
  const onReconnect = () => queueMicrotask(() => controller.abort());
  const reading = read({ start, resume, retry: slow, signal: controller.signal, onReconnect });
  await assert.rejects(reading, { name: "AbortError" });
});

test("a connection on which nothing comes is given up", async () => {
  const silent = new Response(new ReadableStream({ start: (controller) => controller.enqueue(WHOLE.slice(0, 60)) }), {
    headers: { "content-type": "text/event-stream" },
  });
  const resume = async (lastEventId) => answer(rest(lastEventId));
  assert.equal(await read({ start: async () => silent, resume, idleTimeoutMs: 5 }), FRAMES.join(""));
});

test("a reader that leaves ends the connection and makes no other", async () => {
  let [aborted, resumed] = [false, 0];
  const start = async (signal) => {
    signal.addEventListener("abort", () => (aborted = true));
    const open = new ReadableStream({ start: (controller) => controller.enqueue(WHOLE.slice(0, 100)) });
    return new Response(open, { headers: { "content-type": "text/event-stream" } });
  };
  const resume = async () => {
    resumed += 1;
    throw new TypeError("fetch failed");
  };
  const response = await new ResumingStream({ start, resume, retry: QUICK }).response();
  const reader = response.body.getReader();
  await reader.read();
  await reader.cancel();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([aborted, resumed], [true, 0]);
});

test("ids are compared as numbers, within one stream", () => {
  assert.deepEqual(readPosition("a.b.12.3"), { stream: "a.b", number: 12, payload: 3 });
  assert.deepEqual(readPosition("a.5.0"), { stream: "a.5", number: 0, payload: 0 });
  assert.equal(readPosition("nothing"), undefined);
  assert.ok(isRepeated("r.9.1", "r.10.1"));
  assert.ok(isRepeated("r.10.1", "r.10.1"));
  assert.ok(!isRepeated("r.10.2", "r.10.1"));
  assert.ok(!isRepeated("other.1.1", "r.10.1"));
  assert.ok(!isRepeated("r.1.1", undefined));
});

test("waits double, are spread, and end", () => {
  const budget = new RetryBudget({ attempts: 4, firstDelayMs: 100, maxDelayMs: 300 }, () => 1);
  assert.deepEqual([budget.next(), budget.next(), budget.next(), budget.next(), budget.next()], [100, 200, 300, 300, undefined]);
  budget.reset();
  assert.equal(budget.next(250), 250);
  assert.equal(new RetryBudget({ firstDelayMs: 100 }, () => 0).next(), 50);
});
