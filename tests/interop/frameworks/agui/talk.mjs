// One conversation of a real AG-UI client with an agent, and what the client holds after each turn.
//
// A turn of a scenario (`matrix.json`) is one of
//   {"say": text | parts}     the user speaks
//   {"reply": true}           the user approves what waits: by `resume` where the client holds an interrupt, by the tool
//                             result where a call is open, else in words
//   {"result": text}          the frontend answers the calls that are open
// With `record`, the request and the raw response of a turn are kept in `turn.exchange`.
import { createRequire } from "node:module";
import { join } from "node:path";

/** Loads `HttpAgent` of the client that is installed in a folder. */
export function loadClient(project) {
  return createRequire(join(project, "node_modules/x.js"))("@ag-ui/client").HttpAgent;
}

/** Approval as each framework wants it, where the interrupt carries no schema that says so. */
function approval(interrupt) {
  const properties = interrupt.responseSchema?.properties ?? {};
  const flags = Object.entries(properties).filter(([, schema]) => schema.type === "boolean");
  if (flags.length > 0) return Object.fromEntries(flags.map(([key]) => [key, true]));
  return { approved: true };
}

function openCalls(messages) {
  const answered = new Set(messages.filter(({ role }) => role === "tool").map(({ toolCallId }) => toolCallId));
  return messages.flatMap(({ toolCalls = [] }) => toolCalls).filter(({ id }) => !answered.has(id));
}

/** Adds to the agent what the turn says; returns the parameters of the run. */
function prepare(agent, turn, id, customs) {
  if ("say" in turn) {
    agent.addMessage({ id, role: "user", content: turn.say });
    return {};
  }
  if ("result" in turn) {
    for (const call of openCalls(agent.messages)) agent.addMessage({ id: `${id}-${call.id}`, role: "tool", toolCallId: call.id, content: turn.result });
    return {};
  }
  const pending = agent.pendingInterrupts ?? [];
  if (pending.length > 0) return { resume: pending.map((one) => ({ interruptId: one.id, status: "resolved", payload: approval(one) })) };
  const words = turn.words ?? "yes";
  if (customs.some(({ name }) => name === "on_interrupt")) return { forwardedProps: { command: { resume: words } } };
  if (turn.open) {
    for (const call of openCalls(agent.messages)) agent.addMessage({ id: `${id}-${call.id}`, role: "tool", toolCallId: call.id, content: turn.open });
    return {};
  }
  agent.addMessage({ id, role: "user", content: words });
  return {};
}

/** Messages without ids: what they say, and to which tool a result belongs. Results stand behind their calls, in the calls' order. */
export function contents(messages) {
  return behindCalls(messages).map(inShort(messages));
}

/** Results of parallel calls come in any order, and a snapshot may put them elsewhere in the client. */
function behindCalls(messages) {
  const results = new Map(messages.filter(({ role }) => role === "tool").map((message) => [message.toolCallId, message]));
  const placed = messages.filter((message) => message.role !== "tool" || results.get(message.toolCallId) !== message);
  for (const [id, result] of results) {
    const owner = placed.findIndex(({ toolCalls = [] }) => toolCalls.some((call) => call.id === id));
    if (owner < 0) placed.push(result);
    else placed.splice(owner + 1 + before(placed[owner].toolCalls, id, results), 0, result);
  }
  return placed;
}

/** How many results of earlier calls of the same message stand behind it already. */
function before(calls, id, results) {
  const known = [...results.keys()];
  return calls.slice(0, calls.findIndex((call) => call.id === id)).filter((call) => results.has(call.id) && known.indexOf(call.id) < known.indexOf(id)).length;
}

function inShort(messages) {
  const calls = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => [call.id, call.function.name])));
  return ({ role, content, toolCalls, toolCallId, error }) => ({
    role,
    ...(content ? { content } : {}),
    ...(toolCalls?.length ? { calls: toolCalls.map((call) => ({ name: call.function.name, arguments: json(call.function.arguments) })) } : {}),
    ...(toolCallId ? { of: calls.get(toolCallId) ?? `unknown call ${toolCallId}` } : {}),
    ...(error ? { error } : {}),
  });
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Keeps a copy of what is asked and answered. */
function keep(response, { body: request }, seen) {
  const [mine, theirs] = response.body.tee();
  seen.exchange = { request, response: new Response(mine).text().catch((error) => `!! ${error}`) };
  return new Response(theirs, { status: response.status, headers: response.headers });
}

/** Runs one turn; returns what the client saw and holds. */
async function take(agent, turn, id, last, record) {
  const seen = { customs: [], types: [], runError: null, error: null, outcome: null, warnings: [], exchange: null };
  const parameters = prepare(agent, turn, id, last?.customs ?? []);
  const held = console.warn;
  const real = globalThis.fetch;
  console.warn = console.error = (...words) => seen.warnings.push(words.map(String).join(" ").slice(0, 300));
  if (record) globalThis.fetch = async (url, request) => keep(await real(url, request), request, seen);
  try {
    await agent.runAgent({ runId: `run-${id}`, ...parameters }, {
      onEvent({ event }) {
        seen.types.push(event.type);
        if (event.type === "CUSTOM") seen.customs.push({ name: event.name, value: event.value });
        if (event.type === "RUN_ERROR") seen.runError = event.message;
        if (event.type === "RUN_FINISHED") seen.outcome = event.outcome?.type ?? "success";
      },
    });
  } catch (error) {
    seen.error = String(error.message ?? error);
  } finally {
    globalThis.fetch = real;
    console.warn = console.error = held;
  }
  if (seen.exchange) seen.exchange.response = await seen.exchange.response;
  seen.questions = (agent.pendingInterrupts ?? []).map(({ message, reason, metadata, toolCallId }) => ({ message, reason, metadata, toolCallId }));
  seen.raw = structuredClone(agent.messages);
  seen.messages = contents(agent.messages);
  seen.state = structuredClone(agent.state);
  return seen;
}

/** Plays the turns of a scenario in one thread. */
export async function talk(HttpAgent, url, threadId, { turns, tools = [], state, record = false }) {
  const agent = new HttpAgent({ url, threadId, initialState: state ?? {} });
  const taken = [];
  for (const [number, turn] of turns.entries()) taken.push(await takeWithTools(agent, turn, `${threadId}-${number}`, taken.at(-1), { tools, record }));
  return taken;
}

async function takeWithTools(agent, turn, id, last, { tools, record }) {
  const run = agent.runAgent.bind(agent);
  agent.runAgent = (parameters, subscriber) => run({ tools, ...parameters }, subscriber);
  try {
    return await take(agent, turn, id, last, record);
  } finally {
    delete agent.runAgent;
  }
}
