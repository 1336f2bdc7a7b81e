// Where a reader is in a stream, as the ids of its events say: `<run>.0` before the first event, then
// `<run>.<number>.<k>` for the k-th payload of an event. What stands before the numbers is not looked into.

/** Reads an id. Undefined if it is none of the gateway's. */
export function readPosition(id) {
  const match = /^(.*)\.(\d+)\.(\d+)$/.exec(id ?? "");
  if (match && match[3] !== "0") return { stream: match[1], number: Number(match[2]), payload: Number(match[3]) };
  const start = /^(.*)\.0$/.exec(id ?? "");
  return start ? { stream: start[1], number: 0, payload: 0 } : undefined;
}

/** True if an event with this id was there before: of the same stream, and not after `last`. */
export function isRepeated(id, last) {
  const [found, before] = [readPosition(id), readPosition(last)];
  if (!found || !before || found.stream !== before.stream) return false;
  return found.number < before.number || (found.number === before.number && found.payload <= before.payload);
}
