// The npm SDK 1.3.0 as a client: the same as client_1_3.py.
//
// node client.mjs --project FOLDER-WITH-NODE-MODULES URL --binding JSONRPC|HTTP+JSON|GRPC --modes MODE,MODE…
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { project: { type: 'string' }, binding: { type: 'string' }, modes: { type: 'string' } },
});
const require = createRequire(`${values.project}/`);
const { TaskState, Role } = require('@a2a-js/sdk');
const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = require('@a2a-js/sdk/client');
const { GrpcTransportFactory } = require('@a2a-js/sdk/client/grpc');

// grpc-js takes targets, not addresses: the scheme of the card's interface goes.
class TargetFactory extends GrpcTransportFactory {
  create(url, ...rest) {
    return super.create(url.replace(/^http:\/\//, ''), ...rest);
  }
}

const FACTORIES = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: TargetFactory };

class Seen {
  artifacts = new Map();
  statuses = [];
  files = [];
  data = [];
  first = null;
  state = null;
  message = null;
  events = 0;

  words(parts) {
    return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('');
  }

  parts(parts) {
    let text = '';
    for (const { content, filename, mediaType } of parts) {
      if (content?.$case === 'text') text += content.value;
      if (content?.$case === 'raw') this.files.push({ name: filename, mediaType, data: Buffer.from(content.value).toString('base64') });
      if (content?.$case === 'url') this.files.push({ name: filename, mediaType, url: content.value });
      if (content?.$case === 'data') this.data.push(content.value);
    }
    return text;
  }

  artifact({ artifactId, parts }, append) {
    const text = this.parts(parts);
    this.artifacts.set(artifactId, append ? (this.artifacts.get(artifactId) ?? '') + text : text);
  }

  take({ payload }) {
    this.first ??= payload.$case;
    this.events += 1;
    const own = payload.value;
    if (payload.$case === 'task') {
      [this.taskId, this.contextId, this.state] = [own.id, own.contextId, TaskState[own.status.state]];
      own.artifacts.forEach((artifact) => this.artifact(artifact, false));
    } else if (payload.$case === 'message') {
      this.message = this.words(own.parts);
    } else if (payload.$case === 'statusUpdate') {
      this.state = TaskState[own.status.state];
      if (own.status.message) this.statuses.push(this.words(own.status.message.parts));
    } else {
      this.artifact(own.artifact, own.append);
    }
  }

  text() {
    return [...this.artifacts.values()].join('');
  }

  report() {
    const { first, state, statuses, files, data, message } = this;
    const answers = [...this.artifacts.values()].filter((text) => text);
    console.log(JSON.stringify({ first, state, answers, statuses, files, data, message }));
  }
}

const request = (text, taskId = '', contextId = '') => ({
  tenant: '',
  message: {
    messageId: crypto.randomUUID(), contextId, taskId, role: Role.ROLE_USER, metadata: undefined, extensions: [], referenceTaskIds: [],
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
  },
  configuration: undefined,
  metadata: undefined,
});

async function read(stream, seen, each = async () => {}) {
  for await (const event of stream) {
    seen.take(event);
    await each();
  }
  return seen;
}

const factory = new ClientFactory({ transports: [new FACTORIES[values.binding]()], preferredTransports: [values.binding] });
const client = await factory.createFromUrl(`${positionals[0]}/.well-known/agent-card.json`, '');

const say = (text, { taskId, contextId }) => read(client.sendMessageStream(request(text, taskId, contextId)), new Seen());

async function look(what, id) {
  const get = () => client.getTask({ tenant: '', id, historyLength: undefined });
  let task = await (what === 'get' ? get() : client.cancelTask({ tenant: '', id, metadata: undefined }));
  while (what === 'get' && task.status.state === TaskState.TASK_STATE_WORKING) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    task = await get();
  }
  const seen = new Seen();
  seen.take({ payload: { $case: 'task', value: task } });
  seen.report();
}

async function watchAndAnswer(id, text) {
  const seen = new Seen();
  let reply = null;
  await read(client.resubscribeTask({ tenant: '', id }), seen, async () => {
    if (seen.state === 'TASK_STATE_INPUT_REQUIRED') reply ??= say(text, seen);
  });
  seen.report();
  (await reply).report();
}

async function play(mode) {
  const [what, id, text] = mode.split(':');
  if (what === 'watch') return watchAndAnswer(id, text);
  if (id) return look(what, id);
  const seen = new Seen();
  let other = null;
  await read(client.sendMessageStream(request(mode)), seen, async () => {
    // A slow reader.
    if (mode === 'many' && seen.events % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 200));
    if (other) return;
    if (mode === 'wait' && seen.text() === 'so far') other = client.cancelTask({ tenant: '', id: seen.taskId, metadata: undefined });
    if (mode === 'hold' && seen.text() === 'before ') other = read(client.resubscribeTask({ tenant: '', id: seen.taskId }), new Seen());
  });
  seen.report();
  if (mode === 'hold') (await other).report();
  if (mode === 'wait') await other;
  if (mode === 'ask' || mode === 'auth') {
    (await say('prod', seen)).report();
  }
}

for (const mode of values.modes.split(',')) await play(mode);
process.exit(0);
