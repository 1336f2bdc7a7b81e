"""The graph that `serve_langgraph.py` serves: a tool-calling agent whose `deploy` asks by an interrupt."""
import os

import tools
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.types import interrupt


@tool
def deploy(cluster: str) -> str:
    """Deploys to a cluster."""
    answer = interrupt({"question": tools.QUESTION})
    return tools.deploy(cluster) if "yes" in str(answer).lower() else "Not deployed."


model = ChatOpenAI(model="fake", base_url=os.environ["FAKE_MODEL"], api_key="none", stream_usage=True)
graph = create_react_agent(model, ToolNode([tool(tools.weather), deploy], handle_tool_errors=True))
