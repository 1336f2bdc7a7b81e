// The runs of one piece of Markdown: code, strong, emphasis, strike, links. Pure; a tag is text, a picture is a link.

/** Longer pieces are shown as they are: no author means them as one sentence with marks in it. */
const LONGEST = 8000;
const DEPTH_MOST = 12;

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "strike"], ["*", "emphasis"], ["_", "emphasis"]];
const BARE = /^https?:\/\/[^\s<>"'`\u0000-\u001f]+/;
const WORD = /[\p{L}\p{N}]/u;

/** The runs of a line: text, code, links, and runs inside runs. */
export function inline(text, depth = 0) {
  if (text.length > LONGEST || depth > DEPTH_MOST) return [{ kind: "text", text }];
  const runs = [];
  let plain = "";
  const push = (run) => {
    if (plain !== "") runs.push({ kind: "text", text: plain });
    plain = "";
    runs.push(run);
  };
  let at = 0;
  while (at < text.length) {
    const found = special(text, at, depth);
    if (found) {
      push(found.run);
      at = found.end;
    } else {
      // A backslash takes the meaning from the mark behind it.
      if (text[at] === "\\" && /[\\`*_~[\]()<>#|-]/.test(text[at + 1] ?? "")) at += 1;
      plain += text[at];
      at += 1;
    }
  }
  if (plain !== "") runs.push({ kind: "text", text: plain });
  return runs;
}

function special(text, at, depth) {
  const char = text[at];
  if (char === "`") return codeSpan(text, at);
  if (char === "[" || (char === "!" && text[at + 1] === "[")) return link(text, at, depth);
  if (char === "<" || char === "h") return address(text, at);
  if (char === "*" || char === "_" || char === "~") return marked(text, at, depth);
  return undefined;
}

function codeSpan(text, at) {
  let length = 1;
  while (text[at + length] === "`") length += 1;
  const mark = "`".repeat(length);
  const end = text.indexOf(mark, at + length);
  if (end < 0) return undefined;
  return { run: { kind: "code", text: text.slice(at + length, end) }, end: end + length };
}

function link(text, at, depth) {
  const open = text[at] === "!" ? at + 1 : at;
  const middle = text.indexOf("](", open);
  const end = middle < 0 ? -1 : closing(text, middle + 2);
  if (end < 0) return undefined;
  const words = text.slice(open + 1, middle);
  if (words.includes("\n\n")) return undefined;
  const [target] = text.slice(middle + 2, end).trim().split(/\s+/, 1);
  // A picture would be fetched from elsewhere: it is a link to it.
  return { run: { kind: "link", target: target ?? "", children: inline(words, depth + 1) }, end: end + 1 };
}

/** The bracket that ends a target, which may hold pairs of them. */
function closing(text, from) {
  let depth = 0;
  for (let at = from; at < text.length && text[at] !== "\n"; at += 1) {
    if (text[at] === "(") depth += 1;
    else if (text[at] === ")" && depth-- === 0) return at;
  }
  return -1;
}

function address(text, at) {
  const angled = text[at] === "<";
  if (!angled && at > 0 && WORD.test(text[at - 1])) return undefined;
  const found = BARE.exec(text.slice(angled ? at + 1 : at, at + 2000));
  if (!found) return undefined;
  const target = angled ? found[0] : found[0].replace(/[.,;:!?)\]*_]+$/, "");
  const end = at + target.length + (angled ? 2 : 0);
  if (angled && text[end - 1] !== ">") return undefined;
  return { run: { kind: "link", target, children: [{ kind: "text", text: target }] }, end };
}

function marked(text, at, depth) {
  for (const [mark, kind] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const start = at + mark.length;
    if (/\s/.test(text[start] ?? " ")) continue;
    // `snake_case` is no emphasis.
    if (mark[0] === "_" && at > 0 && WORD.test(text[at - 1])) continue;
    let end = text.indexOf(mark, start + 1);
    while (end > 0 && (/\s/.test(text[end - 1]) || (mark === "*" && text[end + 1] === "*"))) end = text.indexOf(mark, end + mark.length + 1);
    if (end < 0 || (mark[0] === "_" && WORD.test(text[end + mark.length] ?? ""))) continue;
    return { run: { kind, children: inline(text.slice(start, end), depth + 1) }, end: end + mark.length };
  }
  return undefined;
}
