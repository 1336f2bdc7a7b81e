// A proxy on a port of its own that cuts connections where a test says. It passes bytes on and knows of HTTP only that
// `data: ` begins an event.
import { connect, createServer } from "node:net";

/**
 * `cut(connection)` says where the answer on the n-th connection (from 0) is cut: `{ events: k }` after k whole events,
 * `{ bytes: k }` after k bytes, `{ refuse: true }` at once; undefined lets it pass. A cut is a reset, as a network does it.
 */
export async function startProxy(upstream, cut) {
  const { hostname, port } = new URL(upstream);
  const proxy = { connections: 0, cuts: 0, url: "" };
  const sockets = new Set();
  const server = createServer((client) => {
    const limit = cut(proxy.connections) ?? {};
    proxy.connections += 1;
    sockets.add(client);
    client.on("close", () => sockets.delete(client));
    if (limit.refuse) {
      proxy.cuts += 1;
      return client.resetAndDestroy();
    }
    const server = connect(Number(port), hostname);
    const passed = Counter(limit);
    client.pipe(server);
    server.on("data", (chunk) => {
      const whole = passed(chunk);
      if (whole === chunk.length) return void client.write(chunk);
      proxy.cuts += 1;
      server.destroy();
      client.write(chunk.subarray(0, whole), () => client.resetAndDestroy());
    });
    server.on("close", () => client.end());
    client.on("close", () => server.destroy());
    for (const socket of [client, server]) socket.on("error", () => socket.destroy());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy.url = upstream.replace(`${hostname}:${port}`, `127.0.0.1:${server.address().port}`);
  proxy.stop = () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  };
  return proxy;
}

/** How many bytes of the next chunk may pass. The end of an event is the empty line after its data. */
function Counter({ events = Infinity, bytes = Infinity }) {
  let [inData, line, seen, passed] = [false, "", 0, 0];
  return (chunk) => {
    for (let at = 0; at < chunk.length; at += 1) {
      if (seen >= events || passed >= bytes) return at;
      passed += 1;
      const byte = chunk[at];
      if (byte !== 10) {
        if (line.length < 6) line += String.fromCharCode(byte);
        continue;
      }
      if (line === "data: ") inData = true;
      else if (line === "" && inData) {
        inData = false;
        seen += 1;
      }
      line = "";
    }
    return chunk.length;
  };
}
