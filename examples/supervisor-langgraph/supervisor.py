"""A LangGraph supervisor whose sub-agents are seen live in the frontend, although LangGraph drops what they stream.

It calls its sub-agents through Aqueduct (`/a2a/{name}`) and hands on the token that it was given. That is all: the
tools below return one text each, as tools do, and know nothing of events.

    python supervisor.py --gateway http://127.0.0.1:8080 --port 9000
"""

import argparse
import uuid
from typing import Annotated, TypedDict

import uvicorn
from a2a.client import ClientCallContext, create_client
from a2a.helpers import get_stream_response_text, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    SendMessageRequest,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from starlette.applications import Starlette

# What Aqueduct gave with the request, and what goes with the calls that belong to it.
TOKEN = "x-aqueduct-run"


async def ask(gateway: str, agent: str, question: str, token: str) -> str:
    """Asks a sub-agent through the gateway; only its answer comes back."""
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=question)])
    context = ClientCallContext(service_parameters={TOKEN: token} if token else None, timeout=60)
    answer = ""
    async with await create_client(f"{gateway}/a2a/{agent}") as client:
        async for event in client.send_message(SendMessageRequest(message=message), context=context):
            # Status updates and tool notices are dropped here, as most supervisors do.
            if event.HasField("artifact_update"):
                answer += get_stream_response_text(event)
    return answer


@tool
async def ask_argocd(question: str, config: RunnableConfig) -> str:
    """Asks the agent that knows the deployments."""
    run = config["configurable"]
    return await ask(run["gateway"], "argocd", question, run["token"])


@tool
async def ask_jira(question: str, config: RunnableConfig) -> str:
    """Asks the agent that knows the issues."""
    run = config["configurable"]
    return await ask(run["gateway"], "jira", question, run["token"])


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def model(state: State) -> State:
    """A model by script, so that the example needs no key: both tools at once, then a summary of what they said."""
    results = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    if results:
        said = " ".join(str(message.content) for message in sorted(results, key=lambda one: str(one.name)))
        return {"messages": [AIMessage(f"Summary: {said}")]}
    question = str(state["messages"][-1].content)
    calls = [
        {"name": name, "args": {"question": question}, "id": f"call-{name}"} for name in ("ask_argocd", "ask_jira")
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def build_graph():
    """Model, tools, model: the graph of every tool-calling agent."""
    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([ask_argocd, ask_jira]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile()


class Supervisor(AgentExecutor):
    """The graph as an A2A agent: one question in, one answer out."""

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.graph = build_graph()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        # The one line that the tee needs: the token of this request goes where the tools find it.
        token = context.call_context.state["headers"].get(TOKEN, "")
        config = {"configurable": {"gateway": self.gateway, "token": token}}
        question = [HumanMessage(context.get_user_input())]
        result = await self.graph.ainvoke({"messages": question}, config)
        await updater.add_artifact([new_text_part(str(result["messages"][-1].content))], last_chunk=True)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def build_app(executor: AgentExecutor, name: str, url: str, path: str = "/") -> list:
    """The routes of an A2A agent."""
    card = AgentCard(
        name=name,
        description=f"The agent {name}",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=name, name=name, description=name, tags=[name])],
    )
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    card_path = f"{path.rstrip('/')}/.well-known/agent-card.json"
    return create_jsonrpc_routes(handler, path) + create_agent_card_routes(card, card_url=card_path)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gateway", default="http://127.0.0.1:8080")
    options.add_argument("--port", type=int, default=9000)
    chosen = options.parse_args()
    routes = build_app(Supervisor(chosen.gateway), "supervisor", f"http://127.0.0.1:{chosen.port}")
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=chosen.port, log_level="warning")


if __name__ == "__main__":
    main()
