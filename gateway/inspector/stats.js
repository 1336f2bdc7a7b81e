// Figures of a recording: times, rates, usage. Pure.

/** The window of the current rate, in milliseconds. */
const WINDOW = 1000;

/** Figures of the records up to `end`, counted from the latest request. Times are those of arrival; a stream that was
 *  read again has none. */
export function figures(records, end, now, request = { n: 0, at: 0 }) {
  const timed = records.slice(request.n, end).filter((record) => record.at !== undefined);
  const since = (record) => (record === undefined ? undefined : record.at - request.at);
  const found = { events: Math.min(end, records.length), first: since(timed[0]), last: since(timed.at(-1)), rate: undefined, mean: undefined };
  found.answer = since(timed.find((record) => record.type.startsWith("TEXT_MESSAGE_C") && record.lane === ""));
  const span = found.last - found.first;
  if (span > 0) found.mean = (timed.length * 1000) / span;
  if (now !== undefined) found.rate = rate(timed, now);
  return found;
}

/** Events of the last second. */
function rate(timed, now) {
  let count = 0;
  for (let n = timed.length - 1; n >= 0 && timed[n].at > now - WINDOW; n -= 1) count += 1;
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
