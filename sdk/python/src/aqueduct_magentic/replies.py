"""Answers of humans, turned into what ``workflow.run(responses={...})`` needs.

A reply is JSON, in any of these forms:

==============================================  ===============================================================
form                                            from
==============================================  ===============================================================
``{"request_id", "response", "resolved"?}``     an application of your own
``{"interrupt", "resolved", "payload"?}``       a gateway, over WebSocket
``{"responses": {request id: response}}``       a recording, or Aqueduct's Rust adapter
==============================================  ===============================================================

``resolved`` is false when the human declined to answer. The response is either the human's own words or the
framework's (a value with ``__class__`` or ``type``, as the recorded lines have it):

=============================  ==========================================  ====================================
the workflow asks              the human's words                           given to the workflow
=============================  ==========================================  ====================================
may this tool be called?       ``true``, ``false``, ``{"approved"}``;      ``function_approval_response``
                               declined: no
does this answer stand?        nothing, ``true``, ``{}``: yes; a text,     ``AgentRequestInfoResponse``
(``with_request_info``)        ``{"feedback"}``, ``{"messages"}``: again
does this plan stand?          ``{"approved", "feedback"?}``, a text       ``MagenticPlanReviewResponse``
what do you say? (handoff)     a text, ``{"text"}``; declined: the end     ``list[Message]``
anything else                  any JSON                                    the response type, if it can be
                                                                           built from it; else as it is
=============================  ==========================================  ====================================

The framework is imported only by name, through the request that it made: the class to build is the
``response_type`` of the request.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from .payload import JSON, type_name


class ReplyError(ValueError):
    """A reply that cannot be given to the workflow. The request goes on waiting; ask again."""

    def __init__(self, request_id: str, problem: str) -> None:
        super().__init__(f"reply to request {request_id!r}: {problem}")
        self.request_id = request_id


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer, before it is put into the framework's words."""

    request_id: str
    """The request that it answers."""
    response: Any = None
    """What was said."""
    resolved: bool = True
    """False if the human declined to answer."""


@dataclasses.dataclass(frozen=True)
class PendingRequest:
    """A question of the workflow that waits for its answer."""

    request_id: str
    """Its id."""
    data: Any
    """What the workflow asks, an object of the framework or of your own."""
    response_type: Any = None
    """The type that the workflow wants back."""
    source_executor_id: str | None = None
    """Who asks."""

    @classmethod
    def from_event(cls, event: Any) -> PendingRequest:
        """Read a ``request_info`` event."""
        return cls(
            request_id=event.request_id,
            data=event.data,
            response_type=getattr(event, "response_type", None),
            source_executor_id=getattr(event, "source_executor_id", None),
        )


def parse_replies(message: object) -> list[Reply]:
    """Read a JSON message in one of the documented forms; a list is read item by item.

    Raises `ReplyError` if it is none of them.
    """
    if isinstance(message, Reply):
        return [message]
    if isinstance(message, list):
        return [reply for item in message for reply in parse_replies(item)]
    if isinstance(message, Mapping):
        responses = message.get("responses")
        if isinstance(responses, Mapping):
            return [Reply(str(id_), response) for id_, response in responses.items()]
        for id_name, response_name in (("request_id", "response"), ("interrupt", "payload")):
            id_ = message.get(id_name)
            if isinstance(id_, str):
                return [Reply(id_, message.get(response_name), message.get("resolved", True) is not False)]
    raise ReplyError("", "expected an object with `request_id` and `response`, or with `responses`")


def decode_reply(reply: Reply, request: PendingRequest) -> Any:
    """Give the value for ``workflow.run(responses={request.request_id: value})``.

    Raises `ReplyError` if the response does not answer the request.
    """
    answer = _Answer(reply, request)
    asked = type(request.data).__name__
    if getattr(request.data, "type", None) == "function_approval_request":
        return request.data.to_function_approval_response(answer.approved())
    if asked == "AgentExecutorResponse":
        return answer.build("messages", answer.feedback())
    if asked == "MagenticPlanReviewRequest" and hasattr(request.data, "plan_text"):
        return answer.older_plan_reply()
    if asked == "MagenticPlanReviewRequest":
        return answer.build("review", answer.feedback())
    if asked == "HandoffAgentUserRequest":
        return answer.messages() if reply.resolved else []
    if not reply.resolved:
        raise answer.error("this request cannot be declined: answer it, or cancel the run")
    return answer.value()


def decode_replies(message: object, pending: Iterable[PendingRequest]) -> dict[str, Any]:
    """Give the ``responses`` mapping of all replies in ``message``; each must answer a pending request."""
    requests = {request.request_id: request for request in pending}
    responses: dict[str, Any] = {}
    for reply in parse_replies(message):
        request = requests.get(reply.request_id)
        if request is None:
            raise ReplyError(reply.request_id, "nothing waits for it")
        responses[reply.request_id] = decode_reply(reply, request)
    return responses


class _Answer:
    """One reply beside its request."""

    def __init__(self, reply: Reply, request: PendingRequest) -> None:
        self._reply = reply
        self._said = reply.response
        self._request = request

    def error(self, problem: str) -> ReplyError:
        return ReplyError(self._request.request_id, problem)

    def approved(self) -> bool:
        given = self._field("approved") if isinstance(self._said, Mapping) else self._said
        if not self._reply.resolved:
            return False
        if not isinstance(given, bool):
            raise self.error("expected true, false or an object with `approved`")
        return given

    def feedback(self) -> list[Any]:
        """Nothing, if the human agrees; else messages that say what to change."""
        if not self._reply.resolved:
            raise self.error("a review cannot be declined: answer it, or cancel the run")
        said = self._said
        if said is None or said is True:
            return []
        if isinstance(said, Mapping):
            approved = self._field("approved")
            words = self._words()
            if approved is True or (words is None and approved is not False):
                return []
            if words is None:
                raise self.error("not approved, but without `feedback` that says what to change")
        return self.messages()

    def messages(self) -> list[Any]:
        """Read what was said as messages of the user."""
        words = self._words() if isinstance(self._said, Mapping) else None
        said = self._said if words is None else words
        items = said if isinstance(said, list) else [said]
        return [self._message(item) for item in items]

    def build(self, field: str, messages: list[Any]) -> Any:
        """Build the response class of the request around messages."""
        return self._response_class()(**{field: messages})

    def older_plan_reply(self) -> Any:
        """Build the plan review reply of the packages before 1.0, which has a decision and texts."""
        class_ = self._response_class()
        feedback = self.feedback()
        decision: Any = "revise" if feedback else "approve"
        hint = _hints(class_).get("decision")
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            decision = hint(decision)
        fields: dict[str, Any] = {"decision": decision}
        if feedback:
            fields["comments"] = "\n".join(str(getattr(message, "text", "")) for message in feedback)
        edited = self._field("edited_plan_text")
        if edited is not None:
            fields["edited_plan_text"] = edited
        return class_(**fields)

    def value(self) -> Any:
        """Rebuild any response from its JSON, as far as the response type tells how."""
        try:
            return _rebuild(self._said, self._request.response_type)
        except ReplyError:
            raise
        except Exception as error:
            wanted = type_name(self._request.response_type)
            raise self.error(f"expected {wanted}: {error}") from error

    def _field(self, name: str) -> Any:
        return self._said.get(name) if isinstance(self._said, Mapping) else None

    def _words(self) -> Any:
        """Find where an object says something: the field names of the human's form and of the framework's."""
        for name in ("messages", "review", "feedback", "text", "comments"):
            value = self._field(name)
            if value is not None:
                # An empty list is the framework's own "it stands", an empty text a form left empty.
                return value if value not in ([], "") else None
        return [self._said] if self._field("contents") is not None else None

    def _message(self, item: Any) -> Any:
        message = self._message_class()
        if isinstance(item, message):
            return item
        if isinstance(item, str):
            return message(role="user", contents=[item])
        if isinstance(item, Mapping) and "contents" in item:
            return message.from_dict(dict(item))
        raise self.error("expected a text, a list of texts or messages, or an object with `feedback` or `text`")

    def _message_class(self) -> Any:
        # `Message` since 1.0, `ChatMessage` before; found in the module of whatever asks, which has it loaded.
        framework = sys.modules.get("agent_framework")
        for name in ("Message", "ChatMessage"):
            class_ = getattr(framework, name, None)
            if class_ is not None:
                return class_
        raise self.error("the package `agent_framework` is not loaded, so no message can be built")

    def _response_class(self) -> Any:
        class_ = self._request.response_type
        if isinstance(class_, type):
            return class_
        raise self.error("the request does not say which class its response has")


def _rebuild(said: JSON, wanted: Any) -> Any:
    """Turn JSON into ``wanted``, which is a type or nothing."""
    if wanted is None or wanted is Any or wanted is object:
        return said
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return _rebuild_any(said, arguments)
    if origin in (list, set, tuple) and isinstance(said, list):
        item = arguments[0] if arguments else Any
        return origin(_rebuild(part, item) for part in said)
    class_ = origin or wanted
    if not isinstance(class_, type):
        return said
    if class_ is float and isinstance(said, int) and not isinstance(said, bool):
        return float(said)
    if class_ in (int, float) and isinstance(said, bool):
        raise TypeError(f"got {said!r}")
    if isinstance(said, class_):
        return said
    return _construct(said, class_)


def _construct(said: JSON, class_: type[Any]) -> Any:
    if issubclass(class_, enum.Enum):
        return class_(said)
    if isinstance(said, dict):
        fields = {name: value for name, value in said.items() if name != "__class__"}
        for builder in ("from_dict", "model_validate"):
            build = getattr(class_, builder, None)
            if callable(build):
                return build(fields)
        if dataclasses.is_dataclass(class_):
            hints = _hints(class_)
            return class_(**{name: _rebuild(value, hints.get(name)) for name, value in fields.items()})
    raise TypeError(f"got {type(said).__name__}")


def _rebuild_any(said: JSON, choices: Iterable[Any]) -> Any:
    problem: Exception = TypeError("no type fits")
    for choice in choices:
        if choice is type(None):
            if said is None:
                return None
            continue
        try:
            return _rebuild(said, choice)
        except Exception as error:
            problem = error
    raise problem


def _hints(class_: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(class_)
    except Exception:  # Names that exist for type checkers only.
        return {}
