"""A Strands agent behind ag-ui-strands. `question` is a tool that interrupts before it runs."""
import common
import tools
from ag_ui_strands import StrandsAgent, StrandsAgentConfig, ToolBehavior, create_strands_app
from strands import Agent, tool
from strands.models.openai import OpenAIModel


@tool
def set_color(color: str) -> str:
    """Sets the color."""
    return f"The color is {color}."


async def color(context):
    return {"color": context.tool_input["color"]}


model = OpenAIModel(client_args={"base_url": common.model_url(), "api_key": "none", "max_retries": 0}, model_id="fake")
agent = Agent(model=model, tools=[tool(tools.weather), tool(tools.deploy), set_color], callback_handler=None)
config = StrandsAgentConfig(
    tool_behaviors={"deploy": ToolBehavior(interrupt_on_call=True), "set_color": ToolBehavior(state_from_args=color)}
)
common.serve(create_strands_app(StrandsAgent(agent=agent, name="agent", config=config), "/"))
