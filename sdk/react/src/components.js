// The components: a lane with all that it holds, a tool call, a thought, a failure. They show what they are given and ask no frontend.
import { createElement as h, useState, useSyncExternalStore } from "react";

const STATES = { running: "working", done: "done", failed: "failed", waiting: "waits for a reply", stopped: "stopped" };
const MARKS = { running: "◌", done: "✓", failed: "✗", waiting: "?", stopped: "■" };

/** Follows a store. */
export function useStore(store) {
  useSyncExternalStore(store.subscribe, () => store.version, () => store.version);
  return store;
}

/** A box with a head that opens and closes it. */
export function Box({ kind, name, status, mark = MARKS[status], label = STATES[status], initiallyOpen = false, children, ...rest }) {
  const [isOpen, setOpen] = useState(initiallyOpen);
  const head = h(
    "button",
    { type: "button", className: "aq-head", "aria-expanded": isOpen, onClick: () => setOpen(!isOpen) },
    h("span", { className: "aq-mark", "aria-hidden": true }, mark),
    h("span", { className: "aq-name" }, name),
    h("span", { className: "aq-status" }, label),
  );
  return h("div", { className: `aq-box aq-${kind}`, "data-status": status, ...rest }, head, isOpen && h("div", { className: "aq-body" }, children));
}

/** The work of a sub-agent, with that of its own sub-agents inside. */
export function Lane({ name, status, error, description, open = true, children }) {
  const about = description && h("p", { className: "aq-about", key: "about" }, description);
  const failure = error && h(Failure, { key: "failure", message: error });
  return h(Box, { kind: "lane", name, status, initiallyOpen: open, "data-lane": name }, about, children, failure);
}

/** A tool call: its name and how it went; arguments and result inside. */
export function Tool({ name, args, result, isError = false, status = result === undefined ? "running" : isError ? "failed" : "done" }) {
  const shown = typeof args === "string" ? args : args === undefined ? "" : JSON.stringify(args);
  return h(
    Box,
    { kind: "tool", name, status, "data-tool": name },
    shown !== "" && shown !== "{}" && h("pre", { className: "aq-args" }, shown),
    result !== undefined && h("pre", { className: "aq-result" }, typeof result === "string" ? result : JSON.stringify(result)),
  );
}

export function Thought({ text, isActive = false }) {
  return h(Box, { kind: "thought", name: isActive ? "Thinking" : "Thought", mark: "…", label: "" }, h("p", { className: "aq-words" }, text));
}

export function Words({ text }) {
  return h("p", { className: "aq-words" }, text);
}

export function Failure({ message, code }) {
  return h("div", { className: "aq-failure", role: "alert" }, h("strong", null, "Failed: "), message, code && h("code", null, ` ${code}`));
}

/** A lane of a store, by its id. `renderText` shows words by other means, such as Markdown. */
export function StoredLane({ store, id, renderText = (text) => h(Words, { text }) }) {
  useStore(store);
  const lane = store.lanes.get(id);
  if (lane === undefined) return null;
  const shown = lane.items.map((item) => h("div", { key: `${item.kind}-${item.id}` }, itemOf(store, lane, item, renderText)));
  return h(Lane, lane, shown);
}

function itemOf(store, lane, { kind, id, text }, renderText) {
  switch (kind) {
    case "lane":
      return h(StoredLane, { store, id, renderText });
    case "tool": {
      const tool = store.tools.get(id);
      const ended = tool.result === undefined && lane.status !== "running" ? { status: "stopped" } : {};
      return h(Tool, { ...tool, ...ended });
    }
    case "thought":
      return h(Thought, { text });
    case "notice":
      return h("p", { className: "aq-notice" }, text);
    default:
      return text.trim() === "" ? null : renderText(text);
  }
}
