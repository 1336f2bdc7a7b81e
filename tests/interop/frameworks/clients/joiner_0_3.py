"""The same as joiner_1_3.py, with the Python SDK 0.3.26.

    joiner_0_3.py TEAM QUESTION
"""

import asyncio
import json
import sys
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TextPart


def joined(parts):
    words = []
    for part in parts:
        if part.root.kind == "text":
            words.append(part.root.text)
        elif part.root.kind == "data":
            words.append(json.dumps(part.root.data))
    return "".join(words)


async def say(client, words, last=None):
    message = Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=TextPart(text=words))])
    if last is not None:
        message.task_id, message.context_id = last.id, last.context_id
    task = None
    async for event in client.send_message(message):
        task = event[0]
    return task


def text(task):
    words = "".join(joined(artifact.parts) for artifact in task.artifacts or [])
    return words + (joined(task.status.message.parts) if task.status.message else "")


async def play(http, team, question, binding, streaming):
    config = ClientConfig(
        httpx_client=http,
        streaming=streaming,
        grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix("http://")),
        supported_transports=[binding],
        use_client_preference=True,
    )
    answer = await say(await ClientFactory.connect(team, client_config=config), "go")
    client = await ClientFactory.connect(question, client_config=config)
    asked = await say(client, "go")
    replied = await say(client, "late", asked)
    asks = f"TASK_STATE_{asked.status.state.value.upper().replace('-', '_')}"
    return {"answer": text(answer), "question": text(asked), "asks": asks, "reply": text(replied)}


async def main():
    seen = {}
    async with httpx.AsyncClient(timeout=60) as http:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            for streaming in (True, False):
                name = f"{binding} {'stream' if streaming else 'blocking'}"
                seen[name] = await play(http, sys.argv[1], sys.argv[2], binding, streaming)
    print(json.dumps(seen))


asyncio.run(main())
