"""Agents of the real Python SDK behind one address, for a gateway that stands between them.

    python agents.py

Prints where it listens. `/argocd`, `/jira` and `/clock` are sub-agents, jira asks clock; `/deployer` asks a person; `/plain` is a
supervisor written with the SDK alone, `/careful` another one that calls the deployer, `/langgraph` is the one of
`examples/supervisor-langgraph`. Where the gateway is, and what
is handed on to it, stands in the question, as JSON: `{"gateway": "http://…", "relate": "header"}`.
"""

import asyncio
import json
import socket
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "supervisor-langgraph"))

import uvicorn
from a2a.client import ClientCallContext, create_client
from a2a.helpers import get_stream_response_text, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState
from starlette.applications import Starlette
from supervisor import Supervisor, build_app


def handed_on(relate, context):
    """Headers, metadata and context id that a supervisor hands on, one way at a time."""
    given = context.call_context.state["headers"]
    if relate == "header":
        return {"x-aqueduct-run": given["x-aqueduct-run"]}, {}, ""
    if relate == "baggage":
        return {"baggage": given["baggage"]}, {}, ""
    if relate == "metadata":
        return {}, {"aqueduct/run": context.metadata["aqueduct/run"]}, ""
    if relate == "trace":
        _, trace, _, flags = given["traceparent"].split("-")
        return {"traceparent": f"00-{trace}-{uuid.uuid4().hex[:16]}-{flags}"}, {}, ""
    if relate == "context":
        return {}, {}, context.context_id
    return {}, {}, ""


async def ask(gateway, agent, question, handed):
    headers, metadata, context_id = handed
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=question)])
    message.metadata.update(metadata)
    message.context_id = context_id
    context = ClientCallContext(service_parameters=headers or None, timeout=60)
    answer = ""
    async with await create_client(f"{gateway}/a2a/{agent}") as client:
        async for event in client.send_message(SendMessageRequest(message=message), context=context):
            if event.HasField("artifact_update"):
                answer += get_stream_response_text(event)
    return answer


class Scripted(AgentExecutor):
    """What all agents here have in common."""

    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await self.work(context, updater)
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    @staticmethod
    async def say(updater, words):
        message = updater.new_agent_message([new_text_part(words)])
        await updater.update_status(TaskState.TASK_STATE_WORKING, message)
        await asyncio.sleep(0.05)

    @staticmethod
    async def answer(updater, *chunks):
        for index, chunk in enumerate(chunks):
            last = index == len(chunks) - 1
            await updater.add_artifact([new_text_part(chunk)], artifact_id="answer", append=index > 0, last_chunk=last)
            await asyncio.sleep(0.02)


class SubAgent(Scripted):
    """Uses a tool, asks another agent if there is one, and answers in two chunks."""

    def __init__(self, tool, answer, asks=None):
        self.tool, self.words, self.asks = tool, answer, asks

    async def work(self, context, updater):
        question = context.get_user_input()
        await self.say(updater, f"🔧 Calling tool: **{self.tool}**")
        if self.asks:
            setup = json.loads(question)
            # A sub-agent of its own is below it only by the token: a trace or a context leads to the run.
            handed = handed_on(setup.get("relate", "header"), context)
            await ask(setup["gateway"], self.asks, question, handed)
        await self.say(updater, f"✅ Tool **{self.tool}** completed")
        middle = len(self.words) // 2
        await self.answer(updater, self.words[:middle], self.words[middle:])


class Deployer(Scripted):
    """Asks which cluster it shall deploy to, and says where it did."""

    async def execute(self, context, event_queue):
        if context.current_task is not None:
            return await super().execute(context, event_queue)
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await self.say(updater, "🔧 Calling tool: **plan**")
        await self.say(updater, "✅ Tool **plan** completed")
        question = updater.new_agent_message([new_text_part("Which cluster?")])
        await updater.update_status(TaskState.TASK_STATE_INPUT_REQUIRED, question)

    async def work(self, context, updater):
        await self.say(updater, "🔧 Calling tool: **roll_out**")
        await self.say(updater, "✅ Tool **roll_out** completed")
        await self.answer(updater, "deployed to ", f"{context.get_user_input()}.")


class Careful(Scripted):
    """A supervisor that knows nothing of questions: it takes what the deployer's task ends with."""

    async def work(self, context, updater):
        setup = json.loads(context.get_user_input())
        answer = await ask(setup["gateway"], "deployer", "deploy it", handed_on(setup["relate"], context))
        await self.answer(updater, f"Summary: {answer or 'nothing was deployed.'}")


class Plain(Scripted):
    """A supervisor that asks two agents at once and shows nothing of their work."""

    async def work(self, context, updater):
        question = context.get_user_input()
        setup = json.loads(question)
        if setup["relate"] == "context":
            # The gateway knows the context from the first event, and relates by nothing else here.
            await asyncio.sleep(0.5)
        handed = handed_on(setup["relate"], context)
        asked = [ask(setup["gateway"], agent, question, handed) for agent in ("argocd", "jira")]
        await self.answer(updater, "Summary: " + " ".join(await asyncio.gather(*asked)))


class ByQuestion(Supervisor):
    """The example's supervisor, with the gateway that the question names."""

    def __init__(self):
        super().__init__("")

    async def execute(self, context, event_queue):
        self.gateway = json.loads(context.get_user_input())["gateway"]
        await super().execute(context, event_queue)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    agents = {
        "argocd": SubAgent("list_apps", "three apps are in sync."),
        "jira": SubAgent("search_issues", "two issues are open.", asks="clock"),
        "clock": SubAgent("read_clock", "it is noon."),
        "deployer": Deployer(),
        "careful": Careful(),
        "plain": Plain(),
        "langgraph": ByQuestion(),
    }
    routes = []
    for name, executor in agents.items():
        routes += build_app(executor, name, f"{address}/{name}", f"/{name}")
    print(address, flush=True)
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
