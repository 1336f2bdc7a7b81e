"""Records the raw A2A streams of one server: `record.py <card url> <folder> [--scenario NAME]...`.

For each scenario: `<scenario>.request.json`, `<scenario>.sse` (the response, byte for byte), and once `card.json`.
Later turns of a scenario are `<scenario>-2.request.json`, …; the answer to a question goes to the same task.
"""
import argparse
import base64
import json
import urllib.error
import urllib.request
import uuid
from pathlib import Path

PNG = base64.b64encode(bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082")).decode()
SCENARIOS = ["text", "tool", "two-tools", "tool-error", "error", "question", "question-words", "thinking", "turns", "image", "cancel"]


def interface(card):
    """The JSON-RPC address and the version of the card."""
    for entry in card.get("supportedInterfaces", []):
        if entry.get("protocolBinding", "JSONRPC") == "JSONRPC":
            return entry["url"], entry.get("protocolVersion", "1.0")
    return card["url"], card.get("protocolVersion", "0.3.0")


class Recorder:
    def __init__(self, card_url, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        raw = urllib.request.urlopen(card_url).read()
        (self.folder / "card.json").write_bytes(raw)
        self.url, version = interface(json.loads(raw))
        self.is_new = version.startswith("1")

    def parts(self, text, image=False):
        if self.is_new:
            picture = {"raw": PNG, "mediaType": "image/png", "filename": "dot.png"}
            return [{"text": text}] + ([picture] if image else [])
        picture = {"kind": "file", "file": {"bytes": PNG, "mimeType": "image/png", "name": "dot.png"}}
        return [{"kind": "text", "text": text}] + ([picture] if image else [])

    def call(self, name, parts, message_id, **where):
        message = {"role": "ROLE_USER" if self.is_new else "user", "messageId": message_id, "parts": parts, **where}
        if not self.is_new:
            message["kind"] = "message"
        method = "SendStreamingMessage" if self.is_new else "message/stream"
        body = {"jsonrpc": "2.0", "id": message_id, "method": method, "params": {"message": message}}
        (self.folder / f"{name}.request.json").write_text(json.dumps(body, indent=2) + "\n")
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "A2A-Version": "1.0" if self.is_new else "0.3"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                raw = bytearray()
                try:
                    for line in response:
                        raw += line
                except Exception as error:  # what was received before the cut is the recording
                    print(f"  {name}: the response was cut: {error!r}")
        except urllib.error.HTTPError as error:
            raw = error.read()
            print(f"  {name}: HTTP {error.code}")
        (self.folder / f"{name}.sse").write_bytes(bytes(raw))
        print(f"  {name}: {len(raw)} bytes")
        return bytes(raw)

    def scenario(self, name):
        parts = self.parts(name.removesuffix("-words"), image=name == "image")
        context = str(uuid.uuid5(uuid.NAMESPACE_URL, name))  # langgraph-api takes nothing but a UUID
        raw = self.call(name, parts, f"m-{name}-1", contextId=context)
        task, given = ids(raw)
        where = {"contextId": given or context}
        if name == "turns":
            for turn in (2, 3):
                self.call(f"{name}-{turn}", self.parts(f"turns again {turn}"), f"m-{name}-{turn}", **where)
        if name.startswith("question"):
            reply = structured_reply(raw, self.is_new) if name == "question" else None
            self.call(f"{name}-2", reply or self.parts("yes"), f"m-{name}-2", taskId=task, **where)


def structured_reply(raw, is_new):
    """The answer in the shape the framework's question asks for; nothing where words do."""
    replies = []
    for part in parts_in([json.loads(line[5:]) for line in raw.decode().splitlines() if line.startswith("data:")]):
        data, metadata = part["data"], part.get("metadata") or {}
        if not isinstance(data, dict):
            continue
        if metadata.get("adk_is_long_running"):
            response = {"id": data["id"], "name": data["name"], "response": {"confirmed": True}}
            replies = [{"data": response, "metadata": {"adk_type": "function_response"}}]
        for interrupt in data.get("interrupts", []):
            replies = [{"data": {"interruptResponse": {"interruptId": interrupt["interruptId"], "response": "yes"}}}]
    return [reply if is_new else {"kind": "data", **reply} for reply in replies]


def parts_in(value):
    """Every data part anywhere in `value`."""
    if isinstance(value, dict):
        if "data" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from parts_in(item)


def ids(raw):
    """The ids of the task and the context that a stream names."""
    task = context = None
    for line in raw.decode().splitlines():
        if line.startswith("data:"):
            result = json.loads(line[5:]).get("result") or {}
            for value in [result, *[v for v in result.values() if isinstance(v, dict)]]:
                context = value.get("contextId") or context
                task = value.get("taskId") or (value.get("id") if "status" in value else None) or task
    return task, context


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("card")
    parser.add_argument("folder")
    parser.add_argument("--scenario", action="append")
    arguments = parser.parse_args()
    recorder = Recorder(arguments.card, arguments.folder)
    for scenario in arguments.scenario or SCENARIOS:
        recorder.scenario(scenario)
