// The real AG-UI client of one version as the frontend of a gateway, for many cases in one process.
//
//   node frontend.mjs --project <folder with node_modules>
//
// Reads cases from standard input, one JSON object per line, and begins each when it is read:
//   {"name", "url": "<gateway>/agents/<name>", "turns": [text, ...], "stop"?: {"at": text, "by": "abort" | "cancel"}}
// A turn is what the user says, or {"text", "image": <base64 of a PNG>}; a question that waits is answered with it, by
// `resume` where the client knows of it. "thread"? is the id of the thread.
// `stop` ends the turn once the client holds a text that begins with `at`, by leaving it (`abortRun`) or by the gateway's cancel endpoint.
//
// Writes one verdict per case when it is over: {"name", "turns": [what the client holds after each], "warnings"}.
// Of a turn that was stopped it also says when.
//   {"name", "url", "ended": <run>}
// asks how the gateway's log of a run ends. That is a case of its own: whoever asks watches the run, and a run that is
// watched is not left.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { told } from "./told.mjs";

const { values: options } = parseArgs({ options: { project: { type: "string" } } });
const { HttpAgent } = createRequire(join(options.project, "node_modules/x.js"))("@ag-ui/client");

const warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = console.warn;

/** Lets the user speak; answers what waits. */
function speak(agent, said, id) {
  const text = said.text ?? said;
  const pending = agent.pendingInterrupts ?? [];
  if (pending.length > 0) return { resume: pending.map(({ id: interruptId }) => ({ interruptId, status: "resolved", payload: text })) };
  agent.addMessage({ id, role: "user", content: said.image ? [{ type: "text", text }, picture(said.image)] : text });
  return {};
}

/** A PNG as a part of a message. */
const picture = (value) => ({ type: "image", source: { type: "data", value, mimeType: "image/png" } });

/** How a run ended, as anybody reads it who comes later. */
async function lastEvent(url, runId) {
  const events = await fetch(new URL(`/runs/${encodeURIComponent(runId)}/events?protocolVersion=1.0`, url));
  const payloads = (await events.text()).split("\n").filter((line) => line.startsWith("data: "));
  return JSON.parse(payloads.at(-1).slice("data: ".length));
}

async function turn(agent, testCase, number) {
  const runId = `${testCase.name}-${number}`;
  const seen = { runId, customs: [], ends: [], error: null, stoppedAt: null };
  // By id, not by place: a result of an earlier call stands beside that call.
  const held = new Set(agent.messages.map(({ id }) => id));
  const added = () => agent.messages.filter(({ id }) => !held.has(id));
  const parameters = speak(agent, testCase.turns[number], `said-${runId}`);
  const { stop } = testCase;
  const isReached = () => added().some(({ role, content }) => role === "assistant" && content?.startsWith?.(stop.at));
  const subscriber = {
    onEvent({ event }) {
      if (event.type === "CUSTOM") seen.customs.push({ name: event.name, value: event.value });
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") seen.ends.push(event);
    },
    onMessagesChanged() {
      if (!stop || seen.stoppedAt !== null || !isReached()) return;
      seen.stoppedAt = Date.now();
      if (stop.by === "abort") agent.abortRun();
      else fetch(new URL(`/runs/${encodeURIComponent(runId)}/cancel`, testCase.url), { method: "POST" });
    },
  };
  try {
    await agent.runAgent({ runId, ...parameters }, subscriber);
  } catch (error) {
    seen.error = String(error.message ?? error);
  }
  seen.messages = told(added(), agent.messages);
  seen.questions = (agent.pendingInterrupts ?? []).map(({ message, reason }) => ({ message, reason }));
  return seen;
}

async function play(testCase) {
  const turns = testCase.ended ? [await lastEvent(testCase.url, testCase.ended)] : await talk(testCase);
  process.stdout.write(`${JSON.stringify({ name: testCase.name, turns, warnings: warnings.splice(0) })}\n`);
}

async function talk(testCase) {
  const agent = new HttpAgent({ url: testCase.url, threadId: testCase.thread ?? `thread-${testCase.name}` });
  const turns = [];
  for (const number of testCase.turns.keys()) turns.push(await turn(agent, testCase, number));
  return turns;
}

for await (const line of createInterface({ input: process.stdin })) play(JSON.parse(line));
