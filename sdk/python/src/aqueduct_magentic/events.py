"""Events of a workflow as JSON lines.

The framework has no JSON form of its ``WorkflowEvent``, so the form is Aqueduct's. One object per event:

``{"seq", "type", "origin", "executor_id"?, "state"?, "iteration"?, "request_id"?, "source_executor_id"?,
"request_type"?, "response_type"?, "details"?, "data_class", "data"}``

``seq`` counts from 0 without gaps over a whole conversation, also over several ``run()`` calls of it. Updates of
``as_agent()`` are ``{"seq", "update"}``. Two lines have no event behind them: `exception_line` and
`responses_line`.

The framework's classes are known by their attributes alone, so any version will do, also the packages from before
1.0 whose events are one class each (``event_class`` in place of ``type``).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import logging
from collections.abc import Mapping

from .payload import JSON, class_name, clean_text, describe, exception_text, to_json, type_name

Line = dict[str, JSON]
"""One line, before it is text."""

logger = logging.getLogger("aqueduct_magentic")

_SEE_DETAILS = "[see details]"


def encode_event(event: object, seq: int) -> Line:
    """Give an event of a workflow (or an update of ``as_agent()``) as a JSON object with number ``seq``.

    Never raises: what an event holds that no rule knows is described, and an object that is no event at all
    becomes a line with its class and its description.
    """
    if is_update(event):
        return encode_update(event, seq)
    kind = _text(event, "type")
    if kind is None:
        return _older_event(event, seq)
    line: Line = {"seq": seq, "type": kind}
    _put(line, "origin", _attribute(event, "origin"))
    for name in ("executor_id", "state", "iteration"):
        _put(line, name, _attribute(event, name))
    if kind == "request_info":
        for name in ("request_id", "source_executor_id"):
            _put(line, name, _attribute(event, name))
        for name in ("request_type", "response_type"):
            type_ = _attribute(event, name)
            if type_ is not None:
                line[name] = type_name(type_)
    _put_details(line, event)
    _put_data(line, event)
    return line


def encode_update(update: object, seq: int | None = None) -> Line:
    """Give an ``AgentResponseUpdate`` of ``as_agent()`` as ``{"seq", "update"}``; bare without ``seq``."""
    encoded = to_json(update)
    if seq is not None:
        return {"seq": seq, "update": encoded}
    return encoded if isinstance(encoded, dict) else {"update": encoded}


def encode_line(event: object, seq: int) -> str:
    """Give an event as one line of JSON, without the line feed."""
    return to_line(encode_event(event, seq))


def to_line(line: Mapping[str, JSON]) -> str:
    """Give a JSON object as one line, without the line feed."""
    return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def final_response_line(response: object, seq: int) -> Line:
    """Give the whole response of ``as_agent()``, which ends its run."""
    return {"seq": seq, "final_response": to_json(response)}


def exception_line(error: BaseException, message: str, seq: int) -> Line:
    """Tell the exception that left ``run()``: the framework's own ``failed`` event holds only its class."""
    return {"seq": seq, "exception": type(error).__name__, "message": clean_text(message)}


def responses_line(responses: Mapping[str, object], seq: int) -> Line:
    """Tell the replies that were given to the workflow, by request id."""
    return {"seq": seq, "responses": to_json(responses)}


def started_line(seq: int) -> Line:
    """Give the ``started`` event of a run that failed before the framework could send it."""
    return {"seq": seq, "type": "started", "origin": "FRAMEWORK", "data_class": None, "data": None}


def cancelled_line(seq: int) -> Line:
    """Give the ``status`` event of a run that was cancelled: the framework has the state but never sends it."""
    return {
        "seq": seq,
        "type": "status",
        "origin": "FRAMEWORK",
        "state": "CANCELLED",
        "data_class": None,
        "data": None,
    }


def state_of(event: object) -> str | None:
    """Give the run state that a ``status`` event tells, as text."""
    state = _attribute(event, "state")
    if isinstance(state, enum.Enum):
        state = state.value
    return str(state) if state is not None else None


def is_final(state: str | None) -> bool:
    """Tell whether a run state ends a run."""
    return state in ("IDLE", "IDLE_WITH_PENDING_REQUESTS", "FAILED", "CANCELLED")


def is_update(event: object) -> bool:
    """Tell whether this is an update of ``as_agent()`` and no event of a workflow."""
    # `contents` alone would also fit a message; an event has an origin, an update has none.
    return _has(event, "contents") and _has(event, "author_name") and not _has(event, "origin")


def _older_event(event: object, seq: int) -> Line:
    """Encode an event of the packages before 1.0: a class per kind, most of them dataclasses or plain classes."""
    line: Line = {"seq": seq, "event_class": type(event).__name__}
    _put(line, "origin", _attribute(event, "origin"))
    for name, value in _public_fields(event).items():
        if name in ("origin", "data", "details") or name in line:
            continue
        if name in ("request_type", "response_type") and value is not None:
            line[name] = type_name(value)
        else:
            line[name] = to_json(value)
    _put_details(line, event)
    if _has(event, "data"):
        _put_data(line, event)
    elif not _public_fields(event):
        line["data"] = describe(event)
    return line


def _public_fields(event: object) -> dict[str, object]:
    if dataclasses.is_dataclass(event):
        names = [field.name for field in dataclasses.fields(event)]
    else:
        names = list(getattr(event, "__dict__", {}))
    return {name: _attribute(event, name) for name in names if not name.startswith("_")}


def _put_details(line: Line, event: object) -> None:
    details = _attribute(event, "details")
    if details is not None:
        encoded = to_json(details)
        if isinstance(encoded, dict):
            encoded.pop("__class__", None)
        line["details"] = encoded


def _put_data(line: Line, event: object) -> None:
    data = _attribute(event, "data")
    line["data_class"] = class_name(data)
    if data is not None and data is _attribute(event, "details"):
        line["data"] = _SEE_DETAILS
    elif line.get("type") == "error" and isinstance(data, BaseException):
        # A remark of the workflow's author: its text is what there is to show.
        line["data"] = exception_text(data) or type(data).__name__
    else:
        line["data"] = to_json(data)


def _put(line: Line, name: str, value: object) -> None:
    if value is not None:
        line[name] = to_json(value)


def _attribute(event: object, name: str) -> object:
    """Read an attribute; properties of the framework's event raise where they do not apply."""
    try:
        return getattr(event, name, None)
    except Exception:
        return None


def _has(event: object, name: str) -> bool:
    try:
        return hasattr(event, name)
    except Exception:
        return False


def _text(event: object, name: str) -> str | None:
    value = _attribute(event, name)
    if isinstance(value, enum.Enum):
        value = value.value
    return clean_text(value) if isinstance(value, str) else None
