// Questions of an agent, and the form that answers them. All of them are answered at once: the protocol wants it so.

import { el, visible } from "./dom.js";
import { fieldFor } from "./schema-form.js";
import { validate } from "./schema.js";

/** One answer as words, for the conversation. */
export function answerText({ status, payload }) {
  if (status === "cancelled") return "(declined)";
  return typeof payload === "string" ? payload : JSON.stringify(payload);
}

/** Answers as words. */
export const answerWords = (resume) => resume.map(answerText).join("\n");

/** The form for open questions; `onAnswer` gets the `resume` of the next run. */
export function interruptForm(interrupts, onAnswer) {
  const questions = interrupts.map((interrupt, index) => ({
    interrupt, ...fieldFor(interrupt.responseSchema, { id: `answer-${index}`, label: interrupt.message ?? interrupt.reason ?? "The agent asks." }),
  }));
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const send = (entries) => {
    form.remove();
    onAnswer(entries);
  };
  const answer = (event) => {
    event.preventDefault();
    const entries = questions.map(check);
    const wrong = entries.filter((entry) => entry === undefined).length;
    problem.textContent = wrong === 0 ? "" : "Some answers are not what the agent asked for: see above.";
    problem.hidden = wrong === 0;
    if (wrong === 0) send(entries);
    else form.querySelector("[aria-invalid=true]")?.focus();
  };
  const decline = () => send(interrupts.map((interrupt) => ({ interruptId: interrupt.id, status: "cancelled" })));
  const form = el("form", { class: "block interrupt", "aria-label": "The agent asks", novalidate: true, on: { submit: answer } },
    ...questions.map(({ node }) => node), problem,
    el("div", { class: "row" }, el("button", { type: "submit", class: "main", text: "Answer" }), el("button", { type: "button", text: "Decline", on: { click: decline } })));
  return form;
}

/** The entry of `resume` for a question; undefined, with the problems shown, if its answer does not fit. */
function check({ interrupt, value, show }) {
  let [payload, found] = [undefined, []];
  try {
    payload = value();
    found = payload === undefined || payload === "" ? [{ path: "", what: "an answer is needed" }] : validate(interrupt.responseSchema, payload);
  } catch (error) {
    found = [{ path: error.path ?? "", what: visible(error.message) }];
  }
  show(found);
  return found.length === 0 ? { interruptId: interrupt.id, status: "resolved", payload } : undefined;
}
