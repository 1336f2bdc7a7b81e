"""A CrewAI flow behind ag-ui-crewai, which calls the model and its tools in a loop. It has no approval: `deploy` runs at once."""
import json

import common
import tools
from ag_ui_crewai import CopilotKitState, add_crewai_flow_fastapi_endpoint, copilotkit_emit_tool_result, copilotkit_stream
from crewai.flow.flow import Flow, start
from fastapi import FastAPI
from litellm import acompletion

MODEL = common.model_url()


class State(CopilotKitState):
    color: str = "none"


def schema(name, argument):
    properties = {argument: {"type": "string"}}
    function = {"name": name, "description": name, "parameters": {"type": "object", "properties": properties, "required": [argument]}}
    return {"type": "function", "function": function}


SCHEMAS = [schema("weather", "city"), schema("deploy", "cluster"), schema("set_color", "color")]


class Chat(Flow[State]):
    @start()
    async def chat(self):
        while await self.step():
            pass

    async def step(self):
        """Asks the model once; returns whether tools ran."""
        answer = await copilotkit_stream(
            await acompletion(
                model="openai/fake", api_base=MODEL, api_key="none", stream=True, num_retries=0,
                messages=self.state.messages, tools=[*self.state.copilotkit.actions, *SCHEMAS],
            )
        )
        message = answer.choices[0].message
        self.state.messages.append(message)
        own = [call for call in message.get("tool_calls") or [] if hasattr(self, f"tool_{call['function']['name']}")]
        for call in own:
            content = self.execute(call["function"]["name"], json.loads(call["function"]["arguments"]))
            self.state.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            await copilotkit_emit_tool_result(tool_call_id=call["id"], content=content)
        return bool(own)

    def execute(self, name, arguments):
        try:
            return getattr(self, f"tool_{name}")(**arguments)
        except ValueError as error:
            return f"Error: {error}"

    def tool_weather(self, city):
        return tools.weather(city)

    def tool_deploy(self, cluster):
        return tools.deploy(cluster)

    def tool_set_color(self, color):
        self.state.color = color
        return f"The color is {color}."


app = FastAPI()
add_crewai_flow_fastapi_endpoint(app, Chat(), "/")
common.serve(app)
