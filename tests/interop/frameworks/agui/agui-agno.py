"""An agno agent behind its AG-UI interface. `question` is a tool that requires confirmation."""
import common
import tools
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai.like import OpenAILike
from agno.os import AgentOS
from agno.os.interfaces.agui import AGUI
from agno.run import RunContext
from agno.tools import tool


def set_color(run_context: RunContext, color: str) -> str:
    """Sets the color."""
    run_context.session_state["color"] = color
    return f"The color is {color}."


agent = Agent(
    name="agent",
    model=OpenAILike(id="fake", base_url=common.model_url(), api_key="none", max_retries=0),
    tools=[tools.weather, tool(requires_confirmation=True)(tools.deploy), set_color],
    db=InMemoryDb(),
    session_state={"color": "none"},
    telemetry=False,
)
app = AgentOS(agents=[agent], interfaces=[AGUI(agent=agent)], telemetry=False).get_app()
common.serve(app, "/agui")
