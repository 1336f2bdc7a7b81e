// A JSON Schema as the fields of a form, and what was filled in as the reply that the schema asks for.
//
// Objects of texts, numbers, truths and choices are forms; whatever else a schema says (nested objects, lists, unions) is a field
// that takes JSON, so no question is without an answer. The agent checks the reply: this only helps to write it.

/** What a question asks for: `{ kind: "choice" | "form" | "text", fields }`. */
export function formOf(schema) {
  if (schema === undefined || schema === null || schema === true) return { kind: "text", fields: [field("", {}, true)] };
  if (!isObject(schema)) return { kind: "form", whole: false, fields: Object.entries(schema.properties ?? {}).length ? fieldsOf(schema) : [field("", schema, true)] };
  const fields = fieldsOf(schema);
  if (fields.length === 1 && fields[0].type === "boolean") return { kind: "choice", fields };
  return fields.length === 0 ? { kind: "form", fields: [field("", {}, false, "json")] } : { kind: "form", whole: true, fields };
}

/** The first values of the fields. */
export function valuesOf({ fields }) {
  return Object.fromEntries(fields.map(({ name, type, initial }) => [name, initial ?? (type === "boolean" ? false : "")]));
}

/** The reply, or what is wrong with a field: `{ payload }` or `{ errors }`. */
export function replyOf(form, values) {
  const [payload, errors] = [{}, {}];
  for (const { name, type, required, minimum, maximum } of form.fields) {
    const value = values[name];
    if (value === "" || value === undefined) {
      if (required) errors[name] = "is needed";
      continue;
    }
    const read = READERS[type](value);
    if (read === undefined) errors[name] = `is no ${WORDS[type]}`;
    else if (typeof read === "number" && read < minimum) errors[name] = `is below ${minimum}`;
    else if (typeof read === "number" && read > maximum) errors[name] = `is above ${maximum}`;
    else payload[name] = read;
  }
  if (Object.keys(errors).length > 0) return { errors };
  return { payload: form.whole || form.kind === "choice" ? payload : payload[""] };
}

const isObject = ({ type, properties }) => properties !== undefined || type === "object";
const WORDS = { number: "number", integer: "whole number", json: "JSON" };
const READERS = {
  string: (value) => value,
  choice: (value) => value,
  boolean: (value) => value,
  number: (value) => (Number.isFinite(Number(value)) ? Number(value) : undefined),
  integer: (value) => (Number.isInteger(Number(value)) ? Number(value) : undefined),
  json(value) {
    try {
      return JSON.parse(value);
    } catch {
      return undefined;
    }
  },
};

function fieldsOf({ properties = {}, required = [] }) {
  return Object.entries(properties).map(([name, schema]) => field(name, schema, required.includes(name)));
}

function field(name, schema, required, forced) {
  const choices = choicesOf(schema);
  const plain = ["string", "number", "integer", "boolean"];
  const type = forced ?? (choices ? "choice" : plain.includes(schema.type) ? schema.type : schema.type === undefined ? "string" : "json");
  const initial = schema.default ?? (choices && required ? choices[0].value : undefined);
  const { title = name, description, minimum = -Infinity, maximum = Infinity } = schema;
  return { name, type, title, description, required, choices, minimum, maximum, initial };
}

/** The values to choose from, of `enum` or of `oneOf` with constants. */
function choicesOf({ enum: values, oneOf }) {
  if (Array.isArray(values)) return values.map((value) => ({ value, title: String(value) }));
  if (Array.isArray(oneOf) && oneOf.every((option) => "const" in option)) {
    return oneOf.map((option) => ({ value: option.const, title: option.title ?? String(option.const) }));
  }
  return undefined;
}
