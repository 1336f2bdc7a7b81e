// JSON Schema, as far as questions of agents use it: what kind of field a schema wants, and what is wrong with a value. Pure.
//
// What is not known here (`$ref`, `allOf`, `not` …) is not judged: the agent has the last word.

/** The kind of field for a schema: text, number, flag, choice, choices, lines, group, or json for what no field fits. */
export function fieldKind(schema) {
  if (schema === undefined || schema === true) return "text";
  if (choicesOf(schema)) return "choice";
  const type = typeOf(schema);
  if (type === "boolean") return "flag";
  if (type === "number" || type === "integer") return "number";
  if (type === "string") return schema.format === "multiline" || schema.maxLength > 200 ? "long" : "text";
  if (type === "object" && isPlain(schema.properties) && Object.keys(schema.properties).length > 0) return "group";
  if (type === "array" && choicesOf(schema.items)) return "choices";
  if (type === "array" && schema.items !== undefined && typeOf(schema.items) === "string") return "lines";
  return "json";
}

const isPlain = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A type beside null is that type. */
function typeOf(schema) {
  if (!isPlain(schema)) return undefined;
  const types = [schema.type].flat().filter((type) => type !== "null" && type !== undefined);
  if (types.length === 1) return types[0];
  return types.length === 0 && isPlain(schema.properties) ? "object" : undefined;
}

/** `[{ value, label }]` if a schema names its values. */
export function choicesOf(schema) {
  if (!isPlain(schema)) return undefined;
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum.map((value) => ({ value, label: label(value) }));
  const options = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(options) && options.length > 0 && options.every((option) => isPlain(option) && "const" in option)) return options.map((option) => ({ value: option.const, label: option.title ?? label(option.const) }));
  return undefined;
}

const label = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** The members of an object schema: `{ name, schema, isRequired }`. */
export function membersOf(schema) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(schema.properties).map(([name, member]) => ({ name, schema: member, isRequired: required.has(name) }));
}

/** What is wrong with a value: `[{ path, what }]`, empty if nothing is. */
export function validate(schema, value, path = "") {
  if (!isPlain(schema)) return [];
  const found = [];
  const say = (what) => found.push({ path, what });
  const choices = choicesOf(schema);
  if (choices && !choices.some((choice) => JSON.stringify(choice.value) === JSON.stringify(value))) say(`must be one of ${choices.map((choice) => choice.label).join(", ")}`);
  if ("const" in schema && JSON.stringify(schema.const) !== JSON.stringify(value)) say(`must be ${label(schema.const)}`);
  if (!fitsType(schema.type, value)) {
    say(`must be ${[schema.type].flat().join(" or ")}`);
    return found;
  }
  if (typeof value === "string") text(schema, value, say);
  if (typeof value === "number") size(schema, value, say);
  if (Array.isArray(value)) list(schema, value, path, say, found);
  else if (isPlain(value)) members(schema, value, path, found);
  return found;
}

function fitsType(type, value) {
  if (type === undefined) return true;
  return [type].flat().some((name) => ({
    string: typeof value === "string", boolean: typeof value === "boolean", number: typeof value === "number" && Number.isFinite(value),
    integer: Number.isInteger(value), array: Array.isArray(value), object: isPlain(value), null: value === null,
  })[name] ?? true);
}

const FORMATS = {
  email: /^[^\s@]+@[^\s@]+$/, date: /^\d{4}-\d{2}-\d{2}$/, time: /^\d{2}:\d{2}/, "date-time": /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/, uri: /^[a-z][a-z0-9+.-]*:/i, uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
};

function text(schema, value, say) {
  const length = [...value].length;
  if (length < (schema.minLength ?? 0)) say(schema.minLength === 1 ? "must not be empty" : `must have at least ${schema.minLength} characters`);
  if (length > (schema.maxLength ?? Infinity)) say(`must have at most ${schema.maxLength} characters`);
  if (value !== "" && Object.hasOwn(FORMATS, schema.format ?? "") && !FORMATS[schema.format].test(value)) say(`must be a ${schema.format}`);
  if (typeof schema.pattern === "string" && schema.pattern.length < 200) {
    try {
      if (!new RegExp(schema.pattern, "u").test(value.slice(0, 1000))) say(`must match ${schema.pattern}`);
    } catch {
      // A pattern of another dialect is the agent's to judge.
    }
  }
}

function size(schema, value, say) {
  if (value < schema.minimum) say(`must be at least ${schema.minimum}`);
  if (value > schema.maximum) say(`must be at most ${schema.maximum}`);
  if (value <= schema.exclusiveMinimum) say(`must be more than ${schema.exclusiveMinimum}`);
  if (value >= schema.exclusiveMaximum) say(`must be less than ${schema.exclusiveMaximum}`);
  const steps = value / schema.multipleOf;
  if (schema.multipleOf > 0 && Math.abs(steps - Math.round(steps)) > 1e-9) say(`must be a multiple of ${schema.multipleOf}`);
}

function list(schema, value, path, say, found) {
  if (value.length < (schema.minItems ?? 0)) say(`must have at least ${schema.minItems} entries`);
  if (value.length > (schema.maxItems ?? Infinity)) say(`must have at most ${schema.maxItems} entries`);
  value.forEach((item, index) => found.push(...validate(schema.items, item, `${path}/${index}`)));
}

function members(schema, value, path, found) {
  for (const name of Array.isArray(schema.required) ? schema.required : []) if (!Object.hasOwn(value, name)) found.push({ path: `${path}/${name}`, what: "is required" });
  for (const [name, member] of Object.entries(value)) if (isPlain(schema.properties) && Object.hasOwn(schema.properties, name)) found.push(...validate(schema.properties[name], member, `${path}/${name}`));
}
