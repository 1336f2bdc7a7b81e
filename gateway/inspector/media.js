// A value as what it is: a picture, Markdown, a table, a tree. Nothing is fetched; pictures are those whose bytes came along.

import { a2uiView, operationsOf } from "./a2ui.js";
import { clean, cut, el, fill, number, pretty, visible } from "./dom.js";
import { render, safeTarget } from "./markdown-dom.js";

/** Longer values are cut in the conversation; the raw event has them whole. */
const VALUE_MOST = 20_000;
/** Rows and columns of a table that are made. */
const ROWS_MOST = 200;
const COLUMNS_MOST = 20;
/** Members of one value of a tree that are listed. */
const MEMBERS_MOST = 200;

/** Pictures that a browser draws from bytes. An SVG in an `img` runs no script and loads nothing. */
const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/i;

/** A piece of JSON or text, as it is. */
export function plain(content) {
  return el("pre", { dir: "ltr", tabindex: "0" }, fill(el("code"), visible(cut(pretty(content ?? null, clean), VALUE_MOST))));
}

/** Any value: a surface, a table if it is one, else a tree or text. */
export function valueNode(content) {
  if (operationsOf(content)) return a2uiView(operationsOf(content));
  const table = tableOf(content);
  if (table) return tableNode(table);
  return typeof content === "object" && content !== null ? el("div", { class: "tree" }, treeNode("", content, 0)) : plain(content);
}

/** `{ head, rows }` for a list of flat objects, a list of lists, or `{ columns, rows }`. Pure. */
export function tableOf(content) {
  const isFlat = (value) => typeof value !== "object" || value === null;
  if (Array.isArray(content?.rows) && Array.isArray(content.columns) && content.rows.every(Array.isArray)) return { head: content.columns.map(String), rows: content.rows };
  if (!Array.isArray(content) || content.length === 0) return undefined;
  if (!content.every((row) => typeof row === "object" && row !== null && !Array.isArray(row) && Object.values(row).every(isFlat))) return undefined;
  const head = [...new Set(content.slice(0, ROWS_MOST).flatMap((row) => Object.keys(row)))].slice(0, COLUMNS_MOST);
  return head.length === 0 ? undefined : { head, rows: content.map((row) => head.map((name) => (Object.hasOwn(row, name) ? row[name] : ""))) };
}

/** Rows of comma-separated values; quotes may hold commas and line breaks. Pure. */
export function readCsv(text) {
  const rows = [[]];
  for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === "") break;
    if (end !== ",") rows.push([]);
  }
  const full = rows.filter((row) => row.length > 1 || row[0] !== "");
  return full.length > 1 ? { head: full[0], rows: full.slice(1) } : undefined;
}

const cell = (value) => (typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value) ?? "");

function tableNode({ head, rows }) {
  const shown = rows.slice(0, ROWS_MOST);
  const more = rows.length > ROWS_MOST ? el("p", { class: "meta", text: `${rows.length - ROWS_MOST} more rows` }) : undefined;
  return el("div", { class: "table", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col", text: visible(cell(name)) })))),
    el("tbody", {}, ...shown.map((row) => el("tr", {}, ...row.map((value) => el("td", { dir: "auto", text: visible(cut(cell(value), 500)) })))))), more);
}

function treeNode(key, value, depth) {
  const name = key === "" ? undefined : el("span", { class: "key", text: visible(String(key)) });
  if (typeof value !== "object" || value === null) return el("div", { class: "leaf" }, name, el("span", { class: `value ${value === null ? "null" : typeof value}`, text: typeof value === "number" ? number(value) : visible(cut(JSON.stringify(value) ?? "", 2000)) }));
  const entries = Object.entries(value);
  const node = el("details", { open: depth < 2 }, el("summary", {}, name, el("span", { class: "meta", text: Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}` })));
  // A closed branch is not made.
  const make = () => {
    if (!node.open || node.childElementCount > 1) return;
    node.append(...entries.slice(0, MEMBERS_MOST).map(([name, item]) => treeNode(name, item, depth + 1)));
    if (entries.length > MEMBERS_MOST) node.append(el("p", { class: "meta", text: `${entries.length - MEMBERS_MOST} more` }));
  };
  make();
  node.addEventListener("toggle", make);
  return node;
}

/** Base64 as text; undefined if it is none. */
function textOf(data) {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

/** What is inside a file, if it came along and is of a kind that can be shown. */
export function fileContent({ data, mediaType, name }) {
  if (typeof data !== "string" || data === "") return undefined;
  const type = String(mediaType ?? "").split(";")[0].trim().toLowerCase();
  if (PICTURES.test(type) && /^[A-Za-z0-9+/=\s]+$/.test(data)) return el("img", { class: "picture", src: `data:${type};base64,${data.replace(/\s/g, "")}`, alt: visible(String(name ?? "picture")) });
  const text = /^text\/|json|xml|yaml|toml|javascript/.test(type) ? textOf(data) : undefined;
  return text === undefined ? undefined : textContent(text, type);
}

function textContent(text, type) {
  if (type === "text/markdown") return el("div", { class: "prose" }, render(text.slice(0, VALUE_MOST)));
  const table = type === "text/csv" ? readCsv(text.slice(0, VALUE_MOST * 5)) : undefined;
  if (table) return tableNode(table);
  if (!type.includes("json")) return plain(text);
  try {
    return valueNode(JSON.parse(text));
  } catch {
    return plain(text);
  }
}

/** A file: its name, its address if it has a safe one, and what is inside. */
export function fileNode(value) {
  const { url, name: title, mediaType, data } = value ?? {};
  const href = url === undefined ? undefined : safeTarget(url);
  const shownName = visible(cut(String(title ?? url ?? "file"), 200));
  const shown = href ? el("a", { href, rel: "noopener noreferrer", target: "_blank", text: shownName }) : el("span", { text: shownName });
  const size = typeof data === "string" ? ` · ${Math.round((data.length * 3) / 4)} bytes` : "";
  return el("div", { class: "file-body" }, el("p", { class: "row" }, el("span", { class: "label", text: "File" }), shown, el("span", { class: "meta", text: visible(cut(`${mediaType ?? ""}${size}`, 200)) })), fileContent(value ?? {}));
}
