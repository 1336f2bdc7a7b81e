"""What several tests need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds until a test that hangs is called failed. No test waits for time to pass."""


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end."""

    async def bounded() -> Result:
        return await asyncio.wait_for(coroutine, PATIENCE)

    return asyncio.run(bounded())


class ListSink:
    """Keeps lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def send(self, line: str) -> None:
        self.lines.append(line)

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


async def stream_of(*events: Any, error: BaseException | None = None) -> Any:
    """Give events as a workflow's stream does."""
    for event in events:
        await asyncio.sleep(0)
        yield event
    if error is not None:
        raise error
