"""pydantic-ai behind fasta2a: `serve_pydantic_ai.py <port>`."""
from server import arguments, listen, serve

import fake_model
import tools
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

port, _ = arguments()
listener, address = listen(port)
provider = OpenAIProvider(base_url=fake_model.serve(), api_key="none")
agent = Agent(OpenAIChatModel("fake", provider=provider), name="pydantic_ai")


@agent.tool_plain
def weather(city: str) -> str:
    """The weather of a city."""
    try:
        return tools.weather(city)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


@agent.tool_plain
def deploy(cluster: str) -> str:
    """Deploys to a cluster. This server has no questions, so it deploys at once."""
    return tools.deploy(cluster)


serve(agent_to_a2a(agent, url=address, description="An agent of pydantic-ai."), listener, address)
