// A tree of `markdown.js` as DOM nodes, and text that grows.
//
// Text becomes text nodes only. A link goes to http, https or mailto, in a new tab that cannot reach back; any other
// target is shown as text.

import { el, fill, pieces, visible, words } from "./dom.js";
import { parse, settled } from "./markdown.js";

/** While it grows, a piece this long is appended to as plain text: to parse it for every word would cost its square. */
const TAIL_MOST = 6000;
/** An unfinished piece longer than this stays plain. */
const PARSE_MOST = 200_000;

/** A node of plain text grows up to this. */
const NODE_GROWS = 1000;

const SAFE = new Set(["http:", "https:", "mailto:"]);

/** The address if a link may go there. */
export function safeTarget(target) {
  try {
    const url = new URL(target);
    return SAFE.has(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

export function render(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...parse(text).map(block));
  return fragment;
}

function block(node) {
  switch (node.kind) {
    case "heading":
      // The page has headings of its own above these.
      return el(`h${Math.min(6, node.level + 2)}`, { dir: "auto" }, ...runs(node.children));
    case "code":
      return el("pre", { dir: "ltr", tabindex: "0" }, fill(el("code", { "data-language": node.language || null }), visible(node.text)));
    case "quote":
      return el("blockquote", {}, ...node.children.map(block));
    case "rule":
      return el("hr");
    case "list":
      return el(node.ordered ? "ol" : "ul", { start: node.start === 1 ? null : node.start }, ...node.items.map(item));
    case "table":
      return el("div", { class: "table" }, el("table", {},
        el("thead", {}, el("tr", {}, ...node.head.map((cell) => el("th", { dir: "auto" }, ...runs(cell))))),
        el("tbody", {}, ...node.rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", { dir: "auto" }, ...runs(cell))))))));
    default:
      return el("p", { dir: "auto" }, ...runs(node.children));
  }
}

/** An item of one paragraph needs no paragraph. */
function item(blocks) {
  const [first, ...rest] = blocks;
  if (first?.kind !== "paragraph") return el("li", { dir: "auto" }, ...blocks.map(block));
  return el("li", { dir: "auto" }, ...runs(first.children), ...rest.map(block));
}

const TAGS = { strong: "strong", emphasis: "em", strike: "del" };

function runs(children) {
  return children.flatMap((run) => {
    if (run.kind === "text") return pieces(visible(run.text));
    if (run.kind === "code") return el("code", { text: visible(run.text) });
    if (run.kind !== "link") return el(TAGS[run.kind], {}, ...runs(run.children));
    const href = safeTarget(run.target);
    if (href === undefined) return el("span", { class: "dead", title: "this link leads nowhere safe" }, ...runs(run.children), ` (${visible(run.target)})`);
    return el("a", { href, rel: "noopener noreferrer", target: "_blank", title: visible(href) }, ...runs(run.children));
  });
}

/** Markdown that grows: what is settled is parsed once, the rest again for every frame while it is short. */
export class GrowingText {
  #settled = 0;
  #shown = 0;
  #tail;
  #plain;
  #word = 0;

  constructor(parent) {
    this.parent = parent;
    this.#tail = el("div", { class: "tail" });
    parent.append(this.#tail);
  }

  update(text, isOver) {
    const { run, isLong } = words(text.slice(this.#shown), this.#word);
    this.#word = run;
    if (isLong) this.parent.classList.add("unbroken");
    this.#show(text, isOver);
    this.#shown = text.length;
  }

  #show(text, isOver) {
    const end = isOver && text.length - this.#settled < PARSE_MOST ? text.length : settled(text, this.#settled);
    if (end > this.#settled) {
      this.#tail.before(render(text.slice(this.#settled, end)));
      this.#settled = end;
      this.#plain = undefined;
      this.#tail.replaceChildren();
    }
    const rest = text.length - this.#settled;
    if (rest === 0) return;
    if (rest <= TAIL_MOST) {
      this.#tail.replaceChildren(render(text.slice(this.#settled)));
      this.#plain = undefined;
    } else if (this.#plain === undefined) {
      this.#plain = el("p", { class: "plain", dir: "auto" }, ...pieces(visible(text.slice(this.#settled))));
      this.#tail.replaceChildren(this.#plain);
    } else this.#append(visible(text.slice(this.#shown)));
  }

  /** Words go to the last node while it is short; what is there already is not touched. */
  #append(text) {
    const last = this.#plain.lastChild;
    if (last.length + text.length <= NODE_GROWS) last.appendData(text);
    else this.#plain.append(...pieces(text));
  }
}
