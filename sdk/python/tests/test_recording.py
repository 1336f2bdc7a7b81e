"""What passes through is written down, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import pathlib
from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message, ResponseStream, WorkflowEvent
from agent_framework import WorkflowRunState as State

from aqueduct_magentic import Recorder, record
from shape import check_line
from support import ListSink, run, stream_of

EVENTS = [WorkflowEvent.started(), WorkflowEvent.status(State.IN_PROGRESS), WorkflowEvent.status(State.IDLE)]


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_events_pass_through_untouched_into_a_file(tmp_path: pathlib.Path) -> None:
    async def use() -> list[Any]:
        return [event async for event in record(stream_of(*EVENTS), tmp_path / "run.jsonl")]

    assert all(given is sent for given, sent in zip(run(use()), EVENTS))
    lines = read(tmp_path / "run.jsonl")
    assert [line["seq"] for line in lines] == [0, 1, 2]
    assert lines[-1]["state"] == "IDLE"


def test_a_line_is_there_before_its_event(tmp_path: pathlib.Path) -> None:
    async def use() -> None:
        seen = 0
        async for _ in record(stream_of(*EVENTS), str(tmp_path / "run.jsonl")):
            seen += 1
            assert len(read(tmp_path / "run.jsonl")) == seen

    run(use())


@pytest.mark.parametrize("file", [io.StringIO(), io.BytesIO()])
def test_open_files_stay_open(file: Any) -> None:
    async def use() -> None:
        async for _ in record(stream_of(WorkflowEvent.warning("ä")), file):
            pass

    run(use())
    written = file.getvalue()
    text = written if isinstance(written, str) else written.decode()
    assert json.loads(text)["data"] == "ä"


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    async def use() -> None:
        async for _ in record(stream_of(*EVENTS)):
            pass

    run(use())
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_failure_is_told_with_its_text_and_raised() -> None:
    sink = ListSink()

    async def use() -> None:
        async for _ in record(stream_of(EVENTS[0], error=RuntimeError("model overloaded")), sink):
            pass

    with pytest.raises(RuntimeError, match="model overloaded"):
        run(use())
    assert sink.objects[-1] == {"seq": 1, "exception": "RuntimeError", "message": "model overloaded"}


def test_a_failure_can_be_told_without_its_secrets() -> None:
    sink = ListSink()

    async def use() -> None:
        stream = stream_of(EVENTS[0], error=RuntimeError("password is 1234"))
        async for _ in record(stream, sink, describe_error=lambda error: "failed, see the log"):
            pass

    with pytest.raises(RuntimeError):
        run(use())
    assert sink.objects[-1]["message"] == "failed, see the log"


def test_a_failure_before_the_first_event_begins_a_run() -> None:
    sink = ListSink()

    async def use() -> None:
        recorder = Recorder(sink)
        async for _ in recorder.record(stream_of(*EVENTS)):
            pass
        with contextlib.suppress(ValueError):
            async for _ in recorder.record(stream_of(error=ValueError("unknown request"))):
                pass

    run(use())
    assert [line.get("type", "exception") for line in sink.objects[3:]] == ["started", "exception"]
    assert [line["seq"] for line in sink.objects] == [0, 1, 2, 3, 4]
    for line in sink.objects:
        check_line(line)


def test_leaving_the_loop_is_a_cancellation() -> None:
    sink = ListSink()
    closed = []

    async def endless() -> Any:
        try:
            while True:
                yield EVENTS[1]
        finally:
            closed.append(True)

    async def use() -> None:
        async with contextlib.aclosing(record(endless(), sink)) as events:
            async for _ in events:
                break

    run(use())
    assert closed == [True]
    assert [line["state"] for line in sink.objects] == ["IN_PROGRESS", "CANCELLED"]
    check_line(sink.objects[-1])


class Closable:
    """A stream that another owner keeps alive, as a workflow does with its own."""

    def __init__(self) -> None:
        self.closed = False

    def __aiter__(self) -> Any:
        return stream_of(*EVENTS)

    async def close(self) -> None:
        self.closed = True


def test_a_workflow_that_nobody_follows_is_stopped() -> None:
    class Full:
        async def send(self, line: str) -> None:
            raise OSError("disk full")

    async def use() -> None:
        left, failed = Closable(), Closable()
        async with contextlib.aclosing(record(left, ListSink())) as events:
            async for _ in events:
                break
        with pytest.raises(OSError, match="disk full"):
            async for _ in record(failed, Full()):
                pass
        assert left.closed
        assert failed.closed

    run(use())


def test_leaving_the_loop_after_the_end_is_none() -> None:
    sink = ListSink()

    async def use() -> None:
        async with contextlib.aclosing(record(stream_of(*EVENTS, EVENTS[1]), sink)) as events:
            async for event in events:
                if event.state == State.IDLE:
                    break

    run(use())
    assert len(sink.lines) == 3


def test_a_cancelled_task_says_so() -> None:
    sink = ListSink()

    async def hang() -> Any:
        yield EVENTS[0]
        await asyncio.Event().wait()

    async def use() -> None:
        async def consume() -> None:
            async for _ in record(hang(), sink):
                pass

        task = asyncio.create_task(consume())
        while not sink.lines:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(use())
    assert sink.objects[-1]["state"] == "CANCELLED"
    assert [line["seq"] for line in sink.objects] == [0, 1]


def test_a_stream_of_as_agent_ends_with_its_response() -> None:
    sink = ListSink()
    updates = [AgentResponseUpdate(contents=[Content.from_text(text)], author_name="a") for text in ("h", "i")]

    async def use() -> None:
        stream = ResponseStream(stream_of(*updates), finalizer=AgentResponse.from_updates)
        async for _ in record(stream, sink):
            pass

    run(use())
    assert [sorted(line) for line in sink.objects] == [["seq", "update"]] * 2 + [["final_response", "seq"]]
    final = sink.objects[-1]["final_response"]
    assert Message.from_dict(final["messages"][0]).text == "hi"
