// The same as joiner_1_3.py, with the npm SDK 1.3.0.
//
//   node joiner.mjs FOLDER-WITH-NODE-MODULES TEAM QUESTION
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const [project, team, question] = process.argv.slice(2);
const require = createRequire(`${project}/`);
const { Role, TaskState } = require("@a2a-js/sdk");
const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = require("@a2a-js/sdk/client");
const { GrpcTransportFactory } = require("@a2a-js/sdk/client/grpc");

// grpc-js takes targets, not addresses: the scheme of the card's interface goes.
class TargetFactory extends GrpcTransportFactory {
  create(url, ...rest) {
    return super.create(url.replace(/^http:\/\//, ""), ...rest);
  }
}

const FACTORIES = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory, GRPC: TargetFactory };

function joined(parts) {
  const words = { text: (value) => value, data: (value) => JSON.stringify(value) };
  return (parts ?? []).map(({ content }) => words[content?.$case]?.(content.value) ?? "").join("");
}

class Answer {
  artifacts = new Map();
  status = "";

  takeStatus({ state, message }) {
    this.state = TaskState[state];
    this.status = joined(message?.parts);
  }

  take({ payload: { $case: kind, value } }) {
    if (kind === "task") {
      [this.taskId, this.contextId] = [value.id, value.contextId];
      for (const { artifactId, parts } of value.artifacts) this.artifacts.set(artifactId, joined(parts));
      this.takeStatus(value.status);
    } else if (kind === "statusUpdate") {
      [this.taskId, this.contextId] = [value.taskId, value.contextId];
      this.takeStatus(value.status);
    } else if (kind === "artifactUpdate") {
      const { artifactId, parts } = value.artifact;
      this.artifacts.set(artifactId, (value.append ? (this.artifacts.get(artifactId) ?? "") : "") + joined(parts));
    } else if (kind === "message") {
      this.artifacts.set("", joined(value.parts));
    }
  }

  text() {
    return [...this.artifacts.values()].join("") + this.status;
  }
}

function request(text, { taskId = "", contextId = "" } = {}) {
  const part = { content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" };
  const message = { messageId: randomUUID(), taskId, contextId, role: Role.ROLE_USER, parts: [part], metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { tenant: "", message, configuration: undefined, metadata: undefined };
}

async function say(client, streams, text, last) {
  const answer = new Answer();
  if (streams) {
    for await (const event of client.sendMessageStream(request(text, last))) answer.take(event);
    return answer;
  }
  const whole = await client.sendMessage(request(text, last));
  answer.take(whole.payload === undefined ? { payload: { $case: whole.status === undefined ? "message" : "task", value: whole } } : whole);
  return answer;
}

async function play(binding, streams) {
  const factory = new ClientFactory({ transports: [new FACTORIES[binding]()], preferredTransports: [binding] });
  const connect = (url) => factory.createFromUrl(`${url}/.well-known/agent-card.json`, "");
  const answer = await say(await connect(team), streams, "go");
  const client = await connect(question);
  const asked = await say(client, streams, "go");
  const replied = await say(client, streams, "late", asked);
  return { answer: answer.text(), question: asked.text(), asks: asked.state, reply: replied.text() };
}

const seen = {};
for (const binding of Object.keys(FACTORIES)) {
  for (const streams of [true, false]) seen[`${binding} ${streams ? "stream" : "blocking"}`] = await play(binding, streams);
}
console.log(JSON.stringify(seen));
process.exit(0);
