"""An agent of the plain Python SDK that reads what a frontend gives it, and sends state and tool calls back.

    duplex_a2a_sdk.py PORT

What it reads stands under `ag-ui` in the metadata of the message. "paint" asks the frontend for its tool `pick_colour`; anything
else counts, in the state that it shares with the frontend.
"""
from server import arguments, listen, serve


from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part, TaskState
from google.protobuf import json_format
from starlette.applications import Starlette

KEY = "ag-ui"


def given(context):
    metadata = json_format.MessageToDict(context.message.metadata) if context.message.HasField("metadata") else {}
    return metadata.get(KEY, {})


def data_part(value):
    return json_format.ParseDict({"data": value}, Part())


class Duplex(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        results = [json_format.MessageToDict(part.data) for part in context.message.parts if part.HasField("data")]
        if results:
            await updater.add_artifact([new_text_part(f"Painted {results[0]['payload']}, by {results[0]['toolCallId']}.")], last_chunk=True)
            return await updater.complete()
        if context.get_user_input() == "paint":
            return await self.ask(updater, given(context))
        await self.count(updater, given(context))

    async def ask(self, updater, frontend):
        [tool] = frontend["tools"]
        call = {"type": "tool-call", "id": "call-1", "name": tool["name"], "arguments": {"of": tool["parameters"]["properties"]["of"]["enum"][0]}}
        message = updater.new_agent_message([new_text_part("Which colour?"), data_part(call)])
        await updater.update_status(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    async def count(self, updater, frontend):
        state = frontend["state"]
        [fact] = frontend["context"]
        state = {**state, "count": state["count"] + 1}
        await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={KEY: {"state": state}})
        patch = [{"op": "add", "path": "/done", "value": True}]
        await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={KEY: {"stateDelta": patch}})
        words = f"{state['city']}, {fact['description']} {fact['value']}, {frontend['forwardedProps']['theme']}."
        await updater.add_artifact([new_text_part(words)], last_chunk=True)
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


port, _ = arguments()
listener, address = listen(port)
interface = AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version="1.0")
card = AgentCard(
    name="duplex", description="Reads what a frontend gives.", version="1", supported_interfaces=[interface],
    capabilities=AgentCapabilities(streaming=True), default_input_modes=["text/plain"], default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(agent_executor=Duplex(), task_store=InMemoryTaskStore(), agent_card=card)
serve(Starlette(routes=create_agent_card_routes(card) + create_jsonrpc_routes(handler, rpc_url="/")), listener, address)
