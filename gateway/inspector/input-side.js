// What the next run gets beside words: tools of the frontend, context, the shared state, forwarded properties. All as JSON,
// checked while it is typed.

import { byId, setText } from "./dom.js";

const FIELDS = {
  tools: { check: (value) => Array.isArray(value) && value.every((tool) => typeof tool?.name === "string"), want: "a list of tools: [{\"name\", \"description\", \"parameters\"}]" },
  context: { check: (value) => Array.isArray(value) && value.every((entry) => typeof entry?.description === "string" && typeof entry?.value === "string"), want: "a list of facts: [{\"description\", \"value\"}], both text" },
  state: { check: () => true, want: "any JSON" },
  forwardedProps: { check: () => true, want: "any JSON" },
};

/** The value of a field; none if it is empty. Throws with what is wanted. Pure. */
export function readField(name, text) {
  if (text.trim() === "") return undefined;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is no JSON: ${error.message}`);
  }
  if (!FIELDS[name].check(value)) throw new Error(`${name} must be ${FIELDS[name].want}`);
  return value;
}

export class InputSide {
  constructor(stateNow) {
    this.fields = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, byId(`input-${name}`)]));
    this.problem = byId("input-problem");
    this.about = byId("input-about");
    for (const field of Object.values(this.fields)) field.addEventListener("input", () => this.#check());
    byId("input-state-now").addEventListener("click", () => {
      this.fields.state.value = JSON.stringify(stateNow() ?? {}, null, 2);
      this.#check();
    });
  }

  /** What was typed, by name; throws if some of it cannot be read, and shows it. */
  read() {
    const found = {};
    for (const [name, field] of Object.entries(this.fields)) {
      const value = readField(name, field.value);
      if (value !== undefined) found[name] = value;
    }
    return found;
  }

  #check() {
    try {
      const set = Object.keys(this.read());
      setText(this.problem, "");
      setText(this.about, set.length === 0 ? "" : `with ${set.join(", ")}`);
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.problem.hidden = this.problem.textContent === "";
  }

  /** Opens the fields and shows what is wrong. */
  complain(error) {
    byId("input-side").open = true;
    setText(this.problem, error.message);
    this.problem.hidden = false;
  }
}
