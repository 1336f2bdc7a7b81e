"""A scripted A2A 1.0 agent on the Python SDK 1.3.0: JSON-RPC at ``/``, HTTP+JSON below ``/rest``, gRPC on a port of its own.

Prints its address, then serves until it is ended. With ``--compat`` it speaks 0.3 as well.
"""

import argparse
import asyncio
import base64
import socket

import grpc
import uvicorn
from a2a.helpers import proto_helpers as make
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Role,
    TaskState,
)
from google.protobuf import json_format, struct_pb2
from starlette.applications import Starlette

from modes import Agent, Player, listening, noticed


class Updates(Player):
    def __init__(self, queue, task_id, context_id):
        self.queue = queue
        self.updater = TaskUpdater(queue, task_id, context_id)

    def said(self, text):
        return self.updater.new_agent_message([Part(text=text)]) if text else None

    async def status(self, text):
        await self.updater.update_status(TaskState.TASK_STATE_WORKING, self.said(text))

    async def artifact(self, artifact, part, append=False, last=False):
        await self.updater.add_artifact([part], artifact, artifact, append=append, last_chunk=last)

    async def ask(self, text):
        await self.updater.requires_input(self.said(text))

    async def auth(self, text):
        await self.updater.requires_auth(self.said(text))

    async def fail(self, text):
        await self.updater.failed(self.said(text))

    async def complete(self, text):
        await self.updater.complete(self.said(text))

    async def message(self, text):
        await self.queue.enqueue_event(make.new_text_message(text, role=Role.ROLE_AGENT))

    def text(self, text):
        return Part(text=text)

    def bytes(self, text, media_type, filename):
        return Part(raw=base64.b64decode(text), media_type=media_type, filename=filename)

    def url(self, url, media_type, filename):
        return Part(url=url, media_type=media_type, filename=filename)

    def data(self, data):
        return Part(data=json_format.ParseDict(data, struct_pb2.Value()))


class Executor(AgentExecutor):
    def __init__(self):
        self.agent = Agent()

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        is_follow_up = context.current_task is not None
        if not is_follow_up and not self.agent.is_bare(text):
            await event_queue.enqueue_event(
                make.new_task(
                    context.task_id, context.context_id, TaskState.TASK_STATE_SUBMITTED, history=[context.message]
                )
            )
        player = Updates(event_queue, context.task_id, context.context_id)
        await self.agent.play(player, context.task_id, text, is_follow_up)

    async def cancel(self, context, event_queue):
        noticed("cancelled")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card_of(http, grpc_port):
    interfaces = [
        AgentInterface(url=f"{http}/", protocol_binding="JSONRPC", protocol_version="1.0"),
        AgentInterface(url=f"{http}/rest", protocol_binding="HTTP+JSON", protocol_version="1.0"),
        AgentInterface(url=f"127.0.0.1:{grpc_port}", protocol_binding="GRPC", protocol_version="1.0"),
    ]
    return AgentCard(
        name="scripted",
        description="Plays modes.",
        version="1",
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="play", name="play", description="Plays modes.", tags=["test"])],
    )


async def main(compat):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    card = card_of(http, grpc_server.add_insecure_port("127.0.0.1:0"))
    handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), card)
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    if compat:
        from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
        from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler

        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), grpc_server)
    await grpc_server.start()
    routes = create_agent_card_routes(card)
    routes += create_jsonrpc_routes(handler, "/", enable_v0_3_compat=compat)
    routes += create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=compat)
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    listening(http)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compat", action="store_true")
    asyncio.run(main(parser.parse_args().compat))
