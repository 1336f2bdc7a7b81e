"""agno's A2A interface: `serve_agno.py <port>`. The agent is at `/a2a/agents/agno`."""
from server import arguments, listen, serve

import fake_model
import tools
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai.like import OpenAILike
from agno.os import AgentOS
from agno.os.interfaces.a2a import A2A
from agno.tools import tool

port, _ = arguments()
listener, address = listen(port)


@tool(requires_confirmation=True)
def deploy(cluster: str) -> str:
    """Deploys to a cluster."""
    return tools.deploy(cluster)


agent = Agent(
    id="agno", name="agno", description="An agent of agno.", db=InMemoryDb(), add_history_to_context=True,
    model=OpenAILike(id="fake", api_key="none", base_url=fake_model.serve()), tools=[tools.weather, deploy],
    telemetry=False,
)
app = AgentOS(agents=[agent], interfaces=[A2A(agents=[agent])], telemetry=False).get_app()
serve(app, listener, address)
