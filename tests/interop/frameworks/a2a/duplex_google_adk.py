"""An agent of google-adk that reads what a frontend gives it, and sends state back.

    duplex_google_adk.py PORT

What it reads is the metadata of the request, which ADK's server hands on in `RunConfig.custom_metadata`.
"""
from server import arguments, listen, serve

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions
from google.genai import types


class Duplex(BaseAgent):
    async def _run_async_impl(self, ctx):
        given = ctx.run_config.custom_metadata["a2a_metadata"]["ag-ui"]
        state, [fact] = given["state"], given["context"]
        words = f"{state['city']}, {fact['description']} {fact['value']}, {given['forwardedProps']['theme']}."
        content = types.Content(role="model", parts=[types.Part(text=words)])
        changed = {"count": int(state["count"]) + 1, "done": True}
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content, actions=EventActions(state_delta=changed))


port, _ = arguments()
listener, address = listen(port)
agent = Duplex(name="duplex", description="Reads what a frontend gives.")
serve(to_a2a(agent, host="127.0.0.1", port=int(address.rsplit(":", 1)[1])), listener, address)
