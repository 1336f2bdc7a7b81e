"""Waiting for a condition that other tasks of the same event loop change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """Like ``asyncio.Condition`` without a lock: one loop runs all tasks, so nothing changes between awaits.

    Code that changes a value which a waiter may wait for calls `notify`, which needs no await and so cannot be interrupted.
    """

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Let every waiter look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
