"""What every server of this folder shares: the port argument, the scripted model with the scenarios of AG-UI, the start.

A server is `python <framework>.py <port>`; it answers AG-UI requests at `POST /` and `GET /ready` with 200.
"""
import json
import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
for key in ("OPENAI_API_KEY", "OPENAI_AGENTS_DISABLE_TRACING"):
    os.environ.setdefault(key, "none")
# No server of this folder reports anything to anybody.
for key in ("AGNO_TELEMETRY", "CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "LITELLM_LOCAL_MODEL_COST_MAP"):
    os.environ.setdefault(key, "false" if key == "AGNO_TELEMETRY" else "true")

import fake_model  # noqa: E402

fake_model.SCENARIOS.update(json.loads((HERE / "scenarios.json").read_text()))


def port():
    return int(sys.argv[1])


def model_url():
    """Starts the scripted model; returns its base URL."""
    return fake_model.serve()


def serve(app, path="/"):
    """Serves an ASGI application on the port of the command line until the process ends; `/` stands for `path`."""
    import uvicorn
    from starlette.responses import PlainTextResponse

    async def routed(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/ready":
            return await PlainTextResponse("ready")(scope, receive, send)
        if scope["type"] == "http" and scope["path"] == "/":
            scope = {**scope, "path": path, "raw_path": path.encode()}
        return await app(scope, receive, send)

    logging.basicConfig(level=logging.WARNING)
    uvicorn.run(routed, host="127.0.0.1", port=port(), log_level="warning")
