// The pages, bundled, and the CopilotKit runtime in front of the gateway's agents, on one port of loopback.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
const sources = join(dirname(fileURLToPath(import.meta.url)), "src");

/** Serves one page; gives its address and a function that ends the server. `pages` and `runtime` are folders with `node_modules`. */
export async function serve({ page, pages, runtime, agents }) {
  const [files, copilotkit] = [await bundle(page, pages), listener(runtime, agents)];
  const html = `<!doctype html><meta charset="utf-8"><title>${page}</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">${files.has(`/${page}.css`) ? `<link rel="stylesheet" href="/${page}.css">` : ""}
<div id="root"></div><script type="module" src="/${page}.js"></script>`;
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    if (pathname.startsWith("/api/copilotkit")) return copilotkit(request, response);
    const body = pathname === "/" ? html : files.get(pathname);
    const type = pathname === "/" ? "text/html" : pathname.endsWith(".css") ? "text/css" : "text/javascript";
    response.writeHead(body === undefined ? 404 : 200, { "content-type": `${type}; charset=utf-8` });
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => (server.closeAllConnections(), server.close()) };
}

/** A page as one script and one style sheet, by path. */
async function bundle(page, pages) {
  const { build } = createRequire(join(pages, "x.js"))("esbuild");
  const { outputFiles } = await build({
    entryPoints: [join(sources, `${page}.jsx`), join(sources, "page.css")],
    bundle: true,
    write: false,
    outdir: "/",
    format: "esm",
    jsx: "automatic",
    minify: true,
    logLevel: "error",
    // The sources lie beside the tests; what they import lies where it was installed.
    nodePaths: [join(pages, "node_modules")],
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
  });
  return new Map(outputFiles.map(({ path, contents }) => [path, contents]));
}

/** The CopilotKit runtime with an `HttpAgent` per agent of the gateway. */
function listener(folder, agents) {
  const require = createRequire(join(folder, "node_modules/x.js"));
  const { CopilotRuntime, InMemoryAgentRunner } = require("@copilotkit/runtime/v2");
  const { createCopilotNodeListener } = require("@copilotkit/runtime/v2/node");
  const { HttpAgent } = require("@ag-ui/client");
  const made = Object.entries(agents).map(([name, url]) => [name, new HttpAgent({ url })]);
  const runtime = new CopilotRuntime({ agents: Object.fromEntries(made), runner: new InMemoryAgentRunner() });
  return createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" });
}
