"""Writes the events of a running workflow down while they pass through.

::

    stream ──► record ──► the caller's own loop
                 │
                 └──► sink: one line per event, then how it ended

======================================  ================================================================
the stream                              the last lines
======================================  ================================================================
ends                                    its own ``status`` event; of ``as_agent()`` its ``final_response``
raises                                  its own events if any, then ``exception_line`` with the text
is cancelled, or no longer read         ``status`` ``CANCELLED``, unless the run had ended
======================================  ================================================================

Not done here: nothing is filtered, and the events themselves are passed on untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from typing import Any, TypeVar

from . import events
from .payload import exception_text
from .sinks import LineFile, Sink, Target, as_sink

Event = TypeVar("Event")

LAST_WORD_SECONDS = 5.0
"""How long a cancelled recording may wait for its sink. A sink that hangs must not make a task uncancellable."""


class Recorder:
    """Numbers and writes the lines of one conversation, over any number of runs of its workflow.

    ``describe_error`` gives the text of an exception that left a run. The framework hides that text from its own
    events because it may hold secrets; pass a function of your own to say less than ``str(error)``.
    """

    def __init__(
        self,
        target: Target = None,
        *,
        start: int = 0,
        describe_error: Callable[[BaseException], str] = exception_text,
    ) -> None:
        self._sink: Sink = as_sink(target)
        self._next = start
        self._describe_error = describe_error

    @property
    def next_seq(self) -> int:
        """The number of the next line."""
        return self._next

    async def record(self, stream: AsyncIterable[Event]) -> AsyncGenerator[Event, None]:
        """Pass the events of one run on, and write each down before it is passed on."""
        run = _Run()
        try:
            async for event in stream:
                run.note(event)
                await self._send(events.encode_event(event, self._next))
                yield event
            await self._finish(stream, run)
        except GeneratorExit:
            # The caller left its loop. Its workflow is stopped here and not when the garbage is collected.
            await _close(stream)
            await self._cancelled(run)
            raise
        except asyncio.CancelledError:
            await self._cancelled(run)
            raise
        except _SinkError as error:
            await _close(stream)
            raise error.cause from None
        except BaseException as error:
            await self._failed(error, run)
            raise

    async def note_responses(self, responses: Mapping[str, object]) -> None:
        """Write down the replies that are about to be given to the workflow."""
        await self._plain_send(events.responses_line(responses, self._next))

    async def note_failure(self, error: BaseException) -> None:
        """Write down an exception that prevented a run from starting."""
        await self._failed(error, _Run())

    def close(self) -> None:
        """Close the file, if the recorder opened one."""
        if isinstance(self._sink, LineFile):
            self._sink.close()

    async def _finish(self, stream: AsyncIterable[Any], run: _Run) -> None:
        finalize = getattr(stream, "get_final_response", None)
        if run.of_agent and callable(finalize):
            await self._send(events.final_response_line(await finalize(), self._next))

    async def _cancelled(self, run: _Run) -> None:
        if not run.ended:
            await self._last_word(events.cancelled_line(self._next))

    async def _failed(self, error: BaseException, run: _Run) -> None:
        if not run.began:
            # A reader takes an exception for the end of the run before, unless a run has begun.
            await self._last_word(events.started_line(self._next))
        await self._last_word(events.exception_line(error, self._describe_error(error), self._next))

    async def _send(self, line: events.Line) -> None:
        try:
            await self._plain_send(line)
        except Exception as error:
            raise _SinkError(error) from error

    async def _plain_send(self, line: events.Line) -> None:
        await self._sink.send(events.to_line(line))
        # Only now: a sink that was interrupted has not taken the line, and a number left out would be a lost line.
        self._next += 1

    async def _last_word(self, line: events.Line) -> None:
        try:
            await asyncio.wait_for(self._plain_send(line), LAST_WORD_SECONDS)
        except Exception:
            # The run is over and its own end is what the caller must see, not that of the sink.
            events.logger.warning("the end of the run could not be recorded", exc_info=True)


async def record(
    stream: AsyncIterable[Event],
    target: Target = None,
    *,
    describe_error: Callable[[BaseException], str] = exception_text,
) -> AsyncGenerator[Event, None]:
    """Pass the events of a workflow's stream on while writing them to ``target`` as JSON lines.

    One line to add to a program::

        async for event in record(workflow.run("Hello", stream=True), "run.jsonl"):
            ...

    ``target`` is a path, an open file, a `Sink`, or ``None`` for standard output. A conversation of several runs
    needs a `Recorder`, which goes on counting.
    """
    recorder = Recorder(target, describe_error=describe_error)
    recorded = recorder.record(stream)
    try:
        async for event in recorded:
            yield event
    finally:
        # An inner generator is not closed by the outer one's end; its last line would wait for the collector.
        await recorded.aclose()
        recorder.close()


class _Run:
    """What was seen of one run."""

    def __init__(self) -> None:
        self.began = False
        self.ended = False
        self.of_agent = False

    def note(self, event: object) -> None:
        self.began = True
        self.of_agent = self.of_agent or events.is_update(event)
        self.ended = events.is_final(events.state_of(event))


class _SinkError(Exception):
    """The sink failed, not the workflow."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def _close(stream: object) -> None:
    for name in ("close", "aclose"):
        close = getattr(stream, name, None)
        if callable(close):
            outcome = close()
            if hasattr(outcome, "__await__"):
                await outcome
            return
