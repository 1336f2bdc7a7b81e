// One block of the conversation as DOM nodes: made once, then only changed where it grew.

import { cut, duration, el, fill, pretty, setText, visible } from "./dom.js";
import { GrowingText, safeTarget } from "./markdown-dom.js";

/** Longer values are cut in the conversation; the raw event has them whole. */
const VALUE_MOST = 20_000;

const STATUS = { open: "running", done: "done", failed: "failed", suspended: "waiting" };

function took(block) {
  if (block.start.at === undefined || block.end?.at === undefined) return "";
  return duration(block.end.at - block.start.at);
}

/** A piece of JSON or text, as it is. */
function value(content) {
  return el("pre", { dir: "ltr", tabindex: "0" }, fill(el("code"), visible(cut(pretty(content ?? null), VALUE_MOST))));
}

/** A name, which may be anything. */
const name = (text) => visible(cut(String(text), 200));

const VIEWS = {
  user: (block) => ({
    node: el("div", { class: "block user" }, el("span", { class: "who", text: block.title }), fill(el("p", { dir: "auto" }), visible(block.text))),
    update() {},
  }),

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
    const show = () => {
      if (!node.open) return;
      body.replaceChildren(el("h4", { text: "Arguments" }), value(block.text || "{}"));
      body.append(el("h4", { text: "Result" }), block.result === undefined ? el("p", { class: "meta", text: block.status === "open" ? "not yet" : "none in this run" }) : value(block.result));
    };
    node.addEventListener("toggle", show);
    return {
      node,
      update() {
        setText(preview, visible(cut(block.text.replace(/\s+/g, " "), 120)));
        const result = block.status === "open" ? (block.called ? "waiting for the result" : "arguments") : took(block);
        setText(meta, `${STATUS[block.status]}${result ? ` · ${result}` : ""}`);
        node.dataset.status = block.status;
        show();
      },
    };
  },

  activity: valueView,
  custom: (block) => (block.title === "aqueduct.file" ? fileView(block) : valueView(block)),
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
    const words = { success: "Run finished", interrupt: "The run waits for an answer", cancelled: "Run cancelled" };
    const node = el("div", { class: "block end" }, el("span", { text: words[block.title] ?? block.title }));
    node.dataset.outcome = block.title;
    if (block.value !== undefined) node.append(value(block.value));
    return { node, update() {} };
  },

  lane(block) {
    const { child } = block;
    const meta = el("span", { class: "meta" });
    const body = el("div", { class: "lane-body" });
    const title = el("span", { class: "label", text: name(child.name) });
    const node = el("details", { class: `block lane hue-${child.index % 8}`, open: true, "aria-label": `Sub-agent ${name(child.name)}` }, el("summary", {}, el("span", { class: "dot" }), title, meta), body);
    if (child.about) title.title = name(child.about);
    let told = false;
    return {
      node,
      body,
      update() {
        node.dataset.status = child.status;
        const span = child.end && child.start.at !== undefined && child.end.at !== undefined ? ` · ${duration(child.end.at - child.start.at)}` : "";
        setText(meta, `${STATUS[child.status] ?? child.status}${span}`);
        if (child.problem && !told) body.append(el("p", { class: "block problem", dir: "auto", text: visible(child.problem) }));
        told = Boolean(child.problem);
      },
    };
  },
};

function valueView(block) {
  const body = el("div", { class: "body" });
  const node = el("details", { class: "block custom" }, el("summary", {}, el("span", { class: "label", text: name(block.title) }), el("code", { class: "preview", dir: "ltr" })), body);
  const preview = node.querySelector(".preview");
  const show = () => node.open && body.replaceChildren(value(block.value));
  node.addEventListener("toggle", show);
  return {
    node,
    update() {
      setText(preview, visible(cut(JSON.stringify(block.value) ?? "", 120)));
      show();
    },
  };
}

function fileView(block) {
  const { url, name: title, mediaType, data } = block.value ?? {};
  const href = url === undefined ? undefined : safeTarget(url);
  const shownName = name(title ?? url ?? "file");
  const shown = href ? el("a", { href, rel: "noopener noreferrer", target: "_blank", text: shownName }) : el("span", { text: shownName });
  const size = typeof data === "string" ? ` · ${Math.round((data.length * 3) / 4)} bytes` : "";
  return { node: el("p", { class: "block file" }, el("span", { class: "label", text: "File" }), shown, el("span", { class: "meta", text: name(`${mediaType ?? ""}${size}`) })), update() {} };
}

/** `{ node, update, body }` for a block. */
export function viewOf(block, settings) {
  const view = VIEWS[block.kind](block, settings);
  view.node.dataset.n = block.n;
  return view;
}
