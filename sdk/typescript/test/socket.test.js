// A socket that is cut, against a server that is a script.
import assert from "node:assert/strict";
import { test } from "node:test";
import { GatewaySocket } from "../src/socket.js";

/** A WebSocket in memory: `server(message, socket)` answers what is sent. */
function sockets(server) {
  const opened = [];
  class Fake {
    readyState = 0;
    constructor(url, protocols) {
      Object.assign(this, { url, protocols, sent: [] });
      opened.push(this);
      queueMicrotask(() => {
        this.readyState = 1;
        this.onopen();
      });
    }
    send(text) {
      const message = JSON.parse(text);
      this.sent.push(message);
      queueMicrotask(() => server(message, this, opened.length));
    }
    say(message) {
      if (this.readyState === 1) this.onmessage({ data: JSON.stringify(message) });
    }
    close(code = 1006, reason = "") {
      if (this.readyState === 3) return;
      this.readyState = 3;
      this.onclose({ code, reason });
    }
  }
  return { WebSocket: Fake, opened };
}

const event = (run, number, delta, more) => ({ type: "event", run, number, data: { delta }, ...more });
const RETRY = { firstDelayMs: 1, maxDelayMs: 2 };

/** Runs `inputs` on one socket; gives what each sink got, and the sockets. */
async function play(server, inputs, config = {}) {
  const { WebSocket, opened } = sockets(server);
  const socket = new GatewaySocket({ url: "ws://gateway/ws", WebSocket, retry: RETRY, ...config });
  const runs = inputs.map((input) => {
    const got = [];
    const ended = new Promise((resolve) => {
      const sink = { event: ({ delta }) => got.push(delta), end: () => resolve({ got }), fail: (error) => resolve({ got, error }) };
      socket.start({ agent: "a", input, protocolVersion: input.protocolVersion }, sink);
    });
    return ended;
  });
  const results = await Promise.all(runs);
  socket.close();
  return { results, opened };
}

test("a socket that is lost in mid-run is watched behind the last payload, and nothing comes twice", async () => {
  const { results, opened } = await play((message, socket) => {
    if (message.type === "start") {
      socket.say({ type: "started", ref: message.ref, run: "r1" });
      socket.say(event("r1", 1, "a"));
      socket.say(event("r1", 2, "b", { more: true }));
      return socket.close();
    }
    assert.deepEqual({ type: message.type, run: message.run, after: message.after }, { type: "watch", run: "r1", after: 1 });
    socket.say({ type: "watching", ref: message.ref, run: "r1" });
    socket.say(event("r1", 2, "b", { more: true }));
    socket.say(event("r1", 2, "c", { k: 1 }));
    socket.say({ type: "ended", ref: message.ref, run: "r1", number: 2 });
  }, [{ runId: "r1", protocolVersion: "1.0" }]);
  assert.deepEqual(results[0].got, ["a", "b", "c"]);
  assert.equal(opened.length, 2);
});

test("several runs share a socket and are separated", async () => {
  const { results, opened } = await play((message, socket) => {
    const run = message.input.runId;
    socket.say({ type: "started", ref: message.ref, run });
    socket.say(event(run, 1, run));
    if (run === "r2") for (const [ref, id] of [["r1", "r1"], ["r2", "r2"]]) socket.say({ type: "ended", ref, run: id, number: 1 });
  }, [{ runId: "r1" }, { runId: "r2" }]);
  assert.deepEqual(results.map(({ got }) => got), [["r1"], ["r2"]]);
  assert.equal(opened.length, 1);
});

test("a start without an answer is looked for, and begun again only if it is not there", async () => {
  for (const isThere of [true, false]) {
    const { results, opened } = await play((message, socket, at) => {
      if (at === 1) return socket.close();
      if (message.type === "watch" && !isThere) return socket.say({ type: "error", ref: message.ref, code: "not_found", message: "no such run" });
      socket.say({ type: message.type === "watch" ? "watching" : "started", ref: message.ref, run: "r1" });
      socket.say(event("r1", 1, "a"));
      socket.say({ type: "ended", ref: message.ref, run: "r1", number: 1 });
    }, [{ runId: "r1" }]);
    assert.deepEqual(results[0].got, ["a"]);
    assert.deepEqual(opened[1].sent.map(({ type }) => type), isThere ? ["watch"] : ["watch", "start"]);
  }
});

test("refusals, gone events and a gateway that stays away are errors with what is known", async () => {
  const refused = (message, socket) => socket.say({ type: "error", ref: message.ref, code: "not_found", message: "no such agent" });
  assert.equal((await play(refused, [{ runId: "r1" }])).results[0].error.code, "not_found");
  const gone = (message, socket) => socket.say({ type: "gone", ref: message.ref, run: "r1", earliest: 7 });
  assert.equal((await play(gone, [{ runId: "r1", protocolVersion: "1.0" }])).results[0].error.earliest, 7);
  const away = await play((_, socket) => socket.close(), [{ runId: "r1" }], { retry: { ...RETRY, attempts: 3 } });
  assert.match(away.results[0].error.message, /cannot be reached/);
  assert.equal(away.opened.length, 4);
});

test("a token is offered as a subprotocol", async () => {
  const { opened } = await play((message, socket) => socket.say({ type: "error", ref: message.ref, code: "x", message: "" }), [{ runId: "r1" }], { token: "secret" });
  assert.deepEqual(opened[0].protocols, ["aqueduct.v1.json", "aqueduct.bearer.secret"]);
});
