// Servers to measure ours against: server-sent events by node itself, `ws`, and `@grpc/grpc-js`.
//
//   node bench.mjs --project <folder with node_modules> http|ws|grpc
//
// Prints its address. A request is the text "<messages> <batch>": so many messages of 100 bytes are sent, `batch` of them
// together, with a turn of the event loop in between; "0 0" sends one and keeps the stream open.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({ options: { project: { type: "string" } }, allowPositionals: true });
const require = createRequire(join(values.project, "package.json"));
const TEXT = "m".repeat(100);

// Sends everything as fast as the stream drains.
function pump(request, { stream, send, end, together }) {
  const [messages, batch] = request.split(" ").map(Number);
  if (messages === 0) return send(1);
  let sent = 0;
  const step = () => {
    const count = Math.min(batch, messages - sent);
    stream.cork?.();
    if (together) send(count);
    else for (let i = 0; i < count; i++) send(1);
    stream.uncork?.();
    sent += count;
    if (sent === messages) return end();
    if (stream.writableNeedDrain) stream.once("drain", step);
    else setImmediate(step);
  };
  step();
}

function http() {
  const event = `data: ${TEXT}\n\n`;
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = () => response.write(event);
      pump(JSON.parse(body), { stream: response, send, end: () => response.end() });
    });
  });
  server.listen(0, "127.0.0.1", 4096, () => announce(server.address().port));
}

function ws() {
  const { WebSocketServer } = require("ws");
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  sockets.on("connection", (socket) => {
    socket.on("error", () => {});
    socket.on("message", (data) => {
      const send = () => socket.send(TEXT);
      pump(data.toString(), { stream: socket._socket, send, end: () => socket.close() });
    });
  });
  server.listen(0, "127.0.0.1", 4096, () => announce(server.address().port));
}

function grpc() {
  const grpc = require("@grpc/grpc-js");
  const same = (bytes) => bytes;
  const method = {
    path: "/bench.Bench/Stream",
    requestStream: false,
    responseStream: true,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const server = new grpc.Server();
  const Stream = (call) => {
    call.on("error", () => {});
    // What belongs together goes as one message, as ours does.
    const send = (count) => call.write(Buffer.from(TEXT.repeat(count)));
    pump(call.request.toString(), { stream: call, send, end: () => call.end(), together: true });
  };
  server.addService({ Stream: method }, { Stream });
  server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    announce(port);
  });
}

const announce = (port) => console.log(`127.0.0.1:${port}`);
({ http, ws, grpc })[positionals[0]]();
