// A2UI surfaces as they would look: the components that agents use most, from the operations of 0.8 and 0.9. Nothing here
// acts: a button shows what it would send.
//
// What is not known is shown as its name, so that nothing disappears.

import { cut, el, number, visible } from "./dom.js";

/** Components of one surface that are drawn: a surface that refers to itself ends here. */
const MOST = 500;

/** The operations in a value, if it holds some. Pure. */
export function operationsOf(value) {
  const found = Array.isArray(value) ? value : value?.a2ui_operations ?? value?.operations ?? (isOperation(value) ? [value] : undefined);
  return Array.isArray(found) && found.length > 0 && found.every(isOperation) ? found : undefined;
}

const NAMES = ["createSurface", "updateComponents", "updateDataModel", "deleteSurface", "beginRendering", "surfaceUpdate", "dataModelUpdate"];
const isOperation = (value) => typeof value === "object" && value !== null && NAMES.some((name) => Object.hasOwn(value, name));

/** Surfaces by id, after all operations: `{ components: Map, root, data }`. Pure. */
export function surfacesOf(operations) {
  const surfaces = new Map();
  const surface = (id = "") => {
    if (!surfaces.has(id)) surfaces.set(id, { components: new Map(), root: "root", data: {} });
    return surfaces.get(id);
  };
  for (const operation of operations) {
    const name = NAMES.find((name) => Object.hasOwn(operation, name));
    const body = operation[name] ?? {};
    if (name === "deleteSurface") surfaces.delete(body.surfaceId ?? "");
    else APPLY[name](surface(body.surfaceId), body);
  }
  return surfaces;
}

function components(surface, { components = [] }) {
  for (const component of Array.isArray(components) ? components : []) if (component?.id !== undefined) surface.components.set(component.id, component);
}

const APPLY = {
  createSurface: (surface, body) => components(surface, body),
  updateComponents: components,
  surfaceUpdate: components,
  beginRendering: (surface, body) => (surface.root = body.root ?? surface.root),
  updateDataModel: (surface, { path, value }) => put(surface, path, value),
  dataModelUpdate: (surface, { path, contents }) => put(surface, path, Array.isArray(contents) ? Object.fromEntries(contents.map((entry) => [entry.key, entry.valueString ?? entry.valueNumber ?? entry.valueBoolean ?? entry.valueMap])) : contents),
};

function put(surface, path = "/", value) {
  const keys = String(path).split("/").filter((key) => key !== "" && key !== "__proto__");
  if (keys.length === 0) {
    surface.data = value ?? {};
    return;
  }
  let at = surface.data;
  for (const key of keys.slice(0, -1)) at = typeof at[key] === "object" && at[key] !== null ? at[key] : (at[key] = {});
  at[keys.at(-1)] = value;
}

/** A property: a literal, or what the data model has at its path. Pure. */
export function valueOf(property, data, item) {
  if (typeof property !== "object" || property === null) return property;
  for (const name of ["literalString", "literalNumber", "literalBoolean", "literal"]) if (Object.hasOwn(property, name)) return property[name];
  if (typeof property.path !== "string") return undefined;
  const from = property.path.startsWith("/") || item === undefined ? data : item;
  return property.path.split("/").filter((key) => key !== "").reduce((at, key) => (typeof at === "object" && at !== null && Object.hasOwn(at, key) ? at[key] : undefined), from);
}

/** The surfaces as nodes. */
export function a2uiView(operations) {
  const nodes = [];
  for (const [id, surface] of surfacesOf(operations)) {
    const draw = { surface, left: MOST };
    nodes.push(el("div", { class: "a2ui", role: "group", "aria-label": `Surface ${visible(String(id || "of the agent"))}` }, component(draw, surface.root)));
  }
  return el("div", { class: "a2ui-surfaces" }, ...nodes);
}

const words = (value) => visible(cut(typeof value === "number" ? number(value) : typeof value === "object" ? JSON.stringify(value) ?? "" : String(value ?? ""), 4000));

function component(draw, id, item) {
  draw.left -= 1;
  const found = draw.surface.components.get(id);
  if (!found || draw.left <= 0) return el("span", { class: "meta", text: found ? "…" : `(no component ${words(id)})` });
  // 0.8 wraps the properties in an object named after the type; 0.9 has them beside it.
  const type = typeof found.component === "string" ? found.component : Object.keys(found.component ?? {})[0] ?? "";
  const props = typeof found.component === "string" ? found : found.component?.[type] ?? {};
  const get = (name) => valueOf(props[name], draw.surface.data, item);
  const children = () => childrenOf(draw, props, item);
  return (Object.hasOwn(DRAW, type) ? DRAW[type] : unknown(type))({ get, props, children });
}

function childrenOf(draw, props, item) {
  const list = props.children?.explicitList ?? props.children ?? props.child ?? [];
  if (Array.isArray(list)) return list.map((id) => component(draw, id, item));
  if (typeof list === "string") return [component(draw, list, item)];
  const template = list.template ?? list;
  const rows = valueOf({ path: template.path ?? template.dataBinding ?? "" }, draw.surface.data, item);
  return (Array.isArray(rows) ? rows : Object.values(rows ?? {})).slice(0, MOST).map((row) => component(draw, template.componentId, row));
}

const unknown = (type) => ({ children }) => el("div", { class: "box" }, el("span", { class: "meta", text: `${words(type) || "component"}` }), ...children());
const box = (kind) => ({ children }) => el("div", { class: kind }, ...children());
const field = (type) => ({ get }) => el("label", { class: "question" }, words(get("label")), el("input", { type, value: words(get("value") ?? get("text")), readonly: true, tabindex: "-1" }));

const DRAW = {
  Text: ({ get }) => el(/^h[1-5]$/.test(get("variant") ?? get("usageHint") ?? "") ? "strong" : "p", { dir: "auto", text: words(get("text")) }),
  Column: box("column"), Row: box("row"), List: box("column"), Card: box("card"), Modal: box("card"), Tabs: box("column"),
  Button: ({ get, props, children }) => el("button", { type: "button", title: `would send ${words(props.action?.name ?? props.action?.event?.name ?? JSON.stringify(props.action))}` }, ...(props.child === undefined ? [words(get("label"))] : children())),
  Image: ({ get }) => (/^data:image\//.test(get("url") ?? "") ? el("img", { class: "picture", src: get("url"), alt: words(get("alt") ?? get("altText")) }) : el("span", { class: "meta", text: `picture ${words(get("url"))}` })),
  Icon: ({ get }) => el("span", { class: "meta", text: `⟨${words(get("name"))}⟩` }),
  Divider: () => el("hr"),
  TextField: field("text"), DateTimeInput: field("text"), Slider: field("range"),
  CheckBox: ({ get }) => el("label", { class: "quiet" }, el("input", { type: "checkbox", checked: get("value") === true, disabled: true }), words(get("label"))),
};
