// Two texts, line by line or word by word: what both have, what only one has. Pure.

/** Comparisons at most: beyond, the middle is shown as replaced. Some 20 ms. */
const MOST = 4_000_000;

/** `[{ kind: "same" | "left" | "right", items }]`, in order. */
export function diff(left, right) {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < left.length - start && end < right.length - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  const [a, b] = [left.slice(start, left.length - end), right.slice(start, right.length - end)];
  const middle = a.length * b.length > MOST ? [["left", a], ["right", b]].map(([kind, items]) => ({ kind, items })) : middleOf(a, b);
  const whole = [{ kind: "same", items: left.slice(0, start) }, ...middle, { kind: "same", items: left.slice(left.length - end) }];
  return whole.filter(({ items }) => items.length > 0);
}

/** By the longest common subsequence. */
function middleOf(a, b) {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const found = [];
  const push = (kind, item) => (found.at(-1)?.kind === kind ? found.at(-1).items.push(item) : found.push({ kind, items: [item] }));
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push("same", a[i++]);
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) push("left", a[i++]);
    else push("right", b[j++]);
  }
  return found;
}

/** A text as words with the space after each. */
export const wordsOf = (text) => text.match(/\s*\S+\s*/g) ?? [];
