// Fields for a JSON Schema, and the value that they hold. What is wrong stands beside its field.

import { el, fill, pretty, visible } from "./dom.js";
import { choicesOf, fieldKind, membersOf } from "./schema.js";

/** Fields inside fields that are made; deeper values are JSON. */
const DEEPEST = 4;

/** `{ node, value(), show(found) }`: the fields, their value (undefined if left empty; throws if it is no JSON), and what is wrong. */
export function fieldFor(schema, { id, label, path = "", isRequired = true, depth = 0 }) {
  const kind = depth > DEEPEST ? "json" : fieldKind(schema);
  const problem = el("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const made = KINDS[kind]({ schema, id, isRequired, depth, path, label });
  const about = el("span", { class: "meta", text: visible(String(schema?.description ?? "")) });
  const name = fill(el(kind === "group" || kind === "choices" ? "legend" : "label", { for: kind === "group" || kind === "choices" ? null : id, dir: "auto" }), visible(label));
  if (!isRequired) name.append(el("span", { class: "meta", text: " (optional)" }));
  const box = el(kind === "group" || kind === "choices" ? "fieldset" : "div", { class: "question" }, name, about, ...made.nodes, problem);
  const show = (found) => {
    const own = found.filter((entry) => entry.path === path || (made.isLeaf && entry.path.startsWith(`${path}/`)));
    problem.textContent = own.map((entry) => entry.what).join("; ");
    problem.hidden = own.length === 0;
    made.nodes[0]?.setAttribute?.("aria-invalid", String(own.length > 0));
    if (own.length > 0) made.nodes[0]?.setAttribute?.("aria-describedby", problem.id);
    made.show?.(found);
  };
  return { node: box, value: made.value, show };
}

const input = (type, { id, schema, isRequired }, more = {}) => el("input", { id, type, autocomplete: "off", value: schema?.default ?? null, "aria-required": String(isRequired), ...more });

const DATES = { date: "date", time: "time", email: "email", uri: "url" };

const KINDS = {
  text(field) {
    const node = input(DATES[field.schema?.format] ?? "text", field);
    return { nodes: [node], isLeaf: true, value: () => (node.value === "" && !field.isRequired ? undefined : node.value) };
  },
  long(field) {
    const node = el("textarea", { id: field.id, rows: 4, text: field.schema.default ?? "" });
    return { nodes: [node], isLeaf: true, value: () => (node.value === "" && !field.isRequired ? undefined : node.value) };
  },
  number(field) {
    const step = field.schema.type === "integer" ? "1" : "any";
    const node = input("number", field, { step, min: field.schema.minimum ?? null, max: field.schema.maximum ?? null });
    return { nodes: [node], isLeaf: true, value: () => (node.value === "" ? undefined : Number(node.value)) };
  },
  flag(field) {
    const node = el("select", { id: field.id }, el("option", { value: "true", text: "yes" }), el("option", { value: "false", text: "no", selected: field.schema.default === false }));
    return { nodes: [node], isLeaf: true, value: () => node.value === "true" };
  },
  choice(field) {
    const choices = choicesOf(field.schema);
    const chosen = choices.findIndex((choice) => choice.value === field.schema.default);
    const options = choices.map((choice, index) => el("option", { value: index, text: visible(choice.label), selected: index === chosen }));
    const node = el("select", { id: field.id }, field.isRequired ? undefined : el("option", { value: "", text: "–" }), ...options);
    return { nodes: [node], isLeaf: true, value: () => (node.value === "" ? undefined : choices[Number(node.value)].value) };
  },
  choices(field) {
    const choices = choicesOf(field.schema.items);
    const boxes = choices.map((choice, index) => el("label", { class: "quiet" }, el("input", { type: "checkbox", id: `${field.id}-${index}` }), visible(choice.label)));
    return { nodes: boxes, isLeaf: true, value: () => choices.filter((_, index) => boxes[index].firstChild.checked).map((choice) => choice.value) };
  },
  lines(field) {
    const node = el("textarea", { id: field.id, rows: 3, placeholder: "one entry per line" });
    return { nodes: [node], isLeaf: true, value: () => node.value.split("\n").map((line) => line.trim()).filter((line) => line !== "") };
  },
  group(field) {
    const fields = membersOf(field.schema).map(({ name, schema, isRequired }, index) => ({
      name, isRequired, ...fieldFor(schema, { id: `${field.id}-${index}`, label: schema?.title ?? name, path: `${field.path}/${name}`, isRequired, depth: field.depth + 1 }),
    }));
    const value = () => {
      const whole = {};
      for (const one of fields) {
        const held = one.value();
        if (held !== undefined) Object.defineProperty(whole, one.name, { value: held, enumerable: true, writable: true, configurable: true });
      }
      return Object.keys(whole).length === 0 && !field.isRequired ? undefined : whole;
    };
    return { nodes: fields.map((one) => one.node), value, show: (found) => fields.forEach((one) => one.show(found)) };
  },
  json(field) {
    const node = el("textarea", { id: field.id, rows: 4, spellcheck: "false", class: "code", text: field.schema?.default === undefined ? "" : pretty(field.schema.default) });
    const about = el("details", {}, el("summary", { text: "What the agent wants" }), el("pre", { text: visible(pretty(field.schema ?? true)) }));
    const value = () => {
      if (node.value.trim() === "" && !field.isRequired) return undefined;
      try {
        return JSON.parse(node.value);
      } catch (error) {
        throw Object.assign(new Error(`is no JSON: ${error.message}`), { path: field.path });
      }
    };
    return { nodes: [node, about], isLeaf: true, value };
  },
};
