// Splits the bytes of an event stream into whole frames, and reads what resuming needs of them.
//
// A frame is what lies between two empty lines. Only whole frames leave: what a cut left half-way is dropped with the
// splitter, and comes again with the next connection. Line ends are LF, as the gateway writes them and as the AG-UI
// client reads them.

/** No event of the gateway is longer; a stream that never ends a frame must not fill the memory. */
export const MAX_FRAME = 16 * 1024 * 1024;

export class FrameSplitter {
  #decoder = new TextDecoder();
  #rest = "";

  /** Takes bytes, gives the frames that are whole now. */
  take(bytes) {
    const parts = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n\n");
    this.#rest = parts.pop();
    if (this.#rest.length > MAX_FRAME) throw new Error(`an event is longer than ${MAX_FRAME} characters`);
    return parts.filter((part) => part !== "").map(readFrame);
  }
}

function readFrame(text) {
  // `retry:` is for a browser's own EventSource: here the waits are the caller's.
  const frame = { text: `${text}\n\n`, id: undefined, type: undefined, data: "", hasData: false };
  const data = [];
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // A comment, or a field without a value: nothing that matters here.
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") frame.id = value;
    else if (field === "data") data.push(value);
  }
  frame.hasData = data.length > 0;
  frame.data = data.join("\n");
  if (frame.hasData) frame.type = typeOf(frame.data);
  return frame;
}

/** The event's type. A payload that is none of AG-UI's is for the client to complain about. */
function typeOf(json) {
  // The gateway writes `type` first; parsing a long payload twice would cost what it weighs.
  const first = /^\{"type":"([A-Z_]+)"/.exec(json);
  if (first) return first[1];
  try {
    return JSON.parse(json)?.type;
  } catch {
    return undefined;
  }
}
