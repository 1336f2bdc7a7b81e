// Figures of a recording: times, rates, usage. Pure.

/** The window of the current rate, in milliseconds. */
const WINDOW = 1000;

/** Figures of the records up to `end`, counted from the latest request. Times are those of arrival; a stream that was
 *  read again has none. */
export function figures(records, end, now, request = { n: 0, at: 0 }) {
  const last = Math.min(end, records.length);
  let [timed, first, latest, answer] = [0, undefined, undefined, undefined];
  for (let n = request.n; n < last; n += 1) {
    const record = records[n];
    if (record.at === undefined) continue;
    timed += 1;
    first ??= record;
    latest = record;
    if (answer === undefined && record.lane === "" && record.type.startsWith("TEXT_MESSAGE_C")) answer = record;
  }
  const since = (record) => (record === undefined ? undefined : record.at - request.at);
  const found = { events: last, first: since(first), last: since(latest), answer: since(answer), rate: undefined, mean: undefined };
  const span = found.last - found.first;
  if (span > 0) found.mean = (timed * 1000) / span;
  if (now !== undefined) found.rate = rate(records, request.n, last, now);
  return found;
}

/** Events of the last second. */
function rate(records, from, end, now) {
  let count = 0;
  for (let n = end - 1; n >= from && !(records[n].at <= now - WINDOW); n -= 1) if (records[n].at !== undefined) count += 1;
  return count;
}

const COUNTS = ["inputTokens", "outputTokens", "totalTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens", "cost"];

/** Usage per provider and model. What was not reported stays unknown: it is never shown as 0. */
export function usageRows(usage) {
  const rows = new Map();
  for (const entry of usage) {
    const key = `${entry.provider ?? ""} ${entry.model ?? ""}`;
    const row = rows.get(key) ?? { provider: entry.provider ?? "", model: entry.model ?? "" };
    for (const name of COUNTS) if (typeof entry[name] === "number") row[name] = (row[name] ?? 0) + entry[name];
    rows.set(key, row);
  }
  return [...rows.values()];
}
