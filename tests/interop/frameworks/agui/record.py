"""Records what a framework answers: the request body and the raw response of every scenario, as files.

    python record.py <url> <folder> [scenario ...]

Standard library only. A question is answered with the reply that the framework asks for (`resume`), as `<name>-answer`.
"""
import itertools
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MAP = {"name": "show_map", "description": "Shows a map.",
       "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
PLAIN = ["text", "repeat", "tool", "two-tools", "talk-tools", "chain", "tool-error", "error", "thinking", "thinking-tool"]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", "Accept": "text/event-stream"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return read(response)
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}\n".encode() + error.read()


def read(response):
    data = b""
    try:
        while piece := response.read1():
            data += piece
    except Exception as error:  # a server that breaks off is a recording as well
        data += f"\n!! {error!r}\n".encode()
    return data


def events(data):
    return [json.loads(line[5:]) for line in data.decode().splitlines() if line.startswith("data:")]


def brief(heard):
    """The types of the events, equal neighbours counted."""
    groups = [(kind, len(list(group))) for kind, group in itertools.groupby(e["type"] for e in heard)]
    return " ".join(f"{kind}*{count}" if count > 1 else kind for kind, count in groups)


class Recorder:
    def __init__(self, url, folder):
        self.url, self.folder = url, Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def one(self, name, messages, thread=None, version="1.0", **more):
        body = {"threadId": thread or f"thread-{name}", "runId": f"run-{name}", "protocolVersion": version, "state": {}, "messages": messages,
                "tools": [], "context": [], "forwardedProps": {}, **more}
        if version is None:
            del body["protocolVersion"]
        data = post(self.url, body)
        (self.folder / f"{name}.request.json").write_text(json.dumps(body, indent=1) + "\n")
        (self.folder / f"{name}.sse").write_bytes(data)
        heard = events(data) if not data.startswith(b"HTTP ") else []
        print(name, brief(heard) if heard else data[:300])
        return heard

    def question(self, name):
        user = {"id": f"user-{name}", "role": "user", "content": name}
        heard = self.one(name, [user])
        outcome = next((e.get("outcome") or {} for e in heard if e["type"] == "RUN_FINISHED"), {})
        interrupts = outcome.get("interrupts", [])
        history = [user, *fold(heard)]
        if interrupts:
            resume = [{"interruptId": i["id"], "status": "resolved", "payload": reply(i)} for i in interrupts]
            self.one(f"{name}-answer", history, thread=f"thread-{name}", resume=resume)
            return
        if any(e["type"] == "CUSTOM" and e["name"] == "on_interrupt" for e in heard):
            self.one(f"{name}-answer", history, thread=f"thread-{name}", forwardedProps={"command": {"resume": "yes"}})
            return
        # Without a word about a question, an open call asks for its result.
        done = {e["toolCallId"] for e in heard if e["type"] == "TOOL_CALL_RESULT"}
        waiting = [e["toolCallId"] for e in heard if e["type"] == "TOOL_CALL_START" and e["toolCallId"] not in done]
        if waiting:
            accepted = json.dumps({"accepted": True})
            results = [{"id": f"result-{call}", "role": "tool", "toolCallId": call, "content": accepted} for call in waiting]
            self.one(f"{name}-answer", [*history, *results], thread=f"thread-{name}")

    def frontend(self):
        user = {"id": "user-frontend", "role": "user", "content": "frontend"}
        heard = self.one("frontend", [user], tools=[MAP])
        call = next((e["toolCallId"] for e in heard if e["type"] == "TOOL_CALL_START"), None)
        if call:
            result = {"id": "result-1", "role": "tool", "toolCallId": call, "content": "shown"}
            self.one("frontend-answer", [user, *fold(heard), result], thread="thread-frontend", tools=[MAP])

    def scenario(self, name):
        user = {"id": f"user-{name}", "role": "user", "content": name}
        if name in ("question", "two-questions"):
            self.question(name)
        elif name == "frontend":
            self.frontend()
        elif name == "image":
            source = {"type": "data", "value": PIXEL, "mimeType": "image/png"}
            self.one(name, [{**user, "content": [{"type": "text", "text": "image"}, {"type": "image", "source": source}]}])
        elif name == "paint":
            self.one(name, [user], state={"color": "red"})
        elif name == "tool-old":
            self.one(name, [{**user, "content": "tool"}], version=None)
        else:
            self.one(name, [user])


def reply(interrupt):
    """A reply that fits the interrupt's schema: an approval where it asks for one."""
    properties = (interrupt.get("responseSchema") or {}).get("properties", {})
    payload = {key: True for key, value in properties.items() if value.get("type") == "boolean"}
    return payload or ({"approved": True} if interrupt["reason"] != "input_required" else "yes")


def fold(heard):
    """The messages that a client would hold: enough for a history, without the rules of the real client."""
    snapshots = [e for e in heard if e["type"] == "MESSAGES_SNAPSHOT"]
    if snapshots:
        return [m for m in snapshots[-1]["messages"] if m["role"] != "user"]
    messages, calls = {}, {}
    for event in heard:
        kind = event["type"]
        if kind == "TEXT_MESSAGE_START":
            messages[event["messageId"]] = {"id": event["messageId"], "role": "assistant", "content": ""}
        elif kind == "TEXT_MESSAGE_CONTENT":
            messages[event["messageId"]]["content"] += event["delta"]
        elif kind == "TOOL_CALL_START":
            parent = event.get("parentMessageId") or event["toolCallId"]
            owner = messages.setdefault(parent, {"id": parent, "role": "assistant", "content": ""})
            calls[event["toolCallId"]] = {"id": event["toolCallId"], "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            owner.setdefault("toolCalls", []).append(calls[event["toolCallId"]])
        elif kind == "TOOL_CALL_ARGS":
            calls[event["toolCallId"]]["function"]["arguments"] += event["delta"]
        elif kind == "TOOL_CALL_RESULT":
            messages[event["messageId"]] = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
    return list(messages.values())


if __name__ == "__main__":
    recorder = Recorder(sys.argv[1], sys.argv[2])
    for scenario in sys.argv[3:] or [*PLAIN, "tool-old", "question", "two-questions", "frontend", "paint", "image"]:
        recorder.scenario(scenario)
