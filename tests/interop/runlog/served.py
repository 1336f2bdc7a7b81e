"""The Python SDK 1.3.0 as a client of tasks that two gateways serve from one log.

    served.py --binding JSONRPC|HTTP+JSON|GRPC --first URL --second URL --victim PID

Every task is started at the first gateway. The second one answers Get, List, Subscribe, Cancel, follow-ups and push
configurations of it. At the end the first gateway, the process PID, is killed in the middle of a task: the second one
completes the task and its notifications. Exits with 0 if all of it holds.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf import json_format

sys.path.insert(0, str(Path(__file__).parent.parent / "a2a"))
from client_1_3 import Seen, request, say  # noqa: E402

WORDS = 60
WHOLE = "".join(f"{number} " for number in range(WORDS))
COUNT = f"many {WORDS} 40"


class Inbox(BaseHTTPRequestHandler):
    """Receives notifications: (id, body), in the order of arrival."""

    received = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Inbox.received.append((self.headers["x-a2a-notification-id"], json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def text(seen):
    return "".join(seen.artifacts[key] for key in seen.order)


def expect(value, wanted, what):
    assert value == wanted, f"{what}: {value!r}, not {wanted!r}"


async def state(client, task):
    return TaskState.Name((await client.get_task(GetTaskRequest(id=task))).status.state)


async def begin(client, words):
    """Starts a task, and returns once its first words have arrived: what was seen, and the rest of the stream."""
    seen, events = Seen(), client.send_message(request(words))
    async for event in events:
        seen.take(event)
        if text(seen):
            break

    async def rest():
        async for event in events:
            seen.take(event)
        return seen

    return seen, asyncio.create_task(rest())


async def follow_up(first, second):
    asked = Seen()
    async for event in first.send_message(request("ask")):
        asked.take(event)
    expect(asked.state, "TASK_STATE_INPUT_REQUIRED", "the first turn")
    expect(await state(second, asked.task_id), asked.state, "the other gateway's task")
    listed = await second.list_tasks(ListTasksRequest(context_id=asked.context_id))
    expect([task.id for task in listed.tasks], [asked.task_id], "the other gateway's list")
    answered = await say(second, "prod", asked.task_id, asked.context_id)
    expect((answered.state, text(answered)), ("TASK_STATE_COMPLETED", "Deployed to prod."), "the follow-up")
    expect(answered.task_id, asked.task_id, "the task of the follow-up")
    expect(await state(first, asked.task_id), "TASK_STATE_COMPLETED", "the first gateway's task")


async def cancelled(first, second):
    seen, rest = await begin(first, COUNT)
    task = await second.cancel_task(CancelTaskRequest(id=seen.task_id))
    expect(TaskState.Name(task.status.state), "TASK_STATE_CANCELED", "the answer to the cancel")
    expect((await rest).state, "TASK_STATE_CANCELED", "the stream of the cancelled task")
    for client in (first, second):
        expect(await state(client, seen.task_id), "TASK_STATE_CANCELED", "the cancelled task")


async def subscribed(first, second):
    seen, rest = await begin(first, COUNT)
    other = Seen()
    async for event in second.subscribe(SubscribeToTaskRequest(id=seen.task_id)):
        other.take(event)
    expect((other.state, text(other)), ("TASK_STATE_COMPLETED", WHOLE), "the subscription at the other gateway")
    expect(text(await rest), WHOLE, "the stream at the first gateway")


async def configs(client, task):
    found = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task))
    return [config.id for config in found.configs]


async def killed(first, second, victim, inbox):
    seen, rest = await begin(first, COUNT)
    config = TaskPushNotificationConfig(task_id=seen.task_id, url=f"http://127.0.0.1:{inbox}/")
    made = await second.create_task_push_notification_config(config)
    expect(await configs(first, seen.task_id), [made.id], "the configuration at the first gateway")
    while not Inbox.received:
        await asyncio.sleep(0.02)
    os.kill(victim, signal.SIGKILL)
    try:
        await rest
    except Exception as error:  # noqa: BLE001: each binding has its own
        print(f"the stream of the killed gateway: {type(error).__name__}")
    assert text(seen) != WHOLE, "the task ended before the gateway was killed"
    other = Seen()
    async for event in second.subscribe(SubscribeToTaskRequest(id=seen.task_id)):
        other.take(event)
    expect((other.state, text(other)), ("TASK_STATE_COMPLETED", WHOLE), f"the task after the kill ({other.statuses})")
    for _ in range(500):
        if any(is_completed(body) for _, body in Inbox.received):
            break
        await asyncio.sleep(0.02)
    once = dict(Inbox.received)
    assert None not in once, "a notification without an id"
    repeated = len(Inbox.received) - len(once)
    assert repeated <= 1, f"{repeated} notifications were repeated"
    assert is_completed(list(once.values())[-1]), f"the last notification: {list(once.values())[-1]}"
    told = Seen()
    for body in once.values():
        told.take(json_format.ParseDict(body, StreamResponse()))
    assert text(told) and WHOLE.endswith(text(told)), f"the notifications hold {text(told)!r}"
    name = DeleteTaskPushNotificationConfigRequest(task_id=seen.task_id, id=made.id)
    await second.delete_task_push_notification_config(name)
    expect(await configs(second, seen.task_id), [], "the configurations after the deletion")
    print(f"{len(once)} notifications, {repeated} repeated")


def is_completed(body):
    return body.get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED"


async def main(args):
    inbox = HTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=inbox.serve_forever, daemon=True).start()
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix("http://")),
            supported_protocol_bindings=[args.binding],
        )
        first, second = [await ClientFactory(config).create_from_url(url) for url in (args.first, args.second)]
        await follow_up(first, second)
        await cancelled(first, second)
        await subscribed(first, second)
        await killed(first, second, args.victim, inbox.server_port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binding", required=True)
    parser.add_argument("--first", required=True)
    parser.add_argument("--second", required=True)
    parser.add_argument("--victim", type=int, required=True)
    asyncio.run(main(parser.parse_args()))
