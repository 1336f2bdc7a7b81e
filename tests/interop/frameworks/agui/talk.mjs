// One conversation of a real AG-UI client with an agent, and what the client holds after each turn.
//
// A turn of a scenario (`matrix.json`) is one of
//   {"say": text | parts}     the user speaks
//   {"reply": true}           the user approves what waits: by `resume` where the client holds an interrupt, by the tool
//                             result where a call is open, else in words
//   {"result": text}          the frontend answers the calls that are open
// Requests and raw responses are kept in `turn.exchange`, so that a conversation can be stored as a recording.
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

/** Messages without ids: what they say, and to which tool a result belongs. */
export function contents(messages) {
  const calls = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => [call.id, call.function.name])));
  return messages.map(({ role, content, toolCalls, toolCallId, error }) => ({
    role,
    ...(content ? { content } : {}),
    ...(toolCalls?.length ? { calls: toolCalls.map((call) => ({ name: call.function.name, arguments: json(call.function.arguments) })) } : {}),
    ...(toolCallId ? { of: calls.get(toolCallId) ?? `unknown call ${toolCallId}` } : {}),
    ...(error ? { error } : {}),
  }));
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Runs one turn; returns what the client saw and holds. */
async function take(agent, turn, id, last) {
  const seen = { customs: [], types: [], runError: null, error: null, outcome: null, warnings: [], exchange: null };
  const parameters = prepare(agent, turn, id, last?.customs ?? []);
  const held = console.warn;
  const real = globalThis.fetch;
  console.warn = console.error = (...words) => seen.warnings.push(words.map(String).join(" ").slice(0, 300));
  globalThis.fetch = async (url, request) => {
    const response = await real(url, request);
    const [mine, theirs] = response.body.tee();
    seen.exchange = { request: request.body, response: new Response(mine).text().catch((error) => `!! ${error}`) };
    return new Response(theirs, { status: response.status, headers: response.headers });
  };
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
export async function talk(HttpAgent, url, threadId, { turns, tools = [], state }) {
  const agent = new HttpAgent({ url, threadId, initialState: state ?? {} });
  const taken = [];
  for (const [number, turn] of turns.entries()) taken.push(await takeWithTools(agent, turn, `${threadId}-${number}`, taken.at(-1), tools));
  return taken;
}

async function takeWithTools(agent, turn, id, last, tools) {
  const run = agent.runAgent.bind(agent);
  agent.runAgent = (parameters, subscriber) => run({ tools, ...parameters }, subscriber);
  try {
    return await take(agent, turn, id, last);
  } finally {
    delete agent.runAgent;
  }
}
