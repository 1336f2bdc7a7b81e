"""The shape of the lines, as recorded from agent-framework-core 1.23.0: which fields each kind of event has."""

from __future__ import annotations

import json
import re
from typing import Any

COMMON = {"seq", "type", "origin", "data_class", "data"}

EXTRA: dict[str, set[str]] = {
    "started": set(),
    "status": {"state"},
    "failed": {"details"},
    "output": {"executor_id"},
    "intermediate": {"executor_id"},
    "data": {"executor_id"},
    "request_info": {"request_id", "source_executor_id", "request_type", "response_type"},
    "warning": set(),
    "error": set(),
    "superstep_started": {"iteration"},
    "superstep_completed": {"iteration"},
    "executor_invoked": {"executor_id"},
    "executor_completed": {"executor_id"},
    "executor_failed": {"executor_id", "details"},
    "executor_bypassed": {"executor_id"},
    "group_chat": set(),
    "handoff_sent": set(),
    "magentic_orchestrator": {"executor_id"},
}

DETAILS = {"error_type", "message", "traceback", "executor_id", "extra"}

TAGGED = {
    "AgentResponseUpdate": "agent_response_update",
    "AgentResponse": "agent_response",
    "Message": "message",
}

FIELDS = {
    "AgentExecutorRequest": {"messages", "should_respond"},
    "AgentExecutorResponse": {"executor_id", "agent_response", "full_conversation"},
    "AgentRequestInfoResponse": {"messages"},
    "GroupChatRequestSentEvent": {"round_index", "participant_name"},
    "GroupChatResponseReceivedEvent": {"round_index", "participant_name"},
    "HandoffAgentUserRequest": {"agent_response"},
    "HandoffSentEvent": {"source", "target"},
    "MagenticOrchestratorEvent": {"event_type", "content"},
    "MagenticPlanReviewRequest": {"plan", "current_progress", "is_stalled"},
    "MagenticPlanReviewResponse": {"review"},
}

PYTHON = re.compile(r"<[^<>]* object at 0x|<class '|<enum '|WorkflowRunState\.")


def check_line(line: dict[str, Any]) -> None:
    """Fail if a line has not the recorded shape."""
    assert not PYTHON.search(json.dumps(line)), f"a Python representation: {line}"
    assert isinstance(line["seq"], int)
    if "type" not in line:
        assert set(line) in ({"seq", "responses"}, {"seq", "exception", "message"}), line
        return
    kind = line["type"]
    assert set(line) == COMMON | EXTRA[kind], line
    assert line["origin"] in ("FRAMEWORK", "EXECUTOR")
    for name in ("executor_id", "state", "request_id", "source_executor_id", "request_type", "response_type"):
        assert isinstance(line.get(name, ""), str), line
    assert isinstance(line.get("iteration", 0), int)
    if "details" in line:
        assert set(line["details"]) == DETAILS
    check_payload(line["data_class"], line["data"])


def check_payload(data_class: str | None, data: Any) -> None:
    """Fail if a payload is not what its class says."""
    assert (data_class is None) == (data is None)
    if isinstance(data, list):
        assert data_class is not None and data_class.startswith("list")
    if isinstance(data, dict):
        check_object(data)
        assert data_class is not None
        if data_class in TAGGED:
            assert data["type"] == TAGGED[data_class]
        elif data_class != "Content":
            assert data["__class__"] == data_class
    for item in data if isinstance(data, list) else ():
        if isinstance(item, dict):
            check_object(item)


def check_object(data: dict[str, Any]) -> None:
    """Fail if an object is neither tagged with its class nor with the framework's own type."""
    name = data.get("__class__")
    if name is None:
        assert isinstance(data["type"], str), data
        return
    assert set(data) >= FIELDS[name] | {"__class__"}, data
