// What `@ag-ui/a2a` makes of an A2A agent, behind an HTTP endpoint: the relay that the gateway is measured against.
//
//   node relay.mjs --project <folder with node_modules> <host:port of the agent>
//
// Prints its address. `POST /<mode>` runs the agent at `http://<host:port>/<mode>` and answers with server-sent events.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({ options: { project: { type: "string" } }, allowPositionals: true });
const [agent] = positionals;
const require = createRequire(join(values.project, "package.json"));
const { A2AAgent } = require("@ag-ui/a2a");
const { A2AClient } = createRequire(require.resolve("@ag-ui/a2a"))("@a2a-js/sdk/client");
const { EventEncoder } = require("@ag-ui/encoder");

const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    const input = JSON.parse(body);
    const encoder = new EventEncoder({ accept: "text/event-stream" });
    const bridge = new A2AAgent({ a2aClient: new A2AClient(`http://${agent}${request.url}`) });
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    response.socket.setNoDelay(true);
    const running = bridge.run(input).subscribe({
      next: (event) => response.write(encoder.encodeSSE(event)),
      error: (error) => response.destroy(error),
      complete: () => response.end(),
    });
    response.on("close", () => running.unsubscribe());
  });
});
server.on("clientError", (_, socket) => socket.destroy());
process.on("uncaughtException", (error) => console.error(error));
server.listen(0, "127.0.0.1", 4096, () => console.log(`127.0.0.1:${server.address().port}`));
