// Small helpers over the DOM. Text goes in as text nodes, never as markup.

/** Characters that turn the direction of what follows, so that text can look like another text. */
const DIRECTION = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;
/** Other invisible characters. */
const UNSEEN = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F\u200B\u2060\uFEFF]/g;

const named = (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** Text with invisible characters written out. */
export function visible(text) {
  return text.replace(DIRECTION, named).replace(UNSEEN, named);
}

/** An element: `el("p", { class: "x", text: "hello" }, child, …)`. */
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [type, listen] of Object.entries(value)) node.addEventListener(type, listen);
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Sets the text of a node only if it is another: an unchanged node costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** For `JSON.stringify`: numbers without the noise of binary fractions. */
export const clean = (_, value) => (typeof value === "number" ? Number(number(value)) : value);

/** JSON for people; what is no JSON stays as it is. */
export function pretty(value, replacer = undefined) {
  if (typeof value !== "string") return JSON.stringify(value, replacer, 2);
  try {
    const parsed = JSON.parse(value);
    return typeof parsed === "object" && parsed !== null ? JSON.stringify(parsed, replacer, 2) : value;
  } catch {
    return value;
  }
}

/** Characters of one text node, where words are long: Chromium needs 15 s to break one of 100,000 letters into lines,
 *  and half a second for the same in nodes of this length. */
const NODE_MOST = 1000;

/** The length of the word in which a text ends, and whether any of its words is longer than a node; `before` is the
 *  length of the word that it goes on with. */
export function words(text, before = 0) {
  let [run, isLong] = [before, false];
  for (let at = 0; at < text.length; at += 1) {
    run = text.charCodeAt(at) <= 32 ? 0 : run + 1;
    if (run > NODE_MOST) isLong = true;
  }
  return { run, isLong };
}

/** A text in pieces of one node each; no character is split. */
export function pieces(text) {
  const found = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + NODE_MOST);
    if (end < text.length && text.charCodeAt(end - 1) >= 0xd800 && text.charCodeAt(end - 1) <= 0xdbff) end -= 1;
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}

/** Puts text of any shape into an element. */
export function fill(node, text) {
  const { isLong } = words(text);
  node.classList.toggle("unbroken", isLong);
  node.replaceChildren(...(isLong ? pieces(text) : [text]));
  return node;
}

/** A text cut to a length, with a sign that it was cut. */
export function cut(text, length) {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** A number for people: without the noise of binary fractions. The raw event has it as it came. */
export function number(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(12)));
}

/** "1 agent", "2 agents". */
export function count(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

export function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** A file for the user to keep. */
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
