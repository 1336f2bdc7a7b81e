"""Real workflows of the framework, end to end: every orchestration, replies, tools, failures."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_magentic import record, run_workflow
from cases import CASES, QUESTION, Case
from shape import check_line
from support import ListSink, run

OUTCOMES = {"IDLE": "success", "IDLE_WITH_PENDING_REQUESTS": "interrupted", "FAILED": "failed"}


def play(case: Case) -> list[dict[str, Any]]:
    sink = ListSink()

    async def use() -> None:
        if case.failure is None:
            await run_workflow(case.build(), QUESTION, sink, case.on_reply())
            return
        with pytest.raises(RuntimeError, match="529"):
            await run_workflow(case.build(), QUESTION, sink, case.on_reply())

    run(use())
    return sink.objects


def said(lines: list[dict[str, Any]], *kinds: str) -> dict[tuple[str, str], str]:
    """Give the text of each message, by its maker and its id, from events of these kinds."""
    texts: dict[tuple[str, str], str] = {}
    for line in lines:
        if line.get("type") not in kinds or not isinstance(line["data"], dict):
            continue
        data = line["data"]
        data = data.get("agent_response", data)
        for message in data.get("messages", [data]):
            maker = line.get("executor_id", line.get("source_executor_id"))
            maker = message.get("author_name", maker) if maker == "aggregator" else maker
            key = (maker, message.get("message_id", ""))
            text = "".join(part.get("text", "") for part in message.get("contents", []) if part["type"] == "text")
            whole = "messages" in data
            texts[key] = text if whole else texts.get(key, "") + text
    return texts


@pytest.mark.parametrize("name", CASES)
def test_the_lines_have_the_recorded_shape(name: str) -> None:
    lines = play(CASES[name])
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    for line in lines:
        check_line(line)


@pytest.mark.parametrize("name", CASES)
def test_the_workflow_comes_to_its_end(name: str) -> None:
    case = CASES[name]
    lines = play(case)
    states = [OUTCOMES[line["state"]] for line in lines if line.get("state") in OUTCOMES]
    assert states == case.outcomes
    assert sum("responses" in line for line in lines) == len(case.replies)
    last = lines[-1]
    if case.failure is None:
        assert (last["type"], last["state"]) == ("status", "IDLE")
    else:
        assert last["exception"] == "RuntimeError"
        assert last["message"] == case.failure
        # The framework's own event hides the text; that is why the last line exists.
        failed = next(line for line in lines if line.get("type") == "failed")
        assert case.failure not in failed["details"]["message"]


@pytest.mark.parametrize("name", CASES)
def test_nobodys_text_is_missing(name: str) -> None:
    case = CASES[name]
    lines = play(case)
    last_run = max(index for index, line in enumerate(lines) if line.get("type") == "started")
    answers = list(said(lines[last_run:], "output").items())
    for agent, text in case.answer:
        assert any(maker == agent and text == given for (maker, _), given in answers), (agent, text, answers)
    shown = said(lines, "output", "intermediate", "request_info")
    work = said(lines, "intermediate", "request_info")
    for expected, given in ((case.texts, shown), (case.intermediate, work)):
        for agent, texts in expected.items():
            assert [text for (maker, _), text in given.items() if maker == agent and text] == texts


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.tools])
def test_tools_are_told_with_their_calls_and_results(name: str) -> None:
    case = CASES[name]
    contents = [
        content
        for line in play(case)
        if line.get("type") == "output"
        for content in line["data"].get("contents", [])
    ]
    for tool in case.tools:
        calls = [part for part in contents if part["type"] == "function_call" and part["call_id"] == tool["call_id"]]
        results = [part for part in contents if part["type"] == "function_result"]
        assert [part["name"] for part in calls] == [tool["name"]]
        if "result" in tool:
            assert [part["result"] for part in results] == [tool["result"]]
        if tool.get("error"):
            assert "rejected by user" in results[0]["result"]


def test_the_reply_reaches_the_agent() -> None:
    case = CASES["handoff_reply"]
    workflow = case.build()
    run(run_workflow(workflow, QUESTION, ListSink(), case.on_reply()))
    client = workflow.executors["refunds"].agent.client
    assert "Order 7." in client.script.asked[-1]


def test_the_feedback_reaches_the_manager() -> None:
    case = CASES["magentic_plan_review"]
    workflow = case.build()
    run(run_workflow(workflow, QUESTION, ListSink(), case.on_reply()))
    manager = workflow.executors["magentic_orchestrator"]._manager._agent.client
    assert any("Name the source." in text for text in manager.script.asked[2])


@pytest.mark.parametrize("name", ["sequential", "tool_approval"])
def test_as_agent(name: str) -> None:
    sink = ListSink()

    async def use() -> None:
        stream = CASES[name].build().as_agent().run(QUESTION, stream=True)
        async for _ in record(stream, sink):
            pass

    run(use())
    *updates, last = sink.objects
    assert all(sorted(line) == ["seq", "update"] for line in updates)
    assert sorted(last) == ["final_response", "seq"]
    assert [line["seq"] for line in sink.objects] == list(range(len(sink.lines)))
