// RFC 6902 patches on JSON values. A patch that fails changes nothing.

/** The value after all operations, and the pointers that changed; throws with a sentence about what fails. */
export function applyPatch(value, operations) {
  let result = structuredClone(value);
  const changed = [];
  for (const operation of operations) {
    result = applyOne(result, operation);
    if (operation.op !== "test") changed.push(operation.path);
    if (operation.op === "move") changed.push(parentOf(operation.from));
  }
  return { value: result, changed };
}

function applyOne(root, { op, path, from, value }) {
  switch (op) {
    case "add":
      return write(root, path, structuredClone(value), true);
    case "replace":
      read(root, path);
      return write(root, path, structuredClone(value), false);
    case "remove":
      return remove(root, path);
    case "move": {
      const moved = read(root, from);
      return write(remove(root, from), path, moved, true);
    }
    case "copy":
      return write(root, path, structuredClone(read(root, from)), true);
    case "test":
      if (!same(read(root, path), value)) throw new Error(`test of ${path} fails`);
      return root;
    default:
      throw new Error(`there is no operation ${JSON.stringify(op)}`);
  }
}

/** The members of a pointer: `/a~1b/0` is `["a/b", "0"]`. */
export function members(pointer) {
  if (typeof pointer !== "string" || (pointer !== "" && pointer[0] !== "/")) throw new Error(`${pointer} is no pointer`);
  return pointer.split("/").slice(1).map((member) => member.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export const memberPointer = (parent, key) => `${parent}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;

const parentOf = (pointer) => pointer.slice(0, Math.max(0, pointer.lastIndexOf("/")));

const has = (value, key) => typeof value === "object" && value !== null && Object.hasOwn(value, key);

function read(root, pointer) {
  return members(pointer).reduce((at, key) => {
    if (!has(at, key)) throw new Error(`there is nothing at ${pointer}`);
    return at[key];
  }, root);
}

/** The container of a pointer, and its last member. */
function place(root, pointer) {
  const keys = members(pointer);
  const key = keys.pop();
  const at = keys.reduce((at, key) => {
    if (!has(at, key)) throw new Error(`there is nothing at ${parentOf(pointer)}`);
    return at[key];
  }, root);
  if (typeof at !== "object" || at === null) throw new Error(`${parentOf(pointer)} holds no members`);
  return [at, key];
}

function write(root, pointer, value, inserts) {
  if (pointer === "") return value;
  const [at, key] = place(root, pointer);
  if (!Array.isArray(at)) {
    // Never by assignment: a member called `__proto__` is a member like any other.
    Object.defineProperty(at, key, { value, writable: true, enumerable: true, configurable: true });
    return root;
  }
  const index = key === "-" ? at.length : Number(key);
  if (!Number.isInteger(index) || index < 0 || index > at.length) throw new Error(`${pointer} is outside of its list`);
  at.splice(index, inserts ? 0 : 1, value);
  return root;
}

function remove(root, pointer) {
  read(root, pointer);
  if (pointer === "") return null;
  const [at, key] = place(root, pointer);
  if (Array.isArray(at)) at.splice(Number(key), 1);
  else delete at[key];
  return root;
}

function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const [left, right] = [Object.keys(a), Object.keys(b)];
  return Array.isArray(a) === Array.isArray(b) && left.length === right.length
    && left.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}
