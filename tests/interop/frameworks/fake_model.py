"""The model behind every framework of this suite: a script that follows the scenario named in the user's message.

`next_step` is the script itself, for frameworks that take a model object. `serve` offers the same script as an
OpenAI-compatible chat completions server (standard library only), for frameworks that take a base URL.

The scenario is the first known word of the last user message that has one; the next step depends on how many rounds of
tool calls stand behind that message. `scenarios.json` holds the words, so that they are written once for all frameworks.
"""
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCENARIOS = json.loads((Path(__file__).parent / "scenarios.json").read_text())


def next_step(messages):
    """The next step of the model after `messages` (OpenAI shape): {"thinking"?, "say"?, "calls"?, "fail"?, "pause"?}."""
    said = [m for m in messages if m["role"] == "user" and is_speech(m)]
    prompt = next((m for m in reversed(said) if scenario_of(m)), None)
    if prompt is None:
        return {"say": f"No scenario in {' '.join(map(text_of, said))!r}."}
    steps = SCENARIOS[scenario_of(prompt)]["model"]
    after = messages[max(i for i, m in enumerate(messages) if m is prompt) + 1 :]
    rounds = len([m for m in after if m["role"] == "assistant" and m.get("tool_calls")])
    step = dict(steps[min(rounds, len(steps) - 1)])
    if "say" in step:
        recent = messages[max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1) + 1 :]
        images = sum(p.get("type") in ("image_url", "input_image") for m in recent for p in parts_of(m))
        deployed = "done" if "Deployed to" in json.dumps(after) else "not done"
        step["say"] = step["say"].format(turn=len(said), images=images, deployed=deployed)
    return step


def scenario_of(message):
    return next((word for word in text_of(message).replace('"', " ").split() if word in SCENARIOS), None)


def parts_of(message):
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(message):
    return " ".join(p.get("text", "") for p in parts_of(message) if p.get("type") in ("text", "input_text"))


def is_speech(message):
    """Some frameworks put tool results into user messages; those are no turn of the user."""
    return any(p.get("type") in ("text", "input_text", "image_url", "input_image") for p in parts_of(message))


def tokens(text):
    """`text` in the pieces a model streams: words with the space behind them."""
    return [word + " " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]] if text else []


def deltas(step, call_ids):
    """The deltas of a chat completion stream for `step`."""
    yield {"role": "assistant", "content": ""}
    for token in tokens(step.get("thinking", "")):
        yield {"reasoning_content": token}
    for token in tokens(step.get("say", "")):
        yield {"content": token}
    for index, call in enumerate(step.get("calls", [])):
        arguments = json.dumps(call["arguments"])
        head = {"name": call["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": next(call_ids), "type": "function", "function": head}]}
        for piece in (arguments[:5], arguments[5:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def ids():
    number = 0
    while True:
        number += 1
        yield f"call_{time.time_ns():x}_{number}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    call_ids = ids()

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step = next_step(request["messages"])
        if request.get("stream"):
            self.stream(step)
        elif "fail" in step:
            self.answer(500, {"error": {"message": step["fail"], "type": "server_error"}})
        else:
            self.answer(200, self.whole(step))

    def do_GET(self):
        self.answer(200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def whole(self, step):
        message = {"role": "assistant", "content": step.get("say")}
        if "thinking" in step:
            message["reasoning_content"] = step["thinking"]
        if "calls" in step:
            message["tool_calls"] = [
                {"id": next(self.call_ids), "type": "function",
                 "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}} for c in step["calls"]
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "calls" in step else "stop"}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice],
                "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}}

    def stream(self, step):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        for delta in deltas(step, self.call_ids):
            self.chunk([{"index": 0, "delta": delta, "finish_reason": None}])
            time.sleep(step.get("pause", 0.01))
        if "fail" in step:
            self.send({"error": {"message": step["fail"], "type": "server_error", "code": "server_error"}})
            return
        self.chunk([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if "calls" in step else "stop"}])
        self.chunk([], usage={"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, choices, **more):
        self.send({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake",
                   "choices": choices, **more})

    def send(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


def serve(port=0):
    """Starts the server in a thread of this process; returns its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


if __name__ == "__main__":
    print(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0), flush=True)
    threading.Event().wait()
