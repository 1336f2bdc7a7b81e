"""A gateway for tests: the real WebSocket server of `websockets`, the publishing side of the protocol, and faults.

It holds payloads as a gateway does (by run, contiguous, each once) and complains of every breach of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed


@dataclass
class Run:
    """What the gateway holds of one run."""

    payloads: list[Any] = field(default_factory=list)
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers that no `responses` line has confirmed: they are sent again after a cut."""
    finished: bool = False


class Cut(Exception):
    """This connection is dead."""


class Gateway:
    """Serves until `serving` is left. Cuts are given by the number of the step (message in, out) they come before."""

    def __init__(
        self,
        *,
        window: int = 4,
        window_bytes: int = 1 << 20,
        cuts: Collection[int] = (),
        refusals: list[dict[str, str]] | None = None,
        remembers_finished: bool = False,
        on_payload: Callable[[Any], dict[str, Any] | None] = lambda payload: None,
        **options: Any,
    ) -> None:
        self.runs: dict[str, Run] = {}
        self.publishes: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.breaches: list[str] = []
        self.most_under_way = 0
        self.steps = 0
        self.connections = 0
        self.ack_allowed = asyncio.Event()
        self.ack_allowed.set()
        self._window, self._window_bytes = window, window_bytes
        self._cuts = cuts
        self._refusals = refusals or []
        self._remembers_finished = remembers_finished
        self._on_payload = on_payload
        self._options = {"subprotocols": ["aqueduct.v1.json"], **options}

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with serve(self._handle, "127.0.0.1", 0, **self._options) as server:
            yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws"

    async def _handle(self, connection: ServerConnection) -> None:
        self.connections += 1
        with contextlib.suppress(Cut, ConnectionClosed):
            await _Feed(self, connection).serve()

    def step(self, connection: ServerConnection) -> None:
        """Count a message; cut the connection if its time has come."""
        self.steps += 1
        if self.steps in self._cuts:
            connection.transport.abort()
            raise Cut


class _Feed:
    """One connection."""

    def __init__(self, gateway: Gateway, connection: ServerConnection) -> None:
        self._gateway = gateway
        self._connection = connection
        self._run = Run()
        self._under_way: list[int] = []

    async def serve(self) -> None:
        acks = asyncio.create_task(self._acknowledge())
        try:
            while True:
                text = await self._connection.recv()
                self._gateway.step(self._connection)
                message = json.loads(text)
                await getattr(self, f"_{message['type']}")(message, len(text))
        finally:
            acks.cancel()

    async def _send(self, message: dict[str, Any]) -> None:
        self._gateway.step(self._connection)
        await self._connection.send(json.dumps(message))

    async def _publish(self, message: dict[str, Any], _: int) -> None:
        gateway = self._gateway
        gateway.publishes.append(message)
        gateway.headers.append(self._connection.request.headers)  # type: ignore[union-attr]
        if gateway._refusals:
            await self._send({"type": "error", "ref": message["ref"], **gateway._refusals.pop(0)})
            return
        self._run = gateway.runs.setdefault(message["run"], Run())
        if self._run.finished and gateway._remembers_finished:
            await self._send({"type": "error", "ref": "p", "code": "conflict", "message": "the run has ended"})
            return
        answer = {"type": "publishing", "ref": message["ref"], "run": message["run"]}
        answer |= {"acknowledged": len(self._run.payloads)}
        await self._send(answer | {"window": gateway._window, "window_bytes": gateway._window_bytes})
        for reply in list(self._run.replies.values()):
            await self._send(reply)

    async def _payload(self, message: dict[str, Any], size: int) -> None:
        gateway = self._gateway
        self._under_way.append(message["number"])
        gateway.most_under_way = max(gateway.most_under_way, len(self._under_way))
        if len(self._under_way) > gateway._window:
            gateway.breaches.append(f"payload {message['number']} exceeds the window")
        expected = len(self._run.payloads) + 1
        if message["number"] > expected:
            gateway.breaches.append(f"payload {message['number']} instead of {expected}")
        if message["number"] == expected:
            self._run.payloads.append(message["data"])
            for answered in message["data"].get("responses", ()):
                del self._run.replies[answered]
            reply = gateway._on_payload(message["data"])
            if reply is not None:
                message = {"type": "interrupt_reply", "ref": "p", **reply}
                self._run.replies[reply["interrupt"]] = message
                await self._send(message)

    async def _finish(self, message: dict[str, Any], _: int) -> None:
        self._run.finished = True
        await self._send({"type": "finished", "ref": message["ref"]})

    async def _acknowledge(self) -> None:
        """Acknowledge one payload after the other, as slowly as the test wants."""
        with contextlib.suppress(Cut, ConnectionClosed):
            while True:
                await self._gateway.ack_allowed.wait()
                if self._under_way:
                    number = self._under_way.pop(0)
                    await self._send({"type": "ack", "ref": "p", "number": number})
                await asyncio.sleep(0)
