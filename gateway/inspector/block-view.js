// One block of the conversation as DOM nodes: made once, then only changed where it grew.

import { clean, cut, duration, el, fill, setText, visible } from "./dom.js";
import { operationsOf } from "./a2ui.js";
import { GrowingText } from "./markdown-dom.js";
import { fileNode, plain, valueNode } from "./media.js";

const STATUS = { open: "running", done: "done", failed: "failed", suspended: "waiting", stopped: "stopped" };

function took(block) {
  if (block.start.at === undefined || block.end?.at === undefined) return "";
  return duration(block.end.at - block.start.at);
}

/** A name, which may be anything. */
const name = (text) => visible(cut(String(text), 200));

const VIEWS = {
  user(block, settings) {
    const again = el("button", { type: "button", class: "link quiet again", text: "Run again from here", title: "Starts a new thread with the messages before this one", on: { click: () => settings.onFork(block) } });
    const head = el("span", { class: "who row" }, el("span", { text: block.title }), el("span", { class: "gap" }), block.isAnswer ? undefined : again);
    return { node: el("div", { class: "block user" }, head, fill(el("p", { dir: "auto" }), visible(block.text))), update() {} };
  },

  question(block) {
    const answer = el("div", { class: "user answer", hidden: true });
    const node = el("div", { class: "block asked" }, el("span", { class: "who", text: "The agent asked" }), fill(el("p", { dir: "auto" }), visible(String(block.title))), answer);
    return {
      node,
      update() {
        answer.hidden = block.answer === undefined;
        if (block.answer !== undefined) answer.replaceChildren(el("span", { class: "who", text: "You answered" }), fill(el("p", { dir: "auto" }), visible(block.answer)));
      },
    };
  },

  text(block) {
    const body = el("div", { class: "prose" });
    const node = el("div", { class: "block text" });
    if ((block.title && block.title !== block.lane.name) || block.role !== "assistant") node.append(el("span", { class: "who", text: name(block.title || block.role) }));
    node.append(body);
    const growing = new GrowingText(body);
    return {
      node,
      update() {
        growing.update(block.text, block.status !== "open");
        node.classList.toggle("growing", block.status === "open");
        node.classList.toggle("replaced", block.replaced === true);
      },
    };
  },

  thinking(block, settings) {
    const body = el("div", { class: "prose" });
    const meta = el("span", { class: "meta" });
    const label = block.metadata?.["aqueduct.channel"] === "intermediate" ? "Working" : "Thinking";
    const node = el("details", { class: "block thinking", open: settings.thinking }, el("summary", {}, el("span", { class: "label", text: label }), meta), body);
    const growing = new GrowingText(body);
    return {
      node,
      update() {
        growing.update(block.text, block.status !== "open");
        node.classList.toggle("growing", block.status === "open");
        node.classList.toggle("replaced", block.replaced === true);
        setText(meta, block.status === "open" ? "…" : took(block));
      },
    };
  },

  tool(block) {
    const [preview, meta] = [el("code", { class: "preview", dir: "ltr" }), el("span", { class: "meta" })];
    const body = el("div", { class: "body" });
    const node = el("details", { class: "block tool" }, el("summary", {}, el("span", { class: "label", text: name(block.title) }), preview, meta), body);
    // The inside of a closed call is not made: a run may have thousands of them.
    let opened = false;
    const show = () => {
      if (!node.open) return;
      body.replaceChildren(el("h4", { text: "Arguments" }), plain(block.text || "{}"));
      body.append(el("h4", { text: "Result" }), block.result === undefined ? el("p", { class: "meta", text: block.status === "open" ? "not yet" : "none in this run" }) : plain(block.result));
    };
    node.addEventListener("toggle", show);
    return {
      node,
      update() {
        setText(preview, visible(cut(block.text.replace(/\s+/g, " "), 120)));
        const result = block.status === "open" ? (block.called ? "waiting for the result" : "arguments") : took(block);
        setText(meta, `${STATUS[block.status]}${result ? ` · ${result}` : ""}`);
        node.dataset.status = block.status;
        if (block.status === "failed" && !opened) node.open = opened = true;
        show();
      },
    };
  },

  activity: valueView,
  custom: (block) => (block.title === "aqueduct.file" ? { node: el("div", { class: "block file" }, fileNode(block.value)), update() {} } : valueView(block)),
  note: (block) => ({ node: el("p", { class: "block note" }, el("span", { class: "label", text: block.title }), ` ${visible(block.text)}`), update() {} }),

  step(block) {
    const meta = el("span", { class: "meta" });
    const node = el("p", { class: "block step" }, el("span", { class: "label", text: `Step ${name(block.title)}` }), meta);
    return { node, update: () => setText(meta, block.status === "open" ? "running" : took(block)) };
  },

  error: (block) => ({
    node: el("div", { class: "block error" }, el("strong", { text: "Run failed" }), el("code", { text: name(block.title) }), fill(el("p", { dir: "auto" }), visible(block.text))),
    update() {},
  }),

  end(block) {
    const words = { success: "Run finished", interrupt: "The run waits for an answer", cancelled: "Run stopped" };
    const node = el("div", { class: "block end" }, el("span", { text: words[block.title] ?? block.title }));
    node.dataset.outcome = block.title;
    if (block.value !== undefined) node.append(plain(block.value));
    return { node, update() {} };
  },

  lane(block) {
    const { child } = block;
    const meta = el("span", { class: "meta" });
    const body = el("div", { class: "lane-body" });
    const title = el("span", { class: "label", text: name(child.name) });
    const node = el("details", { class: `block lane hue-${child.index % 8}`, open: true, "aria-label": `Sub-agent ${name(child.name)}` }, el("summary", {}, el("span", { class: "dot" }), title, meta), body);
    if (child.about) title.title = name(child.about);
    let isShown = false;
    return {
      node,
      body,
      update() {
        node.dataset.status = child.status;
        const span = child.end && child.start.at !== undefined && child.end.at !== undefined ? ` · ${duration(child.end.at - child.start.at)}` : "";
        setText(meta, `${STATUS[child.status] ?? child.status}${span}`);
        if (child.problem && !isShown) body.append(el("p", { class: "block problem", dir: "auto", text: visible(child.problem) }));
        isShown = Boolean(child.problem);
      },
    };
  },
};

function valueView(block) {
  const body = el("div", { class: "body" });
  const node = el("details", { class: "block custom", open: operationsOf(block.value) !== undefined }, el("summary", {}, el("span", { class: "label", text: name(block.title) }), el("code", { class: "preview", dir: "ltr" })), body);
  const preview = node.querySelector(".preview");
  const show = () => node.open && body.replaceChildren(valueNode(block.value));
  node.addEventListener("toggle", show);
  return {
    node,
    update() {
      setText(preview, visible(cut(JSON.stringify(block.value, clean) ?? "", 120)));
      show();
    },
  };
}

/** `{ node, update, body }` for a block. */
export function viewOf(block, settings) {
  const view = VIEWS[block.kind](block, settings);
  view.node.dataset.n = block.n;
  return view;
}
