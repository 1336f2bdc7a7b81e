// LaneStore: what the sub-agents of a thread do, folded from its attributed AG-UI events.
//
//   SUBAGENT_STARTED ──► running ── SUBAGENT_FINISHED ──► done, or waiting if it is suspended
//                           │ ───── SUBAGENT_ERROR ─────► failed, or stopped if its code is `cancelled`
//                           └────── the run ends ───────► done (it succeeded), stopped (it did not)
//
// A lane is the work of one sub-agent. Its items are texts, thoughts, tool calls, notices and the lanes of its own sub-agents, in
// the order of their first event. Events that come again (a thread that is replayed) change nothing: a start empties what it starts.
//
// The store knows neither React nor a frontend.

const IS_ERROR = "aqueduct.isError";
const NOTICE = "aqueduct.notice";
/** Codes of a run that was stopped on purpose. */
const STOPPED = ["cancelled", "abort"];

export class LaneStore {
  /** Lanes by id. */
  lanes = new Map();
  /** Tool calls by id, of the agent itself and of all sub-agents. */
  tools = new Map();
  /** The lanes of the agent's own sub-agents, oldest first. */
  roots = [];
  /** How the last run failed: `{ message, code }`. */
  failure = undefined;
  /** Grows with every change: what a component compares. */
  version = 0;
  #listeners = new Set();

  /** Calls `listener` after every change, until the function that it returns is called. */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Takes the next event of the thread. */
  handle(event) {
    const fold = FOLDS[event.type];
    if (fold === undefined || fold(this, event) === false) return;
    this.version += 1;
    for (const listener of this.#listeners) listener();
  }

  /** Returns the lane of this id; creates it if no event has opened it. */
  lane(id, name, about = {}) {
    let lane = this.lanes.get(id);
    if (lane === undefined) {
      lane = { id, name: name ?? "agent", status: "running", items: [], parent: about.parentSubagentRunId };
      this.lanes.set(id, lane);
      if (lane.parent === undefined) this.roots.push(id);
      else this.item(lane.parent, "lane", id);
    } else if (name !== undefined) {
      lane.name = name;
    }
    return lane;
  }

  /** The item of this kind and id in a lane. Undefined for the agent itself, whose content the frontend shows. */
  item(laneId, kind, id) {
    if (laneId === undefined) return undefined;
    const { items } = this.lane(laneId);
    let item = items.find((item) => item.kind === kind && item.id === id);
    if (item === undefined) items.push((item = { kind, id, text: "" }));
    return item;
  }

  tool(event) {
    const { toolCallId: id, subagentRunId: lane } = event;
    let tool = this.tools.get(id);
    if (tool === undefined) {
      tool = { id, name: event.toolCallName ?? "tool", args: "", result: undefined, isError: false };
      this.tools.set(id, tool);
    }
    this.item(lane, "tool", id);
    return tool;
  }

  /** The lane that a lane hangs under at the top. */
  topOf(id) {
    const seen = new Set();
    for (let at = id; ; ) {
      const parent = this.lanes.get(at)?.parent;
      if (parent === undefined || seen.has(parent)) return at;
      seen.add(at);
      at = parent;
    }
  }

  /** Ends what still runs. */
  end(status) {
    for (const lane of this.lanes.values()) if (lane.status === "running") lane.status = status;
  }
}

const append = (kind) => (store, event) => {
  const item = store.item(event.subagentRunId, kind, event.messageId);
  if (item === undefined) return false;
  item.text += event.delta ?? "";
};

const begin = (kind) => (store, event) => {
  const item = store.item(event.subagentRunId, kind, event.messageId);
  if (item === undefined) return false;
  if (event.name !== undefined && store.lane(event.subagentRunId).name === "agent") store.lane(event.subagentRunId, event.name);
  item.text = "";
};

const FOLDS = {
  RUN_STARTED: (store) => void (store.failure = undefined),
  RUN_FINISHED: (store, { outcome }) => store.end(outcome?.type === "cancelled" ? "stopped" : "done"),
  RUN_ERROR(store, { message, code }) {
    store.end("stopped");
    if (!STOPPED.includes(code)) store.failure = { message, code };
  },
  SUBAGENT_STARTED(store, event) {
    const lane = store.lane(event.subagentRunId, event.name, event);
    Object.assign(lane, { status: "running", description: event.description ?? lane.description, error: undefined });
  },
  SUBAGENT_FINISHED(store, event) {
    const status = event.outcome?.type === "suspended" ? "waiting" : "done";
    Object.assign(store.lane(event.subagentRunId), { status, result: event.result });
  },
  SUBAGENT_ERROR(store, event) {
    const status = event.code === "cancelled" ? "stopped" : "failed";
    Object.assign(store.lane(event.subagentRunId), { status, error: event.message });
  },
  TEXT_MESSAGE_START: begin("text"),
  TEXT_MESSAGE_CONTENT: append("text"),
  TEXT_MESSAGE_CHUNK: append("text"),
  REASONING_MESSAGE_START: begin("thought"),
  REASONING_MESSAGE_CONTENT: append("thought"),
  REASONING_MESSAGE_CHUNK: append("thought"),
  TOOL_CALL_START(store, event) {
    Object.assign(store.tool(event), { name: event.toolCallName, args: "" });
  },
  TOOL_CALL_ARGS(store, event) {
    store.tool(event).args += event.delta;
  },
  TOOL_CALL_CHUNK(store, event) {
    store.tool(event).args += event.delta ?? "";
  },
  TOOL_CALL_RESULT(store, event) {
    const result = typeof event.content === "string" ? event.content : JSON.stringify(event.content);
    Object.assign(store.tool(event), { result, isError: event.metadata?.[IS_ERROR] === true });
  },
  CUSTOM(store, { name, value, subagentRunId }) {
    if (name !== NOTICE || subagentRunId === undefined) return false;
    store.item(subagentRunId, "notice", `notice-${store.version}`).text = value?.text ?? "";
  },
  MESSAGES_SNAPSHOT(store, { messages }) {
    const known = new Set(store.lanes.keys());
    for (const message of messages) restate(store, message, known);
  },
};

/** A message of a thread that is restated. A snapshot does not tell how sub-agents ended: what it restates has ended. */
function restate(store, message, known) {
  const { subagentRunId: lane, id, role, content } = message;
  for (const { id: toolCallId, function: { name, arguments: args } } of message.toolCalls ?? []) {
    if (lane !== undefined || !store.tools.has(toolCallId)) Object.assign(store.tool({ toolCallId, toolCallName: name, subagentRunId: lane }), { args });
  }
  if (role === "tool") {
    const isError = message.error !== undefined || message.metadata?.[IS_ERROR] === true;
    Object.assign(store.tool({ toolCallId: message.toolCallId, subagentRunId: lane }), { result: content, isError });
  }
  if (lane === undefined) return;
  const held = store.lane(lane, message.name);
  if (!known.has(lane)) held.status = "done";
  const kind = { assistant: "text", reasoning: "thought" }[role];
  if (kind !== undefined && typeof content === "string" && content !== "") store.item(lane, kind, id).text = content;
}
