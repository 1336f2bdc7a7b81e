// Markdown to a tree of plain objects. Nothing here touches the DOM, and no HTML is known: a tag is text.
//
// A small dialect: headings, lists, quotes, fenced code, rules, tables, paragraphs; the runs inside them are read in
// `inline.js`. Patterns look at the beginning of a line only, so hostile text costs time in proportion to its length.

import { inline } from "./inline.js";

/** Lists and quotes inside each other; deeper ones are text. */
const DEPTH_MOST = 12;
/** Marks of a block stand in the first characters of its line. */
const LINE_MOST = 400;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** The blocks of a text. */
export function parse(text, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    at = block(lines, at, blocks, depth);
  }
  return blocks;
}

function block(lines, at, blocks, depth) {
  const line = lines[at];
  if (line.trim() === "") return at + 1;
  if (line.length > LINE_MOST && !ITEM.test(line) && !QUOTE.test(line)) return paragraph(lines, at, blocks);
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence, blocks);
  const heading = HEADING.exec(line);
  if (heading) {
    blocks.push({ kind: "heading", level: heading[1].length, children: inline(heading[2].trim()) });
    return at + 1;
  }
  if (RULE.test(line)) {
    blocks.push({ kind: "rule" });
    return at + 1;
  }
  if (depth < DEPTH_MOST && QUOTE.test(line)) return quote(lines, at, blocks, depth);
  if (depth < DEPTH_MOST && ITEM.test(line)) return list(lines, at, blocks, depth);
  if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) return table(lines, at, blocks);
  return paragraph(lines, at, blocks);
}

function code(lines, at, fence, blocks) {
  const [, mark, language] = fence;
  const content = [];
  let next = at + 1;
  while (next < lines.length && !closes(lines[next], mark)) content.push(lines[next++]);
  blocks.push({ kind: "code", language: language.trim(), text: content.join("\n") });
  return next + 1;
}

function closes(line, mark) {
  const text = line.trim();
  return text.length >= mark.length && text === mark[0].repeat(text.length);
}

function quote(lines, at, blocks, depth) {
  const content = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const inner = QUOTE.exec(lines[next]);
    if (!inner) break;
    content.push(inner[1]);
  }
  blocks.push({ kind: "quote", children: parse(content.join("\n"), depth + 1) });
  return next;
}

function list(lines, at, blocks, depth) {
  const [, indent, mark, number] = ITEM.exec(lines[at]);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (found && found[1].length <= indent.length && Boolean(found[2]) === Boolean(mark) && !RULE.test(lines[next])) {
      items.push([found[4]]);
    } else if (items.length > 0 && lines[next].trim() !== "" && /^\s+/.exec(lines[next])?.[0].length > indent.length) {
      items.at(-1).push(lines[next].slice(Math.min(indent.length + 2, lines[next].search(/\S/))));
    } else break;
    next += 1;
  }
  const ordered = mark === undefined;
  blocks.push({
    kind: "list", ordered, start: ordered ? Number(number) : undefined,
    items: items.map((item) => parse(item.join("\n"), depth + 1)),
  });
  return next;
}

const isTableRule = (line) => line.length <= LINE_MOST && line.includes("-") && TABLE_RULE.test(line);

function table(lines, at, blocks) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => inline(cell.trim()));
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|"); next += 1) rows.push(cells(lines[next]));
  blocks.push({ kind: "table", head: cells(lines[at]), rows });
  return next;
}

const begins = (line) => line.length <= LINE_MOST && [FENCE, HEADING, QUOTE, ITEM].some((pattern) => pattern.test(line));

function paragraph(lines, at, blocks) {
  const content = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (line.trim() === "" || (next > at && begins(line))) break;
    content.push(line.trimEnd());
  }
  blocks.push({ kind: "paragraph", children: inline(content.join("\n")) });
  return next;
}

/** Where the part of a growing text ends that later text cannot change any more: after an empty line outside of code. */
export function settled(text, from) {
  let [at, end, mark] = [from, from, undefined];
  while (at < text.length) {
    const lineEnd = text.indexOf("\n", at);
    if (lineEnd < 0) break;
    const line = text.slice(at, Math.min(lineEnd, at + LINE_MOST));
    const fence = FENCE.exec(line);
    if (mark === undefined && fence) mark = fence[1];
    else if (mark !== undefined && closes(line, mark)) mark = undefined;
    at = lineEnd + 1;
    if (mark === undefined && line.trim() === "") end = at;
  }
  return end;
}
