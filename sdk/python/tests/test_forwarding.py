"""Lines reach the gateway each once and in order, whatever is cut, slow or refused."""

from __future__ import annotations

import asyncio
import http
import json
from typing import Any

import pytest
from websockets.asyncio.server import serve

from aqueduct_magentic import Backoff, Forwarder, ForwarderError, Reply, run_workflow
from cases import CASES, QUESTION
from gateway import Gateway
from shape import check_line
from support import run

LINES = [json.dumps({"seq": seq, "type": "warning", "data": f"ä🦀 {seq}"}) for seq in range(6)]
SENT = [json.loads(line) for line in LINES]


class Pauses:
    """Takes the place of sleeping."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


def forwarder(url: str, **options: Any) -> Forwarder:
    options.setdefault("sleep", Pauses())
    return Forwarder(url, agent="team", run="r1", **options)


async def deliver(gateway: Gateway, **options: Any) -> None:
    async with gateway.serving() as url, forwarder(url, **options) as target:
        for line in LINES:
            await target.send(line)


def check(gateway: Gateway) -> None:
    assert gateway.breaches == []
    assert gateway.runs["r1"].payloads == SENT
    assert gateway.runs["r1"].finished


def steps_of_a_delivery() -> int:
    async def use() -> int:
        gateway = Gateway()
        await deliver(gateway)
        return gateway.steps

    return run(use())


def test_replicas_are_tried_in_turn() -> None:
    """Replicas share their runs, and one of the addresses has nothing behind it."""

    async def use() -> Gateway:
        gateway = Gateway(cuts=range(8, 60, 8))
        async with gateway.serving() as first, gateway.serving() as second:
            nothing = "ws://127.0.0.1:9/ws"
            target = Forwarder([nothing, first, second], agent="team", run="r1", sleep=Pauses())
            async with target:
                for line in LINES:
                    await target.send(line)
        return gateway

    gateway = run(use())
    check(gateway)
    assert gateway.connections >= 3
    assert len({headers["host"] for headers in gateway.headers}) == 2
    with pytest.raises(ValueError, match="no address"):
        Forwarder([], agent="team")


def test_what_is_said_to_the_gateway() -> None:
    async def use() -> Gateway:
        gateway = Gateway()
        await deliver(gateway, thread="t1", token="secret", headers={"X-Run": "7"})
        return gateway

    gateway = run(use())
    check(gateway)
    assert gateway.publishes == [
        {"type": "publish", "ref": "p", "agent": "team", "run": "r1", "thread": "t1", "format": "magentic"}
    ]
    assert gateway.headers[0]["Authorization"] == "Bearer secret"
    assert gateway.headers[0]["X-Run"] == "7"


def test_a_run_gets_an_id_of_its_own() -> None:
    first, second = (Forwarder("ws://localhost", agent="a").run for _ in range(2))
    assert first != second


@pytest.mark.parametrize("remembers", [False, True], ids=["reopens", "remembers"])
@pytest.mark.parametrize("cut", range(1, steps_of_a_delivery() + 1))
def test_a_cut_before_any_message(cut: int, remembers: bool) -> None:
    async def use() -> Gateway:
        gateway = Gateway(cuts={cut}, remembers_finished=remembers)
        await deliver(gateway)
        return gateway

    gateway = run(use())
    check(gateway)
    assert gateway.connections == 2


@pytest.mark.parametrize("distance", range(1, 8))
def test_cuts_again_and_again(distance: int) -> None:
    async def use() -> Gateway:
        gateway = Gateway(cuts=range(3, 60, distance))
        await deliver(gateway)
        return gateway

    check(run(use()))


def test_a_slow_gateway_slows_the_sender_down() -> None:
    async def use() -> None:
        gateway = Gateway(window=2)
        gateway.ack_allowed.clear()
        async with gateway.serving() as url, forwarder(url, max_lines=4) as target:
            sending = asyncio.gather(*(target.send(line) for line in LINES))
            while gateway.most_under_way < 2:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)
            assert not sending.done()
            assert target.acknowledged == 0
            assert len(gateway.runs["r1"].payloads) == 2
            gateway.ack_allowed.set()
            await sending
        check(gateway)
        assert gateway.most_under_way == 2

    run(use())


def test_who_waits_longest_is_first() -> None:
    async def use() -> None:
        target = forwarder("ws://localhost", max_lines=2)
        for line in ("1", "2"):
            await target.send(line)
        waiting = asyncio.create_task(target.send("3"))
        await asyncio.sleep(0)

        def acknowledge(number: int) -> None:
            target._window.resume(number, 10, 10)
            target._changed.notify()

        # There is room again, and before the one who waits is awake, another comes.
        acknowledge(1)
        asyncio.get_running_loop().call_soon(acknowledge, 2)
        await target.send("4")
        await waiting
        assert [target._window.take(), target._window.take()] == [(3, "3"), (4, "4")]

    run(use())


def test_a_large_line_goes_in_frames_that_a_gateway_takes() -> None:
    frames: list[int] = []

    async def handle(connection: Any) -> None:
        await connection.recv()
        answer = {"type": "publishing", "ref": "p", "run": "r1", "acknowledged": 0, "window": 4, "window_bytes": 9}
        await connection.send(json.dumps(answer))
        parts = [part async for part in connection.recv_streaming()]
        frames.extend(len(part.encode()) for part in parts)
        assert len(json.loads("".join(parts))["data"]["data"]) == 200_000
        await connection.send('{"type":"ack","ref":"p","number":1}')
        await connection.recv()
        await connection.send('{"type":"finished","ref":"p"}')

    async def use() -> None:
        async with serve(handle, "127.0.0.1", 0, subprotocols=["aqueduct.v1.json"]) as server:  # type: ignore[list-item]
            port = next(iter(server.sockets)).getsockname()[1]
            async with forwarder(f"ws://127.0.0.1:{port}") as target:
                await target.send(json.dumps({"seq": 0, "data": "🦀" * 200_000}, ensure_ascii=False))

    run(use())
    assert len(frames) > 1
    assert max(frames) <= 256 * 1024


def test_a_line_that_no_gateway_takes_loses_its_payload_and_says_so() -> None:
    async def use() -> Any:
        gateway = Gateway()
        async with gateway.serving() as url, forwarder(url, max_line_bytes=1_000) as target:
            huge = {"seq": 0, "type": "executor_completed", "data_class": "list[Message]", "data": ["x" * 2_000]}
            await target.send(json.dumps(huge))
        return gateway.runs["r1"].payloads[0]

    line = run(use())
    assert (line["seq"], line["type"]) == (0, "executor_completed")
    assert line["data"]["__class__"] == "list[Message]"
    assert "over the limit of 1000 bytes" in line["data"]["omitted"]


@pytest.mark.parametrize("code", ["not_found", "unauthenticated", "invalid", "conflict", "gone", "unsupported"])
def test_a_refusal_is_final(code: str) -> None:
    async def use() -> None:
        gateway = Gateway(refusals=[{"code": code, "message": "no"}])
        with pytest.raises(ForwarderError) as raised:
            await deliver(gateway)
        assert raised.value.code == code
        assert gateway.connections == 1

    run(use())


@pytest.mark.parametrize("code", ["busy", "unavailable", "internal"])
def test_trouble_is_not(code: str) -> None:
    async def use() -> None:
        pauses = Pauses()
        gateway = Gateway(refusals=[{"code": code, "message": "later"}] * 3)
        await deliver(gateway, sleep=pauses, backoff=Backoff(first=1.0, rand=lambda: 0.0))
        check(gateway)
        assert pauses.taken == [1.0, 2.0, 4.0]

    run(use())


def test_a_gateway_that_has_not_noticed_the_cut_is_asked_again() -> None:
    async def use() -> None:
        gateway = Gateway(cuts={9})
        async with gateway.serving() as url, forwarder(url) as target:
            await target.send(LINES[0])
            while target.acknowledged < 1:
                await asyncio.sleep(0)
            gateway._refusals.extend([{"code": "conflict", "message": "being fed already"}] * 2)
            for line in LINES[1:]:
                await target.send(line)
        check(gateway)
        assert gateway.connections == 4

    run(use())


@pytest.mark.parametrize(("status", "final"), [(401, True), (404, True), (429, False), (503, False)])
def test_refusals_of_the_upgrade(status: int, final: bool) -> None:
    answers = [status] * 2

    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(http.HTTPStatus(answers.pop()), "no\n") if answers else None

    async def use() -> None:
        gateway = Gateway(process_request=refuse)
        if not final:
            await deliver(gateway)
            check(gateway)
            return
        with pytest.raises(ForwarderError, match=f"http_{status}: no"):
            await deliver(gateway)

    run(use())


def test_a_server_of_another_protocol_is_refused() -> None:
    async def use() -> None:
        with pytest.raises(ForwarderError, match="does not speak"):
            await deliver(Gateway(subprotocols=None))

    run(use())


@pytest.mark.parametrize(("code", "final"), [(1001, False), (1011, False), (4408, False), (4401, True), (1009, True)])
def test_close_codes(code: int, final: bool) -> None:
    async def use() -> None:
        gateway = Gateway()
        serve_feed = gateway._handle

        async def handle(connection: Any) -> None:
            gateway.connections += 1
            if gateway.connections == 1:
                await connection.close(code, "because")
                return
            await serve_feed(connection)

        gateway._handle = handle  # type: ignore[method-assign]
        if not final:
            await deliver(gateway)
            check(gateway)
            return
        with pytest.raises(ForwarderError, match="because"):
            await deliver(gateway)

    run(use())


def test_patience_ends() -> None:
    clock = [0.0]

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    async def use() -> None:
        # The discard port has no listener.
        target = forwarder("ws://127.0.0.1:9", sleep=sleep, clock=lambda: clock[0], give_up_after=100.0)
        with pytest.raises(ForwarderError) as raised:
            async with target:
                for line in LINES:
                    await target.send(line)
        assert raised.value.code == "unreachable"

    run(use())
    assert 50.0 < clock[0] <= 100.0


def test_waiting_for_a_human_is_no_outage() -> None:
    clock = [0.0]

    async def use() -> None:
        pauses = Pauses()
        gateway = Gateway(cuts={5})
        async with gateway.serving() as url:
            options: dict[str, Any] = {"sleep": pauses, "clock": lambda: clock[0], "give_up_after": 100.0}
            async with forwarder(url, backoff=Backoff(first=1.0, rand=lambda: 0.0), **options) as target:
                await target.send(LINES[0])
                while target.acknowledged < 1:
                    await asyncio.sleep(0)
                clock[0] += 10_000.0
                for line in LINES[1:]:
                    await target.send(line)
        check(gateway)
        assert pauses.taken == [1.0]

    run(use())


def test_a_gateway_that_forgot_is_not_fed_on() -> None:
    async def use() -> None:
        gateway = Gateway(cuts={12})
        async with gateway.serving() as url:
            with pytest.raises(ForwarderError) as raised:
                async with forwarder(url) as target:
                    await target.send(LINES[0])
                    while target.acknowledged < 1:
                        await asyncio.sleep(0)
                    gateway.runs.clear()
                    for line in LINES[1:]:
                        await target.send(line)
            assert raised.value.code == "conflict"

    run(use())


def test_pauses_grow_are_shortened_at_random_and_begin_anew() -> None:
    rand = iter([0.0, 0.5, 1.0, 0.0, 0.0, 0.0])
    backoff = Backoff(first=1.0, most=5.0, rand=lambda: next(rand))
    assert [backoff.next() for _ in range(4)] == [1.0, 1.5, 2.0, 5.0]
    assert backoff.next() == 5.0
    backoff.reset()
    assert backoff.next() == 1.0


def test_a_cut_after_progress_is_the_first_one_again() -> None:
    async def use() -> None:
        pauses = Pauses()
        gateway = Gateway(window=1, cuts={5, 11})
        await deliver(gateway, sleep=pauses, backoff=Backoff(first=1.0, rand=lambda: 0.0))
        check(gateway)
        assert pauses.taken == [1.0, 1.0]

    run(use())


def test_replies_reach_the_callback() -> None:
    seen: list[Reply] = []

    async def use() -> None:
        arrived = asyncio.Event()

        async def on_reply(reply: Reply) -> None:
            seen.append(reply)
            if len(seen) == 1:
                raise ValueError("a callback that fails must not stop the others")
            arrived.set()

        gateway = Gateway(on_payload=lambda payload: {"interrupt": f"i{payload['seq']}", "resolved": False})
        async with gateway.serving() as url, forwarder(url, on_reply=on_reply) as target:
            await target.send(LINES[0])
            await target.send(LINES[1])
            await arrived.wait()

    run(use())
    assert seen == [Reply("i0", None, False), Reply("i1", None, False)]


def test_a_failure_is_delivered_before_the_exit() -> None:
    async def use() -> Gateway:
        gateway = Gateway()
        async with gateway.serving() as url:
            with pytest.raises(RuntimeError, match="529"):
                async with forwarder(url) as target:
                    await run_workflow(CASES["failing_agent"].build(), QUESTION, target)
        return gateway

    gateway = run(use())
    assert gateway.runs["r1"].finished
    assert gateway.runs["r1"].payloads[-1]["message"] == "model overloaded (529)"


def human(words: list[Any]) -> Any:
    """Answer each request as soon as it is seen, long before the workflow is ready for it."""

    def on_payload(payload: dict[str, Any]) -> dict[str, Any] | None:
        if payload.get("type") != "request_info":
            return None
        return {"interrupt": payload["request_id"], "resolved": True, "payload": words.pop(0)}

    return on_payload


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.replies])
@pytest.mark.parametrize("cuts", [(), range(5, 500, 11), range(4, 500, 7)], ids=["calm", "cuts", "more cuts"])
def test_a_human_behind_the_gateway(name: str, cuts: Any) -> None:
    case = CASES[name]

    async def use() -> Gateway:
        gateway = Gateway(cuts=cuts, on_payload=human(list(case.replies)))
        async with gateway.serving() as url, forwarder(url) as target:
            await run_workflow(case.build(), QUESTION, target, target.answer)
        return gateway

    gateway = run(use())
    lines = gateway.runs["r1"].payloads
    assert gateway.breaches == []
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines[-1]["state"] == "IDLE"
    for line in lines:
        check_line(line)
