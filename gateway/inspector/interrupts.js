// Questions of an agent, and the form that answers them. All of them are answered at once: the protocol wants it so.

import { el, fill, pretty, visible } from "./dom.js";

/** The kind of field for an answer, by its schema. */
export function fieldKind(schema) {
  if (schema?.enum?.every?.((option) => typeof option === "string")) return "choice";
  if (schema?.type === "boolean") return "flag";
  if (schema === undefined || schema.type === "string") return "text";
  return "json";
}

/** The answer of a field; throws if it is no JSON where JSON is wanted. */
export function answerOf(kind, text) {
  if (kind === "flag") return text === "true";
  if (kind === "json") return JSON.parse(text);
  return text;
}

/** Answers as words, for the conversation. */
export function answerWords(resume) {
  const words = ({ status, payload }) => (status === "cancelled" ? "(declined)" : typeof payload === "string" ? payload : JSON.stringify(payload));
  return resume.map(words).join("\n");
}

const FIELDS = {
  text: (id) => el("input", { id, type: "text", autocomplete: "off", required: true }),
  json: (id) => el("textarea", { id, rows: 4, spellcheck: "false", class: "code", required: true }),
  flag: (id) => el("select", { id }, el("option", { value: "true", text: "yes" }), el("option", { value: "false", text: "no" })),
  choice: (id, schema) => el("select", { id }, ...schema.enum.map((option) => el("option", { value: option, text: visible(option) }))),
};

function question(interrupt, index) {
  const { responseSchema: schema } = interrupt;
  const kind = fieldKind(schema);
  const id = `answer-${index}`;
  const field = FIELDS[kind](id, schema);
  const asked = visible(interrupt.message ?? interrupt.reason ?? "The agent asks.");
  const node = el("div", { class: "question" }, fill(el("label", { for: id, dir: "auto" }), asked), field);
  if (kind === "json") node.append(el("details", {}, el("summary", { text: "What the agent wants" }), el("pre", { text: visible(pretty(schema)) })));
  return { interrupt, kind, field, node };
}

/** The form for open questions; `onAnswer` gets the `resume` of the next run. */
export function interruptForm(interrupts, onAnswer) {
  const questions = interrupts.map(question);
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const send = (entries) => {
    form.remove();
    onAnswer(entries);
  };
  const answer = (event) => {
    event.preventDefault();
    try {
      send(questions.map(({ interrupt, kind, field }) => ({ interruptId: interrupt.id, status: "resolved", payload: answerOf(kind, field.value) })));
    } catch (error) {
      problem.textContent = `This is no JSON: ${error.message}`;
      problem.hidden = false;
    }
  };
  const decline = () => send(interrupts.map((interrupt) => ({ interruptId: interrupt.id, status: "cancelled" })));
  const form = el("form", { class: "block interrupt", "aria-label": "The agent asks", on: { submit: answer } },
    ...questions.map(({ node }) => node), problem,
    el("div", { class: "row" }, el("button", { type: "submit", class: "main", text: "Answer" }), el("button", { type: "button", text: "Decline", on: { click: decline } })));
  return form;
}
