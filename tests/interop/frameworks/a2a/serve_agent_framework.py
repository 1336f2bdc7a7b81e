"""agent-framework's A2A hosting, as documented: `serve_agent_framework.py <port> [whole]` (`stream=False`)."""
from server import arguments, listen, serve

import tempfile

import fake_model
import tools
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import Agent, FileHistoryProvider, tool
from agent_framework.a2a import A2AExecutor
from agent_framework.openai import OpenAIChatCompletionClient
from starlette.applications import Starlette

port, variant = arguments()
listener, address = listen(port)
client = OpenAIChatCompletionClient(model="fake", api_key="none", base_url=fake_model.serve())
agent = Agent(
    client=client, name="agent_framework", description="An agent of agent-framework.",
    # The hosting makes a new session for every request: only a provider that stores by the session's id remembers.
    context_providers=[FileHistoryProvider(tempfile.mkdtemp())],
    tools=[tool(tools.weather), tool(approval_mode="always_require")(tools.deploy)],
)
card = AgentCard(
    name="agent_framework", description="An agent of agent-framework.", version="1.0.0",
    default_input_modes=["text"], default_output_modes=["text"], capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[AgentInterface(url=f"{address}/", protocol_binding="JSONRPC")], skills=[],
)
handler = DefaultRequestHandler(
    agent_executor=A2AExecutor(agent, stream=variant != "whole"), task_store=InMemoryTaskStore(), agent_card=card
)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
serve(app, listener, address)
