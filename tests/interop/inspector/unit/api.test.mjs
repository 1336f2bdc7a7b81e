// How the page follows a stream over connections that break, against a gateway made of functions.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../../../gateway/inspector/api.js";

const event = (n) => `id: r.${n}.1\ndata: {"type":"${n === 6 ? "RUN_FINISHED" : "RAW"}","n":${n}}\n\n`;

/** A response with these frames. */
function response(frames) {
  return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
}

async function follow(answers) {
  const asked = [];
  globalThis.fetch = async (url, { headers, method }) => {
    asked.push([method ?? "GET", url.pathname.split("/").slice(-3).join("/"), headers.get("last-event-id"), headers.get("authorization")]);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const seen = [];
  const api = new Api({ token: "secret" });
  await api.start("a", { runId: "r" }, (frame) => frame.reconnecting || seen.push(JSON.parse(frame.data).n));
  return { asked, seen };
}

test("a stream that ends without its terminal event is taken up after the last id", async () => {
  const { asked, seen } = await follow([response([event(1), event(2)]), new TypeError("no network"), response([event(3)]), response([event(4), event(5), event(6)])]);
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(asked.map(([method, , last]) => [method, last]), [["POST", null], ["GET", "r.2.1"], ["GET", "r.2.1"], ["GET", "r.3.1"]]);
  assert.ok(asked.every(([, , , token]) => token === "Bearer secret"));
});

test("a run that is gone is told, and not asked for again", async () => {
  const gone = new Response(JSON.stringify({ error: { message: "there is no such run" } }), { status: 404 });
  await assert.rejects(follow([response([event(1)]), gone]), /no such run/);
});

test("a refusal says what the gateway said", async () => {
  await assert.rejects(follow([new Response("{\"error\":{\"message\":\"send a token\"}}", { status: 401 })]), (error) => error.status === 401 && error.message === "send a token");
  await assert.rejects(follow([new Response("oops", { status: 502 })]), /502/);
});

test("a stream that never gets further is given up", async () => {
  const answers = Array.from({ length: 6 }, () => new TypeError("no network"));
  await assert.rejects(follow([response([event(1)]), ...answers]), /does not answer/);
});
