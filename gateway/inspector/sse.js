// Server-sent events from text, however it is cut. Knows nothing of what the events mean.

export class SseParser {
  #rest = "";
  #data = [];
  #event = "";
  #comments = [];
  #id = "";

  /** Takes text, gives the frames that it completed: `{ data, id, event, comments }`. */
  push(text) {
    const frames = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line, frames);
    return frames;
  }

  /** The input is over. A last frame without its empty line counts: clients of AG-UI read it too. */
  end() {
    const frames = this.push("\n");
    if (this.#data.length > 0) this.#line("", frames);
    return frames;
  }

  #line(line, frames) {
    if (line === "") {
      if (this.#data.length > 0) {
        frames.push({ data: this.#data.join("\n"), id: this.#id, event: this.#event, comments: this.#comments });
      }
      this.#data = [];
      this.#comments = [];
      this.#event = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.#comments.push(line.slice(1).trim());
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
    else if (name === "event") this.#event = value;
  }
}
