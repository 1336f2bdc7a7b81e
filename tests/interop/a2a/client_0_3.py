"""The Python SDK 0.3.26 as a client: the same as ``client_1_3.py``, in the words of 0.3.

    client_0_3.py URL --binding JSONRPC|HTTP+JSON|GRPC --modes MODE,MODE…
"""

import argparse
import asyncio
import json
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskStatusUpdateEvent,
    TextPart,
)

STATES = {"canceled": "TASK_STATE_CANCELED"}


def state_name(state):
    return STATES.get(state.value, "TASK_STATE_" + state.value.upper().replace("-", "_"))


def text_of(parts):
    return "".join(part.root.text for part in parts if part.root.kind == "text")


class Seen:
    def __init__(self):
        self.first = self.state = self.task_id = self.context_id = self.message = None
        self.artifacts, self.order, self.statuses, self.files, self.data = {}, [], [], [], []
        self.events = 0

    def artifact(self, artifact, append):
        key = artifact.artifact_id
        if key not in self.artifacts:
            self.order.append(key)
        for part in artifact.parts:
            if part.root.kind == "file":
                file = part.root.file
                found = {"name": file.name, "mediaType": file.mime_type}
                found.update({"data": file.bytes} if hasattr(file, "bytes") else {"url": file.uri})
                self.files.append(found)
            elif part.root.kind == "data":
                self.data.append(part.root.data)
        text = text_of(artifact.parts)
        self.artifacts[key] = self.artifacts.get(key, "") + text if append else text

    def status(self, status):
        self.state = state_name(status.state)
        if status.message:
            self.statuses.append(text_of(status.message.parts))

    def take(self, event):
        self.events += 1
        if isinstance(event, Message):
            self.first = self.first or "message"
            self.message = text_of(event.parts)
            return
        task, update = event
        self.task_id, self.context_id = task.id, task.context_id
        if update is None:
            self.first = self.first or "task"
            self.state = state_name(task.status.state)
            for artifact in task.artifacts or []:
                self.artifact(artifact, False)
        elif isinstance(update, TaskStatusUpdateEvent):
            self.first = self.first or "status_update"
            self.status(update.status)
        elif isinstance(update, TaskArtifactUpdateEvent):
            self.first = self.first or "artifact_update"
            self.artifact(update.artifact, update.append)

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


def message(text, task_id=None, context_id=None):
    return Message(
        message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))],
        task_id=task_id, context_id=context_id,
    )


async def play(client, mode):
    seen, other = Seen(), None
    async for event in client.send_message(message(mode)):
        seen.take(event)
        if mode == "many" and seen.events % 500 == 0:
            await asyncio.sleep(0.2)  # A slow reader.
        if mode == "wait" and "".join(seen.artifacts.values()) == "so far" and other is None:
            other = asyncio.create_task(client.cancel_task(TaskIdParams(id=seen.task_id)))
        if mode == "hold" and "".join(seen.artifacts.values()) == "before " and other is None:
            other = asyncio.create_task(watch(client, seen.task_id))
    seen.report()
    if other is not None:
        answer = await other
        if mode == "hold":
            answer.report()
    if mode in ("ask", "auth"):
        reply = Seen()
        async for event in client.send_message(message("prod", seen.task_id, seen.context_id)):
            reply.take(event)
        reply.report()


async def watch(client, task_id):
    seen = Seen()
    async for event in client.resubscribe(TaskIdParams(id=task_id)):
        seen.take(event)
    return seen


async def main(args):
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(
            httpx_client=http,
            # gRPC takes targets, not addresses: the scheme of the card's interface goes.
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix("http://")),
            supported_transports=[args.binding],
            use_client_preference=True,
        )
        client = await ClientFactory.connect(args.url, client_config=config)
        for mode in args.modes.split(","):
            await play(client, mode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--binding", required=True)
    parser.add_argument("--modes", required=True)
    asyncio.run(main(parser.parse_args()))
