// Compiles every TypeScript and JSX snippet of the documentation against the SDKs and the AG-UI client.
//
// Modules of frontends are not installed here and count as anything; `aqueduct-*` must be there, with what is imported. Snippets are
// fragments: names that the text around them brings are listed below.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";

const [root, peers, folder] = process.argv.slice(2);
const ts = createRequire(join(peers, "package.json"))("typescript");

/** What an application has around a fragment. */
const SURROUNDINGS = ["threadId", "thread", "UserMessage", "ResumableHttpAgent", "HttpAgent", "CopilotChat", "useInterrupt", "useDefaultRenderTool", "useAgUiRuntime"];
const MISSING_MODULE = [2307, 2792, 7016, 2882];
const MISSING_NAME = [2304, 2552, 18004];

function pages(path) {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const inside = join(path, entry.name);
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : pages(inside);
    return entry.name.endsWith(".md") ? [inside] : [];
  });
}

function snippets(page) {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^( *)```(tsx?|jsx)[^\n]*\n(.*?)^ *```/gms)].map((found) => ({
    place: `${relative(root, page)}:${text.slice(0, found.index).split("\n").length}`,
    source: found[3].split("\n").map((line) => line.slice(found[1].length)).join("\n"),
  }));
}

const found = [join(root, "README.md"), ...["docs", "sdk"].flatMap((name) => pages(join(root, name)))].flatMap(snippets);
if (process.argv.includes("--self-test")) {
  found.push({ place: "broken", source: 'import { NoSuchAgent } from "aqueduct-agui";\nnew NoSuchAgent(;\n' });
}
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const places = new Map();
found.forEach(({ place, source }, index) => {
  const file = join(folder, `snippet-${index}.tsx`);
  // Without it a snippet that imports nothing would share its names with the others.
  writeFileSync(file, `${source}\nexport {};\n`);
  places.set(file, place);
});

const program = ts.createProgram([...places.keys()], {
  noEmit: true,
  strict: true,
  noImplicitAny: false,
  skipLibCheck: true,
  allowJs: false,
  jsx: ts.JsxEmit.ReactJSX,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
  types: [],
  baseUrl: root,
  paths: {
    "aqueduct-agui": [join(root, "sdk/typescript/src/index.d.ts")],
    "aqueduct-react": [join(root, "sdk/react/src/index.d.ts")],
    "aqueduct-react/*": [join(root, "sdk/react/src/*.d.ts"), join(root, "sdk/react/src/*")],
    "*": [join(peers, "node_modules/@types/*"), join(peers, "node_modules/*")],
  },
});

function isAllowed({ code, messageText }) {
  const text = ts.flattenDiagnosticMessageText(messageText, "\n");
  const name = text.match(/['"]([^'"]+)['"]/)?.[1] ?? "";
  if (MISSING_MODULE.includes(code)) return !name.startsWith("aqueduct-");
  return MISSING_NAME.includes(code) && SURROUNDINGS.includes(name);
}

const wrong = ts
  .getPreEmitDiagnostics(program)
  .filter((diagnostic) => diagnostic.file === undefined || (places.has(diagnostic.file.fileName) && !isAllowed(diagnostic)))
  .map(({ file, start, code, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `${places.get(file?.fileName)}: line ${line}: TS${code}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
  });
const isFailed = found.length === 0 || wrong.length > 0;
console.log(wrong.length > 0 ? wrong.join("\n") : `${found.length} TypeScript and JSX snippets compile`);
process.exit(isFailed ? 1 : 0);
