"""A LangGraph agent with a checkpointer behind ag-ui-langgraph. `question` is an `interrupt` inside the tool.

`GET /checkpoint/{thread}` returns the messages that the checkpoint of a thread holds.
"""
import common
import tools
from typing import Annotated, NotRequired

from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt


class State(AgentState):
    color: NotRequired[str]


@tool
def deploy(cluster: str) -> str:
    """Deploys to a cluster."""
    answer = interrupt({"question": f"Deploy to {cluster}?"})
    return f"{tools.deploy(cluster)} Answer: {answer}"


@tool
def set_color(color: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Sets the color."""
    return Command(update={"color": color, "messages": [ToolMessage(f"The color is {color}.", tool_call_id=tool_call_id)]})


@wrap_tool_call
async def tell_errors(request, handler):
    try:
        return await handler(request)
    except ValueError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


class ReasoningModel(ChatOpenAI):
    """Keeps the reasoning of a delta, which the parent class drops and the models for other vendors keep."""

    def _convert_chunk_to_generation_chunk(self, chunk, default_chunk_class, base_generation_info):
        generation = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        for choice in chunk.get("choices") or []:
            if reasoning := choice["delta"].get("reasoning_content"):
                generation.message.additional_kwargs["reasoning_content"] = reasoning
        return generation


model = ReasoningModel(model="fake", base_url=common.model_url(), api_key="none", max_retries=0, use_responses_api=False)
graph = create_agent(
    model, [tool(tools.weather), deploy, set_color], state_schema=State, middleware=[tell_errors], checkpointer=InMemorySaver()
)
app = FastAPI()
# By default the adapter tells an interrupt as a CUSTOM event only: that is `/legacy`.
add_langgraph_fastapi_endpoint(app, LangGraphAgent(name="agent", graph=graph, emit_interrupt_outcome=True), "/")
add_langgraph_fastapi_endpoint(app, LangGraphAgent(name="agent", graph=graph), "/legacy")


@app.get("/checkpoint/{thread}")
async def checkpoint(thread: str):
    state = await graph.aget_state({"configurable": {"thread_id": thread}})
    return [message.model_dump(mode="json") for message in state.values.get("messages", [])]


common.serve(app)
