"""A llama-index workflow behind its AG-UI router. The framework has no approval: `deploy` runs at once."""
import common
import tools
from fastapi import FastAPI
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from llama_index.protocols.ag_ui.router import AGUIWorkflowRouter, get_default_workflow_factory


async def set_color(ctx: Context, color: str) -> str:
    """Sets the color."""
    state = await ctx.store.get("state", default={})
    await ctx.store.set("state", {**state, "color": color})
    return f"The color is {color}."


llm = OpenAI(model="gpt-4o", api_base=common.model_url(), api_key="none", max_retries=0)
factory = get_default_workflow_factory(llm=llm, backend_tools=[tools.weather, tools.deploy, set_color])
app = FastAPI()
app.add_api_route("/", AGUIWorkflowRouter(factory).run, methods=["POST"])
common.serve(app)
