"""A pydantic-ai agent behind its AG-UI adapter. `question` is a tool that requires approval."""
import common
import tools
from ag_ui.core import EventType, StateSnapshotEvent
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolReturn
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route


class State(BaseModel):
    color: str = "none"


model = OpenAIChatModel("fake", provider=OpenAIProvider(base_url=common.model_url(), api_key="none"))
agent = Agent(model, deps_type=StateDeps[State], output_type=[str, DeferredToolRequests])
agent.tool_plain(requires_approval=True)(tools.deploy)


@agent.tool_plain
def weather(city: str) -> str:
    """The weather of a city."""
    try:
        return tools.weather(city)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


@agent.tool
def set_color(ctx: RunContext[StateDeps[State]], color: str) -> ToolReturn:
    """Sets the color."""
    ctx.deps.state.color = color
    snapshot = StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot=ctx.deps.state)
    return ToolReturn(return_value=f"The color is {color}.", metadata=[snapshot])


async def run(request):
    return await AGUIAdapter.dispatch_request(request, agent=agent, deps=StateDeps(State()))


common.serve(Starlette(routes=[Route("/", run, methods=["POST"])]))
