"""Forwards lines to a gateway over WebSocket, through cuts, without losing or doubling one.

::

    connecting ── publish ──► publishing(acknowledged) ──► feeding ── finish ──► finished
        ▲                                                     │
        └──── back-off ◄──── cut, busy, unavailable ──────────┤
                                                              └──── refused ──► failed

The protocol is ``aqueduct.v1.json`` (``docs/websocket.md`` of the project). A line is kept until the gateway has
acknowledged it; after a cut the gateway says what it has, and sending goes on from there. Gateways that share a log are
one gateway: the next attempt may meet another replica, also after the first one died. `Forwarder.send` waits
while too much is kept: a slow gateway slows the workflow down instead of filling the memory.

One ``publish`` carries a whole conversation, also when it takes several ``run()`` calls because humans were asked. The
``responses`` line confirms which answers have reached the workflow. One that is sent again, because a cut made
it doubtful, does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from .events import logger
from .replies import PendingRequest, Reply, parse_replies
from .shortening import fit
from .signal import Signal
from .window import ResumeError, Window

SUBPROTOCOL = "aqueduct.v1.json"
"""The protocol that is spoken."""

FORMAT = "magentic"
"""What the payloads are, for the gateway."""

FRAGMENT = 60_000
"""Characters of one frame: at most 240 kB of UTF-8. Gateways take frames up to 256 KiB, messages of several."""

MAX_WAITING_REPLIES = 1_024
"""Answers that the workflow has not taken. A workflow asks few questions at once: more mean that it reads none."""

STEADY_SECONDS = 30.0
"""A connection that lasted so long was a good one, even if there was nothing to acknowledge: a workflow may wait for
hours for its human. What follows is a new outage."""

_REFUSALS = frozenset({"not_found", "unauthenticated", "invalid", "conflict", "gone", "unsupported"})
_FATAL_CLOSES = frozenset({1002, 1003, 1007, 1009, 4400, 4401, 4404, 4409, 4410, 4501})


class ForwarderError(Exception):
    """The gateway refused for good, or was away for too long. ``code`` is the gateway's, or ``unreachable``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Backoff:
    """Pauses between attempts to connect: doubled each time up to ``most``, each shortened at random by up to half.

    The random part keeps many workflows from coming back in the same instant after a gateway's restart.
    """

    def __init__(
        self,
        first: float = 0.2,
        most: float = 30.0,
        factor: float = 2.0,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._first, self._most, self._factor, self._rand = first, most, factor, rand
        self._pause = first

    def next(self) -> float:
        """Give the next pause in seconds."""
        pause, self._pause = self._pause, min(self._pause * self._factor, self._most)
        return pause * (1.0 - self._rand() / 2.0)

    def reset(self) -> None:
        """Reset the pause: the gateway accepted a line."""
        self._pause = self._first


class Forwarder:
    """A sink that feeds one run of a gateway, and brings its humans' answers back.

    ::

        async with Forwarder("ws://localhost:8080/ws", agent="team") as gateway:
            await run_workflow(workflow, "Hello", gateway, gateway.answer)

    The first argument is the gateway's WebSocket address, or the addresses of replicas that share a log: each attempt
    to connect takes the next one. ``agent`` is the name under which the run is shown.
    ``run`` (made up if absent, so that a cut can never start the run twice) and ``thread`` name the run and its
    conversation, ``token`` says who asks. ``on_reply`` is called with every answer of a human, one after the
    other; without it answers wait for `answer` or `next_reply`.

    ``max_lines`` and ``max_bytes`` limit what is kept unacknowledged, ``max_line_bytes`` a single line (gateways
    refuse messages above 1 MiB by default): a larger one loses its payload, and says so.
    ``give_up_after`` is how many seconds may pass without progress, ``None`` for any number.
    ``sleep`` and ``clock`` are for tests.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        agent: str,
        run: str | None = None,
        thread: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        on_reply: Callable[[Reply], Awaitable[None]] | None = None,
        max_lines: int = 256,
        max_bytes: int = 4 * 1024 * 1024,
        max_line_bytes: int = 1024 * 1024 - 4096,
        give_up_after: float | None = 300.0,
        linger: float = 5.0,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        connect_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._urls: Sequence[str] = [url] if isinstance(url, str) else list(url)
        if not self._urls:
            raise ValueError("no address of a gateway: name at least one")
        self._attempts = 0
        self._run = run or uuid.uuid4().hex
        self._publish: dict[str, str] = {"type": "publish", "ref": "p", "agent": agent, "run": self._run}
        if thread is not None:
            self._publish["thread"] = thread
        self._publish["format"] = FORMAT
        self._headers = dict(headers or {})
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._on_reply = on_reply
        self._window = Window(max_lines, max_bytes)
        self._max_line_bytes = max_line_bytes
        self._give_up_after = give_up_after
        self._linger = linger
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._clock = clock
        self._options = dict(connect_options or {})
        self._websockets = _load_websockets()
        self._changed = Signal()
        self._sending = asyncio.Lock()
        self._replies: deque[Reply] = deque()
        self._error: Exception | None = None
        self._began = False
        self._finishing = False
        self._finish_sent = False
        self._finished = False
        self._progress_at = 0.0
        self._opened_at: float | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def run(self) -> str:
        """The id of the run."""
        return self._run

    @property
    def acknowledged(self) -> int:
        """How many lines the gateway has taken for good."""
        return self._window.acknowledged

    async def __aenter__(self) -> Forwarder:
        """Begin to connect; the first lines need not wait for it."""
        self._tasks.append(asyncio.create_task(self._keep_connected()))
        if self._on_reply is not None:
            self._tasks.append(asyncio.create_task(self._dispatch(self._on_reply)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the run; after an exception only if the gateway answers within ``linger`` seconds."""
        try:
            if error is None:
                await self.finish()
            else:
                # The line that tells the failure is among those to be delivered.
                with contextlib.suppress(ForwarderError, asyncio.TimeoutError):
                    await asyncio.wait_for(self.finish(), self._linger)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, line: str) -> None:
        """Take a line; waits while too many are unacknowledged. Raises `ForwarderError` if there is no way."""
        if self._finishing:
            raise RuntimeError("the run was finished: no line can follow")
        line, size = fit(line, self._max_line_bytes)
        # The lock keeps the order of tasks that wait for room.
        async with self._sending:
            await self._changed.wait_until(lambda: self._error is not None or self._window.has_room(size))
            self._raise_error()
            self._window.push(line, size)
            self._changed.notify()

    async def finish(self) -> None:
        """Wait until every line is acknowledged and the gateway has closed the run."""
        self._finishing = True
        self._changed.notify()
        await self._changed.wait_until(lambda: self._error is not None or self._finished)
        self._raise_error()

    async def next_reply(self) -> Reply:
        """Wait for the next answer of a human."""
        await self._changed.wait_until(lambda: self._error is not None or bool(self._replies))
        if not self._replies:
            self._raise_error()
        return self._replies.popleft()

    async def answer(self, pending: Sequence[PendingRequest]) -> list[Reply]:
        """Wait for answers: the ``on_reply`` of `run_workflow`."""
        replies = [await self.next_reply()]
        while self._replies:
            replies.append(self._replies.popleft())
        return replies

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def _dispatch(self, on_reply: Callable[[Reply], Awaitable[None]]) -> None:
        with contextlib.suppress(ForwarderError):
            while True:
                reply = await self.next_reply()
                try:
                    await on_reply(reply)
                except Exception:
                    logger.exception("the callback for the reply to %r failed", reply.request_id)

    async def _keep_connected(self) -> None:
        self._progress_at = self._clock()
        try:
            while not self._finished:
                self._opened_at = None
                problem = await self._connect_once()
                if problem is None:
                    continue
                if self._opened_at is not None and self._clock() - self._opened_at >= STEADY_SECONDS:
                    self._handle_progress()
                await self._pause(problem)
        except (ForwarderError, ResumeError) as error:
            code = "conflict" if isinstance(error, ResumeError) else ""
            self._error = error if not code else ForwarderError(code, str(error))
        except Exception as error:
            self._error = ForwarderError("internal", f"{type(error).__name__}: {error}")
        finally:
            self._changed.notify()

    async def _pause(self, problem: Exception) -> None:
        pause = self._backoff.next()
        away = self._clock() - self._progress_at
        if self._give_up_after is not None and away + pause > self._give_up_after:
            raise ForwarderError("unreachable", f"no progress for {away:.0f} s: {problem}") from problem
        logger.info("the gateway is away (%s); next attempt in %.1f s", problem, pause)
        await self._sleep(pause)

    async def _connect_once(self) -> Exception | None:
        """Talk over one connection. Gives what cut it; raises what makes another attempt useless."""
        exceptions = self._websockets.exceptions
        url = self._urls[self._attempts % len(self._urls)]
        self._attempts += 1
        try:
            connecting = self._websockets.asyncio.client.connect(
                url,
                subprotocols=[SUBPROTOCOL],
                additional_headers=self._headers,
                **self._options,
            )
            async with connecting as socket:
                if socket.subprotocol != SUBPROTOCOL:
                    raise ForwarderError("unsupported", f"{url} does not speak {SUBPROTOCOL}")
                await self._converse(socket)
            return None
        except exceptions.InvalidStatus as error:
            status = error.response.status_code
            if 400 <= status < 500 and status not in (408, 429):
                body = (error.response.body or b"").decode(errors="replace").strip()
                raise ForwarderError(f"http_{status}", body or "refused") from error
            return _retryable(error)
        except exceptions.InvalidURI as error:
            raise ForwarderError("invalid", str(error)) from error
        except exceptions.ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code in _FATAL_CLOSES:
                raise ForwarderError(f"closed_{error.rcvd.code}", error.rcvd.reason or "no reason") from error
            return _retryable(error)
        except (OSError, EOFError, asyncio.TimeoutError, exceptions.WebSocketException, _Cut) as error:
            return _retryable(error)

    async def _converse(self, socket: Any) -> None:
        await socket.send(json.dumps(self._publish))
        await self._handle_opening(socket)
        if self._finished:
            return
        writer = asyncio.create_task(self._write(socket))
        reader = asyncio.create_task(self._read(socket))
        try:
            done, _ = await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            # What the gateway said explains why writing failed, so it comes first.
            for task in (reader, writer):
                if task in done:
                    task.result()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _handle_opening(self, socket: Any) -> None:
        """Wait for ``publishing``, which says where to go on."""
        while True:
            message = _parse(await socket.recv())
            kind = message.get("type")
            if kind == "error":
                self._handle_refused_opening(message)
                return
            if kind == "publishing":
                self._window.resume(
                    int(message.get("acknowledged", 0)),
                    int(message.get("window", 1)),
                    int(message.get("window_bytes", 1)),
                )
                self._began = True
                self._opened_at = self._clock()
                self._changed.notify()
                return

    def _handle_refused_opening(self, message: Mapping[str, Any]) -> None:
        code = message.get("code")
        if self._finish_sent and code in ("conflict", "gone", "not_found"):
            # Every line was acknowledged and `finish` was sent; only the word about it was lost in the cut.
            self._finished = True
            return
        if self._began and code == "conflict":
            # The gateway may not have noticed yet that the connection before this one is dead.
            raise _Cut(str(message.get("message", code)))
        self._handle_error(message)

    async def _write(self, socket: Any) -> None:
        finish_sent = False
        while True:
            await self._changed.wait_until(
                lambda: self._window.has_next() or (self._finishing and self._window.is_empty and not finish_sent)
            )
            if self._window.has_next():
                number, line = self._window.take()
                text = f'{{"type":"payload","ref":"p","number":{number},"data":{line}}}'
                await socket.send(text if len(text) <= FRAGMENT else _fragments(text))
            else:
                finish_sent = self._finish_sent = True
                await socket.send('{"type":"finish","ref":"p"}')

    async def _read(self, socket: Any) -> None:
        while not self._finished:
            message = _parse(await socket.recv())
            kind = message.get("type")
            if message.get("ref", "p") != "p":
                continue
            if kind == "ack":
                if self._window.ack(int(message["number"])):
                    self._handle_progress()
            elif kind == "interrupt_reply":
                self._handle_reply(message)
            elif kind == "finished":
                self._finished = True
            elif kind == "error":
                self._handle_error(message)
            self._changed.notify()

    def _handle_progress(self) -> None:
        self._backoff.reset()
        self._progress_at = self._clock()

    def _handle_reply(self, message: Mapping[str, Any]) -> None:
        if len(self._replies) >= MAX_WAITING_REPLIES:
            raise ForwarderError("busy", f"{MAX_WAITING_REPLIES} replies wait: take them with `next_reply` or `answer`")
        self._replies.extend(parse_replies(message))

    def _handle_error(self, message: Mapping[str, Any]) -> None:
        code, text = str(message.get("code", "internal")), str(message.get("message", ""))
        if code in _REFUSALS:
            raise ForwarderError(code, text)
        raise _Cut(f"{code}: {text}")


class _Cut(Exception):
    """The gateway cannot go on now; another attempt may succeed."""


def _retryable(error: Exception) -> Exception:
    """Give the error back, unless no attempt can ever succeed."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        raise ForwarderError("untrusted", str(error)) from error
    return error


def _parse(message: str | bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(message)
    except ValueError as error:
        raise ForwarderError("invalid", f"the gateway sent what is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ForwarderError("invalid", "the gateway sent what is no message")
    return parsed


def _fragments(text: str) -> Iterable[str]:
    return [text[at : at + FRAGMENT] for at in range(0, len(text), FRAGMENT)]


def _load_websockets() -> Any:
    try:
        import websockets
        import websockets.asyncio.client
        import websockets.exceptions
    except ImportError as error:
        raise ImportError("Forwarder needs `pip install aqueduct-magentic[websocket]`") from error
    return websockets
