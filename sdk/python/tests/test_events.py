"""Each kind of event has the recorded shape."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    Content,
    Message,
    WorkflowErrorDetails,
    WorkflowEvent,
    WorkflowRunState,
)

from aqueduct_magentic import encode_event, encode_line, encode_update
from shape import EXTRA, check_line

DETAILS = WorkflowErrorDetails("RuntimeError", "RuntimeError")

EVENTS = [
    WorkflowEvent.started(),
    WorkflowEvent.status(WorkflowRunState.IDLE),
    WorkflowEvent.failed(DETAILS),
    WorkflowEvent("output", executor_id="a", data=AgentResponse(messages=[Message("assistant", ["hi"])])),
    WorkflowEvent("intermediate", executor_id="a", data=AgentResponseUpdate(contents=[Content.from_text("hi")])),
    WorkflowEvent("data", executor_id="a", data="hi"),
    WorkflowEvent.request_info("r1", "a", "code?", bool),
    WorkflowEvent.warning("careful"),
    WorkflowEvent.error(ValueError("too late")),
    WorkflowEvent.superstep_started(1),
    WorkflowEvent.superstep_completed(1),
    WorkflowEvent.executor_invoked("a", data=[Message("user", ["hi"])]),
    WorkflowEvent.executor_completed("a"),
    WorkflowEvent.executor_failed("a", DETAILS),
    WorkflowEvent.executor_bypassed("a", data="hi"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_every_type_has_its_fields(event: WorkflowEvent[Any]) -> None:
    line = encode_event(event, 7)
    check_line(line)
    assert line["seq"] == 7
    assert json.loads(encode_line(event, 7)) == line


def test_no_type_is_forgotten() -> None:
    # Those of the orchestrations are seen in their real workflows.
    assert {event.type for event in EVENTS} | {"group_chat", "handoff_sent", "magentic_orchestrator"} == set(EXTRA)


def test_the_values() -> None:
    lines = {event.type: encode_event(event, 0) for event in EVENTS}
    assert lines["status"]["state"] == "IDLE"
    assert lines["executor_failed"]["data"] == "[see details]"
    assert lines["executor_failed"]["details"]["error_type"] == "RuntimeError"  # type: ignore[index,call-overload]
    assert lines["request_info"]["response_type"] == "builtins.bool"
    assert lines["request_info"]["request_type"] == "builtins.str"
    assert lines["error"]["data_class"] == "ValueError"
    assert lines["error"]["data"] == "too late"
    assert lines["executor_invoked"]["data_class"] == "list[Message]"


def test_a_line_has_no_line_feed_and_keeps_its_characters() -> None:
    line = encode_line(WorkflowEvent("output", executor_id="a", data="one\ntwo\u2028ä🦀"), 0)
    assert "\n" not in line
    assert "ä🦀" in line
    assert json.loads(line)["data"] == "one\ntwo\u2028ä🦀"


def test_updates_of_as_agent() -> None:
    update = AgentResponseUpdate(contents=[Content.from_text("hi")], role="assistant", author_name="a")
    bare = encode_update(update)
    assert bare["type"] == "agent_response_update"
    assert encode_update(update, 3) == {"seq": 3, "update": bare}
    assert encode_event(update, 3) == {"seq": 3, "update": bare}


@dataclasses.dataclass
class MagenticAgentDeltaEvent:
    """Has the fields of the class of that name in the packages before 1.0."""

    agent_id: str | None = None
    text: str | None = None
    function_call_id: str | None = None
    origin: str = "EXECUTOR"


class WorkflowStatusEvent:
    """The same: a plain class with attributes."""

    def __init__(self) -> None:
        self.origin = "FRAMEWORK"
        self.state = WorkflowRunState.IDLE
        self.data = None
        self._private = 1


def test_events_of_older_packages() -> None:
    assert encode_event(MagenticAgentDeltaEvent("writer", "hi"), 4) == {
        "seq": 4,
        "event_class": "MagenticAgentDeltaEvent",
        "origin": "EXECUTOR",
        "agent_id": "writer",
        "text": "hi",
        "function_call_id": None,
    }
    assert encode_event(WorkflowStatusEvent(), 5) == {
        "seq": 5,
        "event_class": "WorkflowStatusEvent",
        "origin": "FRAMEWORK",
        "state": "IDLE",
        "data_class": None,
        "data": None,
    }


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("event", [None, 7, "text", object(), {"type": "output"}, Hostile])
def test_what_is_no_event_is_told_all_the_same(event: object) -> None:
    # Made here: pytest would look at an instance's attributes to name the test.
    event = event() if event is Hostile else event
    line = encode_event(event, 1)
    assert line["seq"] == 1
    assert line["event_class"] == type(event).__name__
    assert json.loads(encode_line(event, 1)) == line
