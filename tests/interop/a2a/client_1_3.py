"""The Python SDK 1.3.0 as a client: plays modes against the agent at a URL and prints what it ended up with.

    client_1_3.py URL --binding JSONRPC|HTTP+JSON|GRPC --modes MODE,MODE…

One line of JSON per turn: the kind of the first event, the last state, the texts of artifacts and statuses in order, files,
data, and the reply without a task. ``ask`` and ``auth`` answer with "prod"; ``wait`` cancels; ``hold`` has a second watcher.

Tasks that others began: ``get:ID`` looks at one until it does not work, ``cancel:ID`` cancels it, ``watch:ID:TEXT`` watches it to its end and
answers its question with the text (two turns: the watcher's, and the answer's).
"""

import argparse
import asyncio
import base64
import json
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from google.protobuf import json_format


class Seen:
    def __init__(self):
        self.first = self.state = self.task_id = self.context_id = self.message = None
        self.artifacts, self.order, self.statuses, self.files, self.data = {}, [], [], [], []
        self.events = 0

    def parts(self, artifact):
        text = ""
        for part in artifact.parts:
            kind = part.WhichOneof("content")
            if kind == "text":
                text += part.text
            elif kind == "raw":
                data = base64.b64encode(part.raw).decode()
                self.files.append({"name": part.filename, "mediaType": part.media_type, "data": data})
            elif kind == "url":
                self.files.append({"name": part.filename, "mediaType": part.media_type, "url": part.url})
            elif kind == "data":
                self.data.append(json_format.MessageToDict(part.data))
        return text

    def artifact(self, artifact, append):
        key = artifact.artifact_id
        if key not in self.artifacts:
            self.order.append(key)
        text = self.parts(artifact)
        self.artifacts[key] = self.artifacts.get(key, "") + text if append else text

    def status(self, status):
        self.state = TaskState.Name(status.state)
        if status.HasField("message"):
            self.statuses.append("".join(part.text for part in status.message.parts))

    def take(self, event):
        kind = event.WhichOneof("payload")
        self.first = self.first or kind
        self.events += 1
        if kind == "task":
            self.task_id, self.context_id = event.task.id, event.task.context_id
            self.state = TaskState.Name(event.task.status.state)
            for artifact in event.task.artifacts:
                self.artifact(artifact, False)
        elif kind == "message":
            self.message = "".join(part.text for part in event.message.parts)
        elif kind == "status_update":
            self.task_id, self.context_id = event.status_update.task_id, event.status_update.context_id
            self.status(event.status_update.status)
        elif kind == "artifact_update":
            self.artifact(event.artifact_update.artifact, event.artifact_update.append)

    def report(self):
        answers = [self.artifacts[key] for key in self.order if self.artifacts[key]]
        print(
            json.dumps(
                {
                    "first": self.first, "state": self.state, "answers": answers, "statuses": self.statuses,
                    "files": self.files, "data": self.data, "message": self.message,
                }
            ),
            flush=True,
        )


def request(text, task_id="", context_id=""):
    message = Message(
        message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id, context_id=context_id
    )
    return SendMessageRequest(message=message)


async def look(client, what, task_id):
    if what == "cancel":
        task = await client.cancel_task(CancelTaskRequest(id=task_id))
    else:
        task = await client.get_task(GetTaskRequest(id=task_id))
        while task.status.state == TaskState.TASK_STATE_WORKING:
            await asyncio.sleep(0.05)
            task = await client.get_task(GetTaskRequest(id=task_id))
    seen = Seen()
    seen.take(StreamResponse(task=task))
    seen.report()


async def say(client, text, task_id, context_id):
    seen = Seen()
    async for event in client.send_message(request(text, task_id, context_id)):
        seen.take(event)
    return seen


async def watch_and_answer(client, task_id, text):
    seen, reply = Seen(), None
    async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
        seen.take(event)
        if seen.state == "TASK_STATE_INPUT_REQUIRED" and reply is None:
            reply = asyncio.create_task(say(client, text, task_id, seen.context_id))
    seen.report()
    (await reply).report()


async def play(client, mode):
    what, *task = mode.split(":")
    if what == "watch":
        return await watch_and_answer(client, *task)
    if task:
        return await look(client, what, *task)
    seen, other = Seen(), None
    async for event in client.send_message(request(mode)):
        seen.take(event)
        if mode == "many" and seen.events % 500 == 0:
            await asyncio.sleep(0.2)  # A slow reader.
        if mode == "wait" and "".join(seen.artifacts.values()) == "so far" and other is None:
            other = asyncio.create_task(client.cancel_task(CancelTaskRequest(id=seen.task_id)))
        if mode == "hold" and "".join(seen.artifacts.values()) == "before " and other is None:
            other = asyncio.create_task(watch(client, seen.task_id))
    seen.report()
    if other is not None:
        answer = await other
        if mode == "hold":
            answer.report()
    if mode in ("ask", "auth"):
        (await say(client, "prod", seen.task_id, seen.context_id)).report()


async def watch(client, task_id):
    seen = Seen()
    async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
        seen.take(event)
    return seen


async def main(args):
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(
            httpx_client=http,
            # gRPC takes targets, not addresses: the scheme of the card's interface goes.
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix("http://")),
            supported_protocol_bindings=[args.binding],
        )
        client = await ClientFactory(config).create_from_url(args.url)
        for mode in args.modes.split(","):
            await play(client, mode)
        await client.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--binding", required=True)
    parser.add_argument("--modes", required=True)
    asyncio.run(main(parser.parse_args()))
