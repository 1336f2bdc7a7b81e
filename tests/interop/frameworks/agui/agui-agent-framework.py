"""An Agent Framework agent behind agent-framework-ag-ui. `question` is a tool that requires approval."""
import common
import tools
from agent_framework import Agent, Content, tool
from agent_framework_ag_ui import AgentFrameworkAgent, add_agent_framework_fastapi_endpoint
from agent_framework_openai import OpenAIChatCompletionClient
from fastapi import FastAPI


@tool
def set_color(color: str) -> str:
    """Sets the color."""
    return f"The color is {color}."


def with_reasoning(message, contents):
    """The hook of the client for fields that OpenAI itself does not have."""
    reasoning = getattr(message, "reasoning_content", None)
    return [Content.from_text_reasoning(text=reasoning), *contents] if reasoning else contents


client = OpenAIChatCompletionClient(model="fake", base_url=common.model_url(), api_key="none", response_parser=with_reasoning)
agent = Agent(client, name="agent", tools=[tool(tools.weather), tool(tools.deploy, approval_mode="always_require"), set_color])
wrapped = AgentFrameworkAgent(
    agent=agent,
    state_schema={"color": {"type": "string"}},
    predict_state_config={"color": {"tool": "set_color", "tool_argument": "color"}},
    require_confirmation=False,
)
app = FastAPI()
add_agent_framework_fastapi_endpoint(app, wrapped, "/", single_user=True)
common.serve(app)
