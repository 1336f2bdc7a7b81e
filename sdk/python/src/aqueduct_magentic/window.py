"""The lines that a gateway has not acknowledged yet. Knows no socket and no clock.

::

    push ──► [ waiting │ sent, not acknowledged ] ──► ack: forgotten
                  ▲              │
                  └── resume ────┘   a new connection sends again from the acknowledged number

Numbers are the gateway's: contiguous, from 1. Two limits hold at once: how much is kept here (room for the
workflow), and how much of it may be under way (the window that the gateway grants).
"""

from __future__ import annotations

from collections import deque


class ResumeError(Exception):
    """The gateway and this side disagree about what was sent, so nothing can be resumed."""


class Window:
    """Numbered lines between the first that is not acknowledged and the last."""

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._lines: deque[tuple[str, int]] = deque()
        self._bytes = 0
        self._acknowledged = 0
        self._sent = 0
        self._sent_bytes = 0
        self._granted = 0
        self._granted_bytes = 0

    @property
    def acknowledged(self) -> int:
        """The highest number that is safe with the gateway."""
        return self._acknowledged

    @property
    def is_empty(self) -> bool:
        """Whether everything is acknowledged."""
        return not self._lines

    def has_room(self, size: int) -> bool:
        """Whether a line of ``size`` bytes may be pushed. One line always may, however large."""
        fits = len(self._lines) < self._max_lines and self._bytes + size <= self._max_bytes
        return fits or not self._lines

    def push(self, line: str, size: int) -> None:
        """Keep a line until it is acknowledged."""
        self._lines.append((line, size))
        self._bytes += size

    def resume(self, acknowledged: int, lines: int, size: int) -> None:
        """Start a connection whose gateway holds ``acknowledged`` lines and grants a window of lines and bytes."""
        last = self._acknowledged + len(self._lines)
        if acknowledged > last:
            raise ResumeError(f"the gateway has {acknowledged} payloads of this run, but only {last} exist here")
        if acknowledged < self._acknowledged:
            first, until = acknowledged + 1, self._acknowledged
            raise ResumeError(f"the gateway lost payloads {first} to {until}, which it had acknowledged")
        self._sent = self._acknowledged
        self._sent_bytes = 0
        self._forget(acknowledged)
        self._sent = acknowledged
        self._granted, self._granted_bytes = lines, size

    def has_next(self) -> bool:
        """Whether a line waits that the granted window lets through."""
        under_way = self._sent - self._acknowledged
        if under_way >= len(self._lines):
            return False
        if under_way == 0:
            # A line larger than the whole window goes alone.
            return self._granted > 0
        size = self._lines[under_way][1]
        return under_way < self._granted and self._sent_bytes + size <= self._granted_bytes

    def take(self) -> tuple[int, str]:
        """Give the next line to send and its number; only if `has_next`."""
        line, size = self._lines[self._sent - self._acknowledged]
        self._sent += 1
        self._sent_bytes += size
        return self._sent, line

    def ack(self, number: int) -> bool:
        """Forget lines up to ``number``. Tells whether that was news; a number never sent raises."""
        if number > self._sent:
            raise ResumeError(f"the gateway acknowledged payload {number}, but only {self._sent} were sent")
        before = self._acknowledged
        self._forget(number)
        return self._acknowledged > before

    def _forget(self, number: int) -> None:
        while self._acknowledged < number:
            _, size = self._lines.popleft()
            self._bytes -= size
            if self._acknowledged < self._sent:
                self._sent_bytes -= size
            self._acknowledged += 1
