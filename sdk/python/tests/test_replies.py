"""Humans' words become what the framework wants."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

import pytest
from agent_framework import AgentExecutorResponse, AgentResponse, Content, Message
from agent_framework.orchestrations import (
    AgentRequestInfoResponse,
    HandoffAgentUserRequest,
    MagenticPlanReviewRequest,
    MagenticPlanReviewResponse,
)
from pydantic import BaseModel

from aqueduct_magentic import PendingRequest, Reply, ReplyError, decode_replies, decode_reply, parse_replies, to_json

CALL = Content.from_function_call("c1", "delete_file", arguments='{"path":"x"}')
SAID = AgentResponse(messages=[Message("assistant", ["A draft."])])

APPROVAL = PendingRequest("r1", Content.from_function_approval_request("r1", CALL), Content, "janitor")
REVIEW = PendingRequest("r1", AgentExecutorResponse("writer", SAID, []), AgentRequestInfoResponse)
PLAN = PendingRequest(
    "r1",
    MagenticPlanReviewRequest(plan=Message("assistant", ["- do it"]), current_progress=None, is_stalled=False),
    MagenticPlanReviewResponse,
)
HANDOFF = PendingRequest("r1", HandoffAgentUserRequest(SAID), list[Message])


def decode(request: PendingRequest, response: Any, resolved: bool = True) -> Any:
    return decode_reply(Reply("r1", response, resolved), request)


def texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(str(message.role), message.text) for message in messages]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"request_id": "r1", "response": 7}, [Reply("r1", 7)]),
        ({"request_id": "r1", "resolved": False}, [Reply("r1", None, False)]),
        (
            {"type": "interrupt_reply", "ref": "p", "interrupt": "r1", "resolved": True, "payload": {"a": 1}},
            [Reply("r1", {"a": 1})],
        ),
        ({"responses": {"r1": 1, "r2": 2}}, [Reply("r1", 1), Reply("r2", 2)]),
        ([{"request_id": "r1", "response": 7}, Reply("r2", 8)], [Reply("r1", 7), Reply("r2", 8)]),
    ],
)
def test_the_forms_of_a_reply(message: object, expected: list[Reply]) -> None:
    assert parse_replies(message) == expected


@pytest.mark.parametrize("message", [None, 7, "yes", {}, {"request_id": 7}, {"responses": 7}])
def test_what_is_no_reply(message: object) -> None:
    with pytest.raises(ReplyError):
        parse_replies(message)


@pytest.mark.parametrize(
    ("response", "resolved", "approved"),
    [
        (True, True, True),
        (False, True, False),
        ({"approved": True}, True, True),
        ({"approved": False}, True, False),
        (None, False, False),
        (True, False, False),
        ({"type": "function_approval_response", "id": "r1", "approved": True, "function_call": {}}, True, True),
    ],
)
def test_an_approval(response: Any, resolved: bool, approved: bool) -> None:
    value = decode(APPROVAL, response, resolved)
    assert isinstance(value, Content)
    assert (value.type, value.id, value.approved) == ("function_approval_response", "r1", approved)
    assert value.function_call is CALL


@pytest.mark.parametrize("response", [None, "yes", 1, {}, {"approved": "true"}])
def test_an_approval_is_never_guessed(response: Any) -> None:
    with pytest.raises(ReplyError, match="approved"):
        decode(APPROVAL, response)


@pytest.mark.parametrize("request_", [REVIEW, PLAN], ids=["review", "plan"])
@pytest.mark.parametrize(
    "response",
    [None, True, {}, {"approved": True}, {"approved": True, "feedback": ""}, {"messages": []}, {"review": []}],
)
def test_it_stands(request_: PendingRequest, response: Any) -> None:
    value = decode(request_, response)
    assert type(value) is request_.response_type
    assert vars(value) in ({"messages": []}, {"review": []})


@pytest.mark.parametrize("request_", [REVIEW, PLAN], ids=["review", "plan"])
@pytest.mark.parametrize(
    "response",
    [
        "Shorter.",
        ["Shorter."],
        {"feedback": "Shorter."},
        {"approved": False, "feedback": "Shorter."},
        {"messages": ["Shorter."]},
        {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Shorter."}]},
        {"__class__": "X", "review": [to_json(Message("user", ["Shorter."]))]},
    ],
)
def test_again(request_: PendingRequest, response: Any) -> None:
    value = decode(request_, response)
    (messages,) = vars(value).values()
    assert texts(messages) == [("user", "Shorter.")]


@pytest.mark.parametrize("request_", [REVIEW, PLAN], ids=["review", "plan"])
def test_a_review_needs_words(request_: PendingRequest) -> None:
    for response in ({"approved": False}, {"approved": False, "feedback": ""}, {"approved": False, "review": []}, False, 7):
        with pytest.raises(ReplyError):
            decode(request_, response)
    with pytest.raises(ReplyError):
        decode(request_, None, resolved=False)


def test_a_word_in_a_handoff() -> None:
    for response in ["Order 7.", {"text": "Order 7."}, [to_json(Message("user", ["Order 7."]))]]:
        assert texts(decode(HANDOFF, response)) == [("user", "Order 7.")]
    assert decode(HANDOFF, None, resolved=False) == []
    with pytest.raises(ReplyError):
        decode(HANDOFF, 7)


class Tint(enum.Enum):
    RED = "red"


class Model(BaseModel):
    n: int


@dataclasses.dataclass
class Inner:
    n: int


@dataclasses.dataclass
class Choice:
    tint: Tint
    inner: Inner
    note: str | None = None


@pytest.mark.parametrize(
    ("wanted", "response", "expected"),
    [
        (None, {"a": 1}, {"a": 1}),
        (Any, 7, 7),
        (str, "code", "code"),
        (bool, True, True),
        (float, 7, 7.0),
        (list[int], [1, 2], [1, 2]),
        (dict, {"a": 1}, {"a": 1}),
        (str | None, None, None),
        (Tint, "red", Tint.RED),
        (Model, {"n": 1}, Model(n=1)),
        (Inner | str, "text", "text"),
        (Choice, {"__class__": "Choice", "tint": "red", "inner": {"n": 1}}, Choice(Tint.RED, Inner(1))),
    ],
)
def test_a_request_of_ones_own(wanted: Any, response: Any, expected: Any) -> None:
    value = decode(PendingRequest("r1", {"question": 1}, wanted), response)
    assert value == expected
    assert type(value) is type(expected)


def test_a_message_of_the_framework_as_a_response() -> None:
    message = Message("user", ["hi"], message_id="m1")
    value = decode(PendingRequest("r1", "say", Message), json.loads(json.dumps(to_json(message))))
    assert (type(value), value.text, value.message_id) == (Message, "hi", "m1")


@pytest.mark.parametrize(
    ("wanted", "response"), [(bool, "yes"), (int, True), (str, 7), (Tint, "blue"), (Choice, {}), (Choice, [])]
)
def test_a_response_of_the_wrong_type(wanted: Any, response: Any) -> None:
    with pytest.raises(ReplyError, match="r1"):
        decode(PendingRequest("r1", {}, wanted), response)


def test_a_request_of_ones_own_cannot_be_declined() -> None:
    with pytest.raises(ReplyError, match="declined"):
        decode(PendingRequest("r1", {}, str), None, resolved=False)


def test_several_at_once() -> None:
    pending = [APPROVAL, PendingRequest("r2", "code?", str)]
    responses = decode_replies({"responses": {"r1": True, "r2": "7"}}, pending)
    assert responses["r1"].approved is True
    assert responses["r2"] == "7"
    with pytest.raises(ReplyError, match="nothing waits"):
        decode_replies({"request_id": "r3", "response": 1}, pending)


class Decision(str, enum.Enum):
    APPROVE = "approve"
    REVISE = "revise"


@dataclasses.dataclass
class MagenticPlanReviewReply:
    """Has the fields of the class of that name in the packages before 1.0."""

    decision: Decision
    edited_plan_text: str | None = None
    comments: str | None = None


def test_the_older_plan_review() -> None:
    asked = dataclasses.make_dataclass("MagenticPlanReviewRequest", [("plan_text", str)])("- do it")
    request = PendingRequest("r1", asked, MagenticPlanReviewReply)
    assert decode(request, {"approved": True}) == MagenticPlanReviewReply(Decision.APPROVE)
    revised = decode(request, {"approved": False, "feedback": "add tests"})
    assert revised == MagenticPlanReviewReply(Decision.REVISE, comments="add tests")
