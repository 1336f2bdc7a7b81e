"""Where lines go: a file, standard output, or anything with an ``async send(line)``.

A sink takes whole lines, in order. It may wait in ``send`` (that is the back-pressure: the workflow waits with it)
and it may raise, which ends the recording. A ``send`` that raises or is cancelled has not taken its line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO, Any, Protocol, Union, cast, runtime_checkable


@runtime_checkable
class Sink(Protocol):
    """Takes lines."""

    async def send(self, line: str) -> None:
        """Take one line, without a line feed."""


class LineFile:
    """A sink that writes lines to a file, each flushed at once so that a reader can follow.

    ``target`` is a path (created or overwritten, closed by `close`), an open text or binary file (left open), or
    ``None`` or ``"-"`` for standard output.
    """

    def __init__(self, target: str | os.PathLike[str] | IO[Any] | None = None) -> None:
        self._owned: IO[bytes] | None = None
        self._write: Callable[[str], object]
        self._flush: Callable[[], object]
        if target is None or target == "-":
            target = sys.stdout
        if isinstance(target, (str, os.PathLike)):
            # Bytes, because text mode would write another line ending on some systems.
            self._owned = open(target, "wb")  # noqa: SIM115 (closed by close())
            target = self._owned
        file = cast("IO[Any]", target)
        binary = "b" in getattr(file, "mode", "") or not hasattr(file, "encoding")
        self._write = (lambda line: file.write(line.encode())) if binary else file.write
        self._flush = getattr(file, "flush", lambda: None)

    async def send(self, line: str) -> None:
        """Write one line."""
        self._write(f"{line}\n")
        self._flush()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned is not None:
            self._owned.close()


Target = Union[Sink, str, "os.PathLike[str]", IO[Any], None]
"""Whatever lines can be written to."""


def as_sink(target: Target) -> Sink:
    """Give ``target`` itself if it is a sink, else a `LineFile` of it."""
    # A socket-like file also has `send`; only a sink's is a coroutine function, which a Protocol cannot tell.
    if isinstance(target, Sink) and not hasattr(target, "write"):
        return target
    return LineFile(cast("str | os.PathLike[str] | IO[Any] | None", target))
