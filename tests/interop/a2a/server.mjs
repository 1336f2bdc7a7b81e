// A scripted A2A 1.0 agent on the npm SDK 1.3.0: JSON-RPC at `/`, HTTP+JSON below `/rest`, gRPC on a port of its own.
//
// node server.mjs --project FOLDER-WITH-NODE-MODULES. Prints its address, then serves until it is ended. The first word
// of a message names the mode (modes.json); a message to a task that waits plays the mode's `reply`.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { project: { type: 'string' } } });
const require = createRequire(`${values.project}/`);
const { TaskState, Role } = require('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require('@a2a-js/sdk/server');
const { jsonRpcHandler, restHandler, agentCardHandler, UserBuilder } = require('@a2a-js/sdk/server/express');
const { grpcService, A2AService } = require('@a2a-js/sdk/server/grpc');
const grpc = require('@grpc/grpc-js');
const express = require('express');

const MODES = JSON.parse(readFileSync(new URL('modes.json', import.meta.url)));

const part = (content, mediaType = '', filename = '') => ({ content, metadata: undefined, filename, mediaType });
const words = (text) => part({ $case: 'text', value: text });

// The SDK's store copies every part of a task twice per event, so 5,000 chunks cost it 40 s: this one copies no parts.
class Store extends InMemoryTaskStore {
  tasks = new Map();

  copy(task) {
    const artifacts = task.artifacts.map((artifact) => ({ ...artifact, parts: [...artifact.parts] }));
    return { ...task, artifacts, history: [...task.history] };
  }

  async load(id) {
    const task = this.tasks.get(id);
    return task && this.copy(task);
  }

  async save(task) {
    this.tasks.set(task.id, this.copy(task));
  }
}

class Executor {
  modes = new Map();
  stopped = new Map();
  release = () => {};

  async execute(context, bus) {
    const text = context.userMessage.parts.map((own) => (own.content?.$case === 'text' ? own.content.value : '')).join('');
    const { taskId, contextId, task } = context;
    const mode = task ? this.modes.get(taskId) : (MODES[text.split(' ')[0]] ?? MODES.tools);
    this.modes.set(taskId, mode);
    const steps = task ? mode.reply : mode.steps;
    if (!steps.some((step) => step.message !== undefined)) {
      // The SDK wants a task first in every turn; one that goes on is restated as it was, with its question.
      const status = { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: undefined };
      const fresh = { id: taskId, contextId, status, artifacts: [], history: [context.userMessage], metadata: undefined };
      bus.publish(AgentEvent.task(task ?? fresh));
    }
    const player = this.player(taskId, contextId, bus);
    for (const step of steps) {
      for (const [kind, what] of Object.entries(step)) {
        await player[kind](what, text);
      }
    }
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    process.stderr.write('cancelled\n');
    this.stopped.get(taskId)?.(bus);
  }

  player(taskId, contextId, bus) {
    const said = (text) => ({
      messageId: crypto.randomUUID(), contextId, taskId, role: Role.ROLE_AGENT, parts: [words(text)],
      metadata: undefined, extensions: [], referenceTaskIds: [],
    });
    const status = (state, text) => {
      const own = { state, message: text ? said(text) : undefined, timestamp: new Date().toISOString() };
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: own, metadata: undefined }));
    };
    const artifact = (artifactId, parts, append = false, lastChunk = false) => {
      const own = { artifactId, name: artifactId, description: '', parts, metadata: undefined, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact: own, append, lastChunk, metadata: undefined }));
    };
    return {
      status: (text) => status(TaskState.TASK_STATE_WORKING, text),
      ask: (text) => status(TaskState.TASK_STATE_INPUT_REQUIRED, text),
      auth: (text) => status(TaskState.TASK_STATE_AUTH_REQUIRED, text),
      fail: (text) => status(TaskState.TASK_STATE_FAILED, text),
      complete: (text) => status(TaskState.TASK_STATE_COMPLETED, text),
      message: (text) => bus.publish(AgentEvent.message({ ...said(text), taskId: '' })),
      chunk: (what, text) =>
        artifact(what.artifact, [words(what.text.replace('{text}', text))], what.append, what.last),
      bytes: (what) =>
        artifact(what.artifact, [part({ $case: 'raw', value: Buffer.from(what.base64, 'base64') }, what.mediaType, what.filename)], false, true),
      url: (what) => artifact(what.artifact, [part({ $case: 'url', value: what.url }, what.mediaType, what.filename)], false, true),
      data: (what) => artifact(what.artifact, [part({ $case: 'data', value: what.data })], false, true),
      many: async (what, text) => {
        // `many 100` counts to another number.
        const count = Number(text.split(' ')[1] ?? what.count);
        for (let number = 0; number < count; number += 1) {
          await new Promise((resolve) => setImmediate(resolve));
          artifact(what.artifact, [words(`${number} `)], number > 0, number + 1 === count);
        }
      },
      sleep: (pause) => new Promise((resolve) => setTimeout(resolve, pause)),
      hold: () => new Promise((resolve) => { this.release = resolve; }),
      release: () => this.release(),
      wait: () => new Promise((resolve) => {
        this.stopped.set(taskId, () => { status(TaskState.TASK_STATE_CANCELED, ''); resolve(); });
      }),
      raise: (text) => { throw new Error(text); },
    };
  }
}

const app = express();
const listener = app.listen(0, '127.0.0.1', () => {
  const http = `http://127.0.0.1:${listener.address().port}`;
  const server = new grpc.Server();
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    const faces = [['JSONRPC', `${http}/`], ['HTTP+JSON', `${http}/rest`], ['GRPC', `127.0.0.1:${port}`]];
    const card = {
      name: 'scripted', description: 'Plays modes.', version: '1', provider: undefined,
      supportedInterfaces: faces.map(([protocolBinding, url]) => ({ url, protocolBinding, tenant: '', protocolVersion: '1.0' })),
      capabilities: { streaming: true, extensions: [] }, securitySchemes: {}, securityRequirements: [],
      defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], signatures: [],
      skills: [{ id: 'play', name: 'play', description: 'Plays modes.', tags: ['test'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
    };
    const requestHandler = new DefaultRequestHandler(card, new Store(), new Executor());
    const userBuilder = UserBuilder.noAuthentication;
    server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
    app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
    app.use('/rest', restHandler({ requestHandler, userBuilder }));
    app.use('/', jsonRpcHandler({ requestHandler, userBuilder }));
    console.log(http);
  });
});
