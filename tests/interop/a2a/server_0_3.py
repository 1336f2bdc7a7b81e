"""A scripted A2A 0.3 agent on the Python SDK 0.3.26: JSON-RPC at ``/``, HTTP+JSON below ``/rest``, gRPC on a port of its own.

Prints its address, then serves until it is ended.
"""

import asyncio
import socket

import grpc
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task

from modes import Agent, Player, listening, noticed


class Updates(Player):
    def __init__(self, queue, task_id, context_id):
        self.queue = queue
        self.updater = TaskUpdater(queue, task_id, context_id)

    def said(self, text):
        return self.updater.new_agent_message([self.text(text)]) if text else None

    async def status(self, text):
        await self.updater.update_status(TaskState.working, self.said(text))

    async def artifact(self, artifact, part, append=False, last=False):
        await self.updater.add_artifact([part], artifact, artifact, append=append, last_chunk=last)

    async def ask(self, text):
        await self.updater.requires_input(self.said(text), final=True)

    async def auth(self, text):
        await self.updater.requires_auth(self.said(text), final=True)

    async def fail(self, text):
        await self.updater.failed(self.said(text))

    async def complete(self, text):
        await self.updater.complete(self.said(text))

    async def message(self, text):
        await self.queue.enqueue_event(new_agent_text_message(text))

    def text(self, text):
        return Part(root=TextPart(text=text))

    def bytes(self, text, media_type, filename):
        return Part(root=FilePart(file=FileWithBytes(bytes=text, mime_type=media_type, name=filename)))

    def url(self, url, media_type, filename):
        return Part(root=FilePart(file=FileWithUri(uri=url, mime_type=media_type, name=filename)))

    def data(self, data):
        return Part(root=DataPart(data=data))


class Executor(AgentExecutor):
    def __init__(self):
        self.agent = Agent()

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        task = context.current_task
        if task is None and not self.agent.is_bare(text):
            await event_queue.enqueue_event(new_task(context.message))
        player = Updates(event_queue, context.task_id, context.context_id)
        await self.agent.play(player, context.task_id, text, task is not None)

    async def cancel(self, context, event_queue):
        noticed("cancelled")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card_of(http, grpc_port):
    return AgentCard(
        name="scripted",
        description="Plays modes.",
        version="1",
        url=f"{http}/",
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(url=f"{http}/", transport="JSONRPC"),
            AgentInterface(url=f"{http}/rest", transport="HTTP+JSON"),
            AgentInterface(url=f"127.0.0.1:{grpc_port}", transport="GRPC"),
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="play", name="play", description="Plays modes.", tags=["test"])],
    )


async def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    card = card_of(http, grpc_server.add_insecure_port("127.0.0.1:0"))
    handler = DefaultRequestHandler(Executor(), InMemoryTaskStore())
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), grpc_server)
    await grpc_server.start()
    app = A2AStarletteApplication(card, handler).build()
    app.mount("/rest", A2ARESTFastAPIApplication(card, handler).build())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    listening(http)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
