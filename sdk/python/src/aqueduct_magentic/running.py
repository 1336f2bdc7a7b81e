"""The whole loop: run a workflow, send its events away, bring the answers of humans back.

::

              run(message)                    run(responses=...)
    start ───────────────────► streaming ◄────────────────────── answering
                                │  │  └── IDLE_WITH_PENDING_REQUESTS ──►┘
                                │  └── IDLE: done
                                └── raises: reported to the sink, raised
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Union

from .events import logger, state_of
from .payload import exception_text
from .recording import Recorder
from .replies import PendingRequest, Reply, ReplyError, decode_replies
from .sinks import Target

OnReply = Callable[[Sequence[PendingRequest]], Awaitable[Union[Reply, Sequence[Any], Mapping[str, Any]]]]
"""Asked for answers while the workflow waits: gives one or more replies, in any form of `parse_replies`."""

MAX_BAD_REPLIES = 16
"""Useless answers in a row before the loop gives up. A human who errs may try again; a program that always answers
the same must not spin without end."""


async def run_workflow(
    workflow: Any,
    message: Any,
    sink: Target,
    on_reply: OnReply | None = None,
    *,
    describe_error: Callable[[BaseException], str] = exception_text,
    on_event: Callable[[Any], Awaitable[None]] | None = None,
    **run_options: Any,
) -> list[Any]:
    """Run ``workflow`` to its end and give the payloads of its ``output`` events.

    Every event goes to ``sink`` (a path, a file, a `Forwarder`, any `Sink`) and, untouched, to ``on_event``.
    When the workflow waits for humans, ``on_reply`` is asked with the requests that wait; what it answers is put
    into the framework's words and the workflow goes on. An answer that fits no request, or has the wrong shape, is
    logged and asked for again. Without ``on_reply`` the function returns when the workflow waits.

    ``run_options`` go to every ``workflow.run`` (``checkpoint_storage=...``). What the workflow raises is written
    to the sink and raised; so is a cancellation.
    """
    recorder = Recorder(sink, describe_error=describe_error)
    with contextlib.closing(recorder):
        loop = _Loop(workflow, recorder, on_event, run_options)
        await loop.run({"message": message})
        while loop.waits and on_reply is not None:
            responses = await _ask(on_reply, loop)
            await recorder.note_responses(responses)
            await loop.run({"responses": responses})
        return loop.outputs


class _Loop:
    """The runs of one conversation."""

    def __init__(
        self,
        workflow: Any,
        recorder: Recorder,
        on_event: Callable[[Any], Awaitable[None]] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._workflow = workflow
        self._recorder = recorder
        self._on_event = on_event
        self._options = dict(options)
        self._state: str | None = None
        self.pending: dict[str, PendingRequest] = {}
        self.outputs: list[Any] = []

    @property
    def waits(self) -> bool:
        return self._state == "IDLE_WITH_PENDING_REQUESTS" and bool(self.pending)

    async def run(self, start: Mapping[str, Any]) -> None:
        try:
            stream = self._workflow.run(**start, stream=True, **self._options)
        except Exception as error:
            await self._recorder.note_failure(error)
            raise
        for request_id in start.get("responses", ()):
            del self.pending[request_id]
        recorded = self._recorder.record(stream)
        async with contextlib.aclosing(recorded):
            async for event in recorded:
                self._note(event)
                if self._on_event is not None:
                    await self._on_event(event)

    def _note(self, event: Any) -> None:
        kind = getattr(event, "type", None)
        if kind == "status":
            self._state = state_of(event)
        elif kind == "request_info":
            self.pending[event.request_id] = PendingRequest.from_event(event)
        elif kind == "output":
            self.outputs.append(event.data)


async def _ask(on_reply: OnReply, loop: _Loop) -> dict[str, Any]:
    """Ask until there is at least one answer that the workflow can take."""
    problem = ReplyError("", "no answer")
    for _ in range(MAX_BAD_REPLIES):
        responses: dict[str, Any] = {}
        given = await on_reply(tuple(loop.pending.values()))
        for item in given if isinstance(given, (list, tuple)) else [given]:
            try:
                responses |= decode_replies(item, loop.pending.values())
            except ReplyError as error:
                logger.warning("%s", error)
                problem = error
        if responses:
            return responses
    raise problem
