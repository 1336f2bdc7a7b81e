// A question to a human, as the form that its JSON Schema describes.
import { createElement as h, useState } from "react";
import { formOf, replyOf, valuesOf } from "./schema.js";

/**
 * Shows an interrupt. `onReply(payload)` answers it, `onDecline()` declines it. A question for one truth has two buttons, and its
 * "Decline" is an answer too: false.
 */
export function Question({ interrupt, onReply, onDecline }) {
  const [form] = useState(() => formOf(interrupt.responseSchema));
  const [values, setValues] = useState(() => valuesOf(form));
  const [errors, setErrors] = useState({});
  const [isSent, setSent] = useState(false);
  const send = (act) => {
    setSent(true);
    // A frontend that could not send it lets the person try again.
    Promise.resolve(act()).catch((error) => {
      setSent(false);
      setErrors({ "": String(error?.message ?? error) });
    });
  };
  const submit = (event) => {
    event.preventDefault();
    const { payload, errors = {} } = replyOf(form, values);
    setErrors(errors);
    if (Object.keys(errors).length === 0) send(() => onReply(payload));
  };
  const set = (name, value) => setValues((values) => ({ ...values, [name]: value }));
  const [choice] = form.kind === "choice" ? form.fields : [];
  const decide = (value) => () => send(() => onReply({ [choice.name]: value }));
  return h(
    "form",
    { className: "aq-question", "data-interrupt": interrupt.id, noValidate: true, onSubmit: submit },
    h("p", { className: "aq-ask" }, interrupt.message ?? "The agent waits for your reply."),
    choice === undefined && form.fields.map((field) => h(Field, { key: field.name, field, value: values[field.name], error: errors[field.name], set })),
    choice !== undefined && errors[""] && h("p", { className: "aq-error" }, errors[""]),
    choice === undefined
      ? h("div", { className: "aq-buttons" },
          h("button", { type: "submit", disabled: isSent }, "Send"),
          h("button", { type: "button", disabled: isSent, onClick: () => send(onDecline) }, "Decline"))
      : h("div", { className: "aq-buttons" },
          h("button", { type: "button", disabled: isSent, onClick: decide(true) }, "Approve"),
          h("button", { type: "button", disabled: isSent, onClick: decide(false) }, "Decline")),
  );
}

function Field({ field, value, error, set }) {
  const { name, type, title, description, choices, required } = field;
  const change = (event) => set(name, type === "boolean" ? event.target.checked : event.target.value);
  const common = { name: name || "reply", required, onChange: change, "aria-invalid": error !== undefined };
  const label = title && h("span", { className: "aq-label" }, title, required && " *");
  return h(
    "label",
    { className: "aq-field" },
    type !== "boolean" && label,
    inputOf(type, common, value, choices, (value) => set(name, value)),
    type === "boolean" && label,
    description && h("small", null, description),
    error && h("span", { className: "aq-error" }, title ? `${title} ${error}` : error),
  );
}

function inputOf(type, common, value, choices, choose) {
  if (type === "choice") {
    // A value of the schema need not be a text: options are named by their place.
    const at = choices.findIndex((choice) => choice.value === value);
    const onChange = (event) => choose(choices[Number(event.target.value)]?.value ?? "");
    return h("select", { ...common, value: String(at), onChange },
      at < 0 && h("option", { value: "-1" }, "…"),
      choices.map(({ title }, place) => h("option", { key: place, value: String(place) }, title)));
  }
  if (type === "boolean") return h("input", { ...common, type: "checkbox", checked: value });
  if (type === "json") return h("textarea", { ...common, value, rows: 4, placeholder: "{ … }" });
  return h("input", { ...common, value, type: type === "string" ? "text" : "number", step: type === "number" ? "any" : undefined });
}
