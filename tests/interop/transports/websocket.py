"""The `websockets` library against a running WebSocket endpoint (`docs/websocket.md`).

    python websocket.py <ws://host:port/ws> --say <words> --expect <text>

Starts, watches from a number, cancels, feeds, and is refused from a foreign page. Prints what it saw as one line of
JSON; ends with an error if that is not what was expected. `<words>` go to the agent `echo`, which says them again.
"""

import argparse
import asyncio
import json

import websockets
from websockets.asyncio.client import connect

SUBPROTOCOL = "aqueduct.v1.json"


def check(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r}, not {wanted!r}")


def run_input(run, text):
    messages = [{"id": "1", "role": "user", "content": text}]
    return {"threadId": "t", "runId": run, "messages": messages, "tools": [], "context": [], "state": {},
            "forwardedProps": {}, "protocolVersion": "1.0"}


class Peer:
    """One socket."""

    def __init__(self, socket):
        self.socket = socket

    async def send(self, **message):
        await self.socket.send(json.dumps(message))

    async def receive(self):
        return json.loads(await asyncio.wait_for(self.socket.recv(), 30))

    async def events(self, ref):
        """The events up to the end of the subscription `ref`, as (number, k, data)."""
        found = []
        while (message := await self.receive())["type"] == "event":
            found.append((message["number"], message.get("k", 0), message["data"]))
        check(message["type"], "ended", "the end of a subscription")
        check(message["ref"], ref, "whose end it is")
        return found


def text_of(events):
    return "".join(data["delta"] for _, _, data in events if data["type"] == "TEXT_MESSAGE_CONTENT")


async def starts_and_watches(peer, said, expected):
    await peer.send(type="start", ref="a", agent="echo", input=run_input("py-1", said))
    check(await peer.receive(), {"type": "started", "ref": "a", "run": "py-1"}, "the answer to start")
    events = await peer.events("a")
    check(text_of(events), expected, "the text of the run")
    addresses = [(number, k) for number, k, _ in events]
    check(addresses, sorted(set(addresses)), "the addresses of the events")
    after = events[len(events) // 2][0]
    await peer.send(type="watch", ref="b", run="py-1", after=after, options={"protocolVersion": "1.0"})
    check(await peer.receive(), {"type": "watching", "ref": "b", "run": "py-1"}, "the answer to watch")
    check(await peer.events("b"), [event for event in events if event[0] > after], f"the events after {after}")
    return len(events)


async def cancels(peer):
    await peer.send(type="start", ref="c", agent="slow", input=run_input("py-2", "count"))
    check((await peer.receive())["type"], "started", "the answer to start")
    first = await peer.receive()
    check(first["type"], "event", "the first message of the run")
    await peer.send(type="cancel", ref="d", run="py-2")
    answer, last = None, None
    while (message := await peer.receive())["type"] != "ended":
        if message["type"] == "cancelled":
            answer = message
        else:
            last = message["data"]
    if answer is None:  # It may come behind the end.
        answer = await peer.receive()
    check(answer, {"type": "cancelled", "ref": "d", "run": "py-2", "running": True}, "the answer to cancel")
    check((last["type"], last["outcome"]["type"]), ("RUN_FINISHED", "cancelled"), "the last event of a stopped run")


async def feeds(peer):
    await peer.send(type="publish", ref="p", agent="mine", run="py-3", format="text")
    opened = await peer.receive()
    check((opened["type"], opened["run"], opened["acknowledged"]), ("publishing", "py-3", 0), "the answer to publish")
    words = ["fed ", "from ", "Python"]
    for number, word in enumerate(words, 1):
        await peer.send(type="payload", ref="p", number=number, data=word)
    acknowledged = 0
    while acknowledged < len(words):
        message = await peer.receive()
        check(message["type"], "ack", "the answer to a payload")
        acknowledged = message["number"]
    # Once more, as after a cut: acknowledged again, and not taken twice.
    await peer.send(type="payload", ref="p", number=2, data="twice")
    check(await peer.receive(), {"type": "ack", "ref": "p", "number": 3}, "the answer to a payload sent twice")
    await peer.send(type="finish", ref="p")
    check(await peer.receive(), {"type": "finished", "ref": "p"}, "the answer to finish")
    await peer.send(type="watch", ref="w", run="py-3")
    check((await peer.receive())["type"], "watching", "the answer to watch")
    check(text_of(await peer.events("w")), "".join(words), "the text of the fed run")


async def is_refused(url):
    try:
        async with connect(url, subprotocols=[SUBPROTOCOL], origin="https://evil.example"):
            raise SystemExit("a foreign page was let in")
    except websockets.exceptions.InvalidStatus as refusal:
        check(refusal.response.status_code, 403, "the status for a foreign page")
    # A page of this machine is let in, so it is the origin that was refused.
    async with connect(url, subprotocols=[SUBPROTOCOL], origin="http://localhost:3000") as socket:
        check(socket.subprotocol, SUBPROTOCOL, "the subprotocol")


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--say", required=True)
    parser.add_argument("--expect", required=True)
    args = parser.parse_args()
    async with connect(args.url, subprotocols=[SUBPROTOCOL]) as socket:
        peer = Peer(socket)
        await peer.send(type="list", ref="l")
        agents = [agent["name"] for agent in (await peer.receive())["agents"]]
        check(agents, ["echo", "mine", "slow"], "the agents")
        events = await starts_and_watches(peer, args.say, args.expect)
        await cancels(peer)
        await feeds(peer)
    await is_refused(args.url)
    print(json.dumps({"websockets": websockets.__version__, "events": events}))


asyncio.run(main())
