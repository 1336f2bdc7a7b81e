"""The loop around a workflow: what it asks, what it takes, where it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler, response_handler
from agent_framework.orchestrations import ConcurrentBuilder

from aqueduct_magentic import PendingRequest, Reply, ReplyError, run_workflow
from aqueduct_magentic.running import MAX_BAD_REPLIES
from cases import CASES, QUESTION, delete_file
from scripted import agent, call, say
from shape import check_line
from support import ListSink, run


class Gate(Executor):
    """Asks two questions, and repeats the answers."""

    @handler
    async def ask(self, message: str, ctx: WorkflowContext[str, str]) -> None:
        await ctx.request_info("which code?", str)
        await ctx.request_info({"sure": True}, bool)

    @response_handler
    async def take_code(self, request: str, code: str, ctx: WorkflowContext[str, str]) -> None:
        await ctx.yield_output(f"code {code}")

    @response_handler
    async def take_word(self, request: dict, sure: bool, ctx: WorkflowContext[str, str]) -> None:  # type: ignore[type-arg]
        await ctx.yield_output(f"sure {sure}")


def gate() -> Any:
    return WorkflowBuilder(start_executor=Gate("gate")).build()


def test_requests_are_answered_one_by_one() -> None:
    sink, asked = ListSink(), []

    async def on_reply(pending: Sequence[PendingRequest]) -> Any:
        asked.append([request.data for request in pending])
        last = pending[-1]
        return Reply(last.request_id, True if last.response_type is bool else "7")

    outputs = run(run_workflow(gate(), "open", sink, on_reply))
    assert outputs == ["sure True", "code 7"]
    assert asked == [["which code?", {"sure": True}], ["which code?"]]
    assert [line["seq"] for line in sink.objects] == list(range(len(sink.lines)))
    states = [line["state"] for line in sink.objects if line.get("state", "").startswith("IDLE")]
    assert states == ["IDLE_WITH_PENDING_REQUESTS", "IDLE_WITH_PENDING_REQUESTS", "IDLE"]


def test_requests_are_answered_all_at_once() -> None:
    async def on_reply(pending: Sequence[PendingRequest]) -> Any:
        code, sure = pending
        return {"responses": {code.request_id: "7", sure.request_id: False}}

    assert sorted(run(run_workflow(gate(), "open", ListSink(), on_reply))) == ["code 7", "sure False"]


def test_a_bad_answer_is_asked_for_again_and_the_good_ones_count(caplog: pytest.LogCaptureFixture) -> None:
    rounds = 0

    async def on_reply(pending: Sequence[PendingRequest]) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            return "nonsense"
        if rounds == 2:
            return [{"request_id": "unknown", "response": 1}, Reply(pending[1].request_id, "perhaps")]
        if rounds == 3:
            return [{"request_id": "unknown", "response": 1}, Reply(pending[1].request_id, True)]
        return Reply(pending[0].request_id, "7")

    with caplog.at_level(logging.WARNING):
        outputs = run(run_workflow(gate(), "open", ListSink(), on_reply))
    assert outputs == ["sure True", "code 7"]
    assert rounds == 4
    assert "nothing waits for it" in caplog.text


def test_a_program_that_always_answers_wrongly_does_not_spin() -> None:
    rounds = 0

    async def on_reply(pending: Sequence[PendingRequest]) -> Any:
        nonlocal rounds
        rounds += 1
        return Reply(pending[0].request_id, 7)

    with pytest.raises(ReplyError, match="expected builtins.str"):
        run(run_workflow(gate(), "open", ListSink(), on_reply))
    assert rounds == MAX_BAD_REPLIES


def test_without_anybody_to_ask_it_returns_where_the_workflow_waits() -> None:
    sink = ListSink()
    run(run_workflow(CASES["tool_approval"].build(), QUESTION, sink))
    assert sink.objects[-1]["state"] == "IDLE_WITH_PENDING_REQUESTS"


def test_two_agents_ask_at_once() -> None:
    def janitor(name: str) -> Any:
        ask = say(call(f"call_{name}", "delete_file", path=name))
        return agent(name, ask, say("Done, ", name), tools=[delete_file])

    workflow = ConcurrentBuilder(participants=[janitor("one"), janitor("two")]).build()
    sink = ListSink()

    async def on_reply(pending: Sequence[PendingRequest]) -> Any:
        return [{"request_id": request.request_id, "response": True} for request in pending]

    (response,) = run(run_workflow(workflow, QUESTION, sink, on_reply))
    assert [message.text for message in response.messages if message.text] == ["Done, one", "Done, two"]
    responses = [line["responses"] for line in sink.objects if "responses" in line]
    assert [len(given) for given in responses] == [2]
    for line in sink.objects:
        check_line(line)


def test_a_run_that_cannot_start_is_told() -> None:
    sink = ListSink()

    async def use() -> None:
        workflow = CASES["sequential"].build()
        with pytest.raises(RuntimeError, match="cannot handle input"):
            await run_workflow(workflow, 7, sink)

    run(use())
    last = sink.objects[-1]
    assert last["exception"] == "RuntimeError"
    assert "cannot handle input of type 'int'" in last["message"]


def test_arguments_that_the_framework_refuses_are_told_too() -> None:
    sink = ListSink()
    with pytest.raises(ValueError, match="at least one of"):
        run(run_workflow(CASES["sequential"].build(), None, sink))
    assert [line.get("type", "exception") for line in sink.objects] == ["started", "exception"]


def test_a_cancelled_loop_says_so() -> None:
    sink = ListSink()

    async def use() -> None:
        async def hang(event: Any) -> None:
            if event.type == "output":
                await asyncio.Event().wait()

        task = asyncio.create_task(run_workflow(CASES["sequential"].build(), QUESTION, sink, on_event=hang))
        while not any(line.get("type") == "output" for line in sink.objects):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(use())
    assert sink.objects[-1]["state"] == "CANCELLED"
    assert [line["seq"] for line in sink.objects] == list(range(len(sink.lines)))


def test_events_reach_the_program_untouched() -> None:
    seen: list[Any] = []

    async def on_event(event: Any) -> None:
        seen.append(event.type)

    sink = ListSink()
    run(run_workflow(CASES["sequential"].build(), QUESTION, sink, on_event=on_event))
    assert seen == [line["type"] for line in sink.objects]
