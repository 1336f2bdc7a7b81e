"""A client of the Python SDK 1.3.0 that joins every text and data part into the answer, as BeeAI and CrewAI do.

    joiner_1_3.py TEAM QUESTION

One line of JSON: per binding the answer of a stream and of a blocking call, and a question with the answer to its reply.
"""

import asyncio
import json
import sys
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskState
from google.protobuf import json_format


def joined(parts):
    words = []
    for part in parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            words.append(part.text)
        elif kind == "data":
            words.append(json.dumps(json_format.MessageToDict(part.data)))
    return "".join(words)


class Answer:
    def __init__(self):
        self.artifacts, self.status, self.task_id, self.context_id, self.state = {}, "", "", "", ""

    def take_status(self, status):
        self.state = TaskState.Name(status.state)
        self.status = joined(status.message.parts) if status.HasField("message") else ""

    def take(self, event):
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.task_id, self.context_id = event.task.id, event.task.context_id
            for artifact in event.task.artifacts:
                self.artifacts[artifact.artifact_id] = joined(artifact.parts)
            self.take_status(event.task.status)
        elif kind == "status_update":
            self.task_id, self.context_id = event.status_update.task_id, event.status_update.context_id
            self.take_status(event.status_update.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            before = self.artifacts.get(update.artifact.artifact_id, "") if update.append else ""
            self.artifacts[update.artifact.artifact_id] = before + joined(update.artifact.parts)
        elif kind == "message":
            self.artifacts[""] = joined(event.message.parts)

    def text(self):
        return "".join(self.artifacts.values()) + self.status


async def say(client, words, last=None):
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=words)])
    if last is not None:
        message.task_id, message.context_id = last.task_id, last.context_id
    answer = Answer()
    async for event in client.send_message(SendMessageRequest(message=message)):
        answer.take(event)
    return answer


async def play(http, team, question, binding, streaming):
    config = ClientConfig(
        httpx_client=http,
        streaming=streaming,
        grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix("http://")),
        supported_protocol_bindings=[binding],
        use_client_preference=True,
    )
    factory = ClientFactory(config)
    answer = await say(await factory.create_from_url(team), "go")
    client = await factory.create_from_url(question)
    asked = await say(client, "go")
    replied = await say(client, "late", asked)
    return {"answer": answer.text(), "question": asked.text(), "asks": asked.state, "reply": replied.text()}


async def main():
    seen = {}
    async with httpx.AsyncClient(timeout=60) as http:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            for streaming in (True, False):
                name = f"{binding} {'stream' if streaming else 'blocking'}"
                seen[name] = await play(http, sys.argv[1], sys.argv[2], binding, streaming)
    print(json.dumps(seen))


asyncio.run(main())
