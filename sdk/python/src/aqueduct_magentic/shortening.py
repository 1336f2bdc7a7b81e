"""Lines that are too large for a gateway: they lose their payload, and say so.

Without this, one huge payload would be refused at every attempt, and nothing after it would ever arrive. What is
lost most often costs nothing: ``executor_invoked`` and ``executor_completed`` repeat the conversation so far.
"""

from __future__ import annotations

import json

from .events import logger, to_line

_PAYLOADS = ("data", "update", "final_response", "responses", "message", "details")

_KEPT_TEXT = 1_000
"""Characters that stay of a text: enough to see what it was."""


def fit(line: str, max_bytes: int) -> tuple[str, int]:
    """Give the line, without its payloads if it has more than ``max_bytes`` bytes, and its size in bytes."""
    size = len(line.encode())
    if size <= max_bytes:
        return line, size
    fields = json.loads(line)
    note = f"a line of {size} bytes is over the limit of {max_bytes} bytes"
    for name in _PAYLOADS:
        value = fields.get(name)
        if isinstance(value, str):
            fields[name] = f"{value[:_KEPT_TEXT]}… ({note})" if len(value) > _KEPT_TEXT else value
        elif value is not None:
            fields[name] = {"__class__": fields.get("data_class") or name, "omitted": note}
    short = to_line(fields)
    logger.warning("line %s has %d bytes, %d are allowed: its payload is left out", fields.get("seq"), size, max_bytes)
    return short, len(short.encode())
