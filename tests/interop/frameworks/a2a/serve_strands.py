"""strands-agents' A2A server: `serve_strands.py <port> [compliant]`."""
from server import arguments, listen, serve

import fake_model
import tools
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.multiagent.a2a import A2AServer
from strands.types.tools import ToolContext


@tool(context=True)
def deploy(cluster: str, tool_context: ToolContext) -> str:
    """Deploys to a cluster."""
    answer = tool_context.interrupt("approval", reason=tools.QUESTION)
    return tools.deploy(cluster) if str(answer).lower() in ("yes", "true") else "Not deployed."


port, variant = arguments()
listener, address = listen(port)
model_url = fake_model.serve()


def agent(_context):
    model = OpenAIModel(client_args={"base_url": model_url, "api_key": "none"}, model_id="fake")
    return Agent(
        name="strands", description="An agent of strands.", model=model, callback_handler=None,
        tools=[tool(tools.weather), deploy],
    )


served = A2AServer(
    agent_factory=agent, http_url=address, enable_a2a_compliant_streaming=variant == "compliant"
)
serve(served.to_starlette_app(), listener, address)
