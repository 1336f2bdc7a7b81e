"""The modes of the scripted agent, and what they have in common in all versions of the Python SDK.

The first word of a message names the mode (``modes.json``). A message to a task that waits plays the mode's ``reply``.
Steps are played by a ``Player``, which a server of one SDK version implements.
"""

import asyncio
import json
import pathlib
import sys

MODES = json.loads((pathlib.Path(__file__).parent / "modes.json").read_text())


class Player:
    """What a step does, in the words of one SDK."""

    async def status(self, text): ...
    async def artifact(self, artifact, part, append=False, last=False): ...
    async def ask(self, text): ...
    async def auth(self, text): ...
    async def fail(self, text): ...
    async def message(self, text): ...
    async def complete(self, text): ...

    def text(self, text): ...
    def bytes(self, base64, media_type, filename): ...
    def url(self, url, media_type, filename): ...
    def data(self, data): ...


class Agent:
    """Plays modes, and remembers which mode a task is in."""

    def __init__(self):
        self.of_task = {}
        self.released = asyncio.Event()

    def is_bare(self, text):
        return any("message" in step for step in self.mode(text)["steps"])

    def mode(self, text):
        return MODES.get(text.split()[0] if text.split() else "", MODES["tools"])

    async def play(self, player, task_id, text, is_follow_up):
        if is_follow_up:
            mode = self.of_task.get(task_id, MODES["tools"])
            steps = mode.get("reply", mode["steps"])
        else:
            mode = self.of_task[task_id] = self.mode(text)
            steps = mode["steps"]
        for step in steps:
            for kind, what in step.items():
                await self.step(player, kind, what, text)

    async def step(self, player, kind, what, said):
        if kind == "chunk":
            text = what["text"].replace("{text}", said)
            await player.artifact(
                what["artifact"], player.text(text), what.get("append", False), what.get("last", False)
            )
        elif kind == "many":
            # `many 100` counts to another number, `many 100 50` with a pause of 50 ms before each.
            words = said.split()
            count = int(words[1]) if len(words) > 1 else what["count"]
            pause = int(words[2]) / 1000 if len(words) > 2 else None
            for number in range(count):
                if pause is not None:
                    await asyncio.sleep(pause)
                is_last = number + 1 == count
                await player.artifact(what["artifact"], player.text(f"{number} "), number > 0, is_last)
        elif kind == "bytes":
            part = player.bytes(what["base64"], what["mediaType"], what["filename"])
            await player.artifact(what["artifact"], part, False, True)
        elif kind == "url":
            part = player.url(what["url"], what["mediaType"], what["filename"])
            await player.artifact(what["artifact"], part, False, True)
        elif kind == "data":
            await player.artifact(what["artifact"], player.data(what["data"]), False, True)
        elif kind == "sleep":
            await asyncio.sleep(what / 1000)
        elif kind == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                noticed("stopped")
        elif kind == "hold":
            await self.released.wait()
            self.released.clear()
        elif kind == "release":
            self.released.set()
        elif kind == "raise":
            raise RuntimeError(what)
        else:
            await getattr(player, kind)(what)


def listening(url):
    """Tells whoever started the program where it listens."""
    print(url, flush=True)


def noticed(what):
    """Tells whoever started the program what happened."""
    print(what, file=sys.stderr, flush=True)
