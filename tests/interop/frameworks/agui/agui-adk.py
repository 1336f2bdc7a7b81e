"""A Google ADK agent behind ag-ui-adk. `question` is a tool that requires confirmation.

`/` tells a question as an interrupt, `/legacy` as the framework does by default: an open call of `adk_request_confirmation`.
"""
import common
import tools
from ag_ui_adk import ADKAgent, AGUIToolset, add_adk_fastapi_endpoint
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.tools import FunctionTool, ToolContext


def set_color(color: str, tool_context: ToolContext) -> str:
    """Sets the color."""
    tool_context.state["color"] = color
    return f"The color is {color}."


def weather(city: str) -> dict:
    """The weather of a city."""
    try:
        return {"result": tools.weather(city)}
    except ValueError as error:
        return {"error": str(error)}


def agent(**settings):
    model = LiteLlm(model="openai/fake", api_base=MODEL, api_key="none", num_retries=0)
    deploy = FunctionTool(tools.deploy, require_confirmation=True)
    inner = LlmAgent(name="agent", model=model, tools=[weather, deploy, set_color, AGUIToolset()])
    return ADKAgent(adk_agent=inner, app_name="app", user_id="user", use_in_memory_services=True, **settings)


MODEL = common.model_url()
app = FastAPI()
add_adk_fastapi_endpoint(app, agent(emit_interrupt_outcome=True), "/")
add_adk_fastapi_endpoint(app, agent(), "/legacy")
common.serve(app)
