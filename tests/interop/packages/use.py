"""An application that installed the Python SDK: records a stream of workflow events to a file."""

import asyncio
import importlib.metadata
import importlib.resources
import sys
from types import SimpleNamespace

from aqueduct_magentic import record


async def workflow():
    """Yields events with the attributes of the framework's own."""
    yield SimpleNamespace(type="started", origin="FRAMEWORK")
    yield SimpleNamespace(type="executor_invoked", origin="FRAMEWORK", executor_id="writer", data="Write")
    yield SimpleNamespace(type="output", origin="EXECUTOR", executor_id="writer", data="Rust is safe.")
    yield SimpleNamespace(type="status", origin="FRAMEWORK", state="IDLE")


async def main(file: str) -> None:
    passed = [event.type async for event in record(workflow(), file)]
    assert passed == ["started", "executor_invoked", "output", "status"], passed


assert importlib.resources.files("aqueduct_magentic").joinpath("py.typed").is_file(), "the types are not installed"
asyncio.run(main(sys.argv[1]))
print(importlib.metadata.version("aqueduct-magentic"))
