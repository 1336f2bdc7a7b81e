"""A chat client of the framework that says what a script tells it to, chunk by chunk. No network, no clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
)

Chunk = "str | Content | Exception"


@dataclass
class Turn:
    """One answer of the model: its chunks; an exception among them is raised."""

    chunks: Sequence[Any]

    @property
    def text(self) -> str:
        return "".join(chunk for chunk in self.chunks if isinstance(chunk, str))


@dataclass
class Script:
    """What an agent's model says, call by call."""

    agent: str
    turns: Sequence[Turn]
    asked: list[list[str]] = field(default_factory=list)
    """What the model was given, call by call: the texts of the messages."""


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Says the turns of a script in order, and fails if it is asked once more."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self._calls = 0

    def _inner_get_response(
        self, *, messages: Sequence[Any], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Any:
        self._calls += 1
        if self._calls > len(self.script.turns):
            raise AssertionError(f"the script of {self.script.agent} has {len(self.script.turns)} turns only")
        self.script.asked.append([message.text for message in messages])
        turn, number = self.script.turns[self._calls - 1], self._calls
        if stream:
            return ResponseStream(self._updates(turn, number), finalizer=ChatResponse.from_updates)
        return self._whole(turn, number)

    async def _updates(self, turn: Turn, number: int) -> Any:
        for chunk in turn.chunks:
            # Lets the other agents of a concurrent workflow speak in between.
            await asyncio.sleep(0)
            if isinstance(chunk, BaseException):
                raise chunk
            content = Content.from_text(chunk) if isinstance(chunk, str) else chunk
            yield ChatResponseUpdate(
                role="assistant",
                contents=[content],
                response_id=f"resp_{self.script.agent}_{number}",
                message_id=f"msg_{self.script.agent}_{number}",
                created_at=f"2026-01-01T00:00:{number:02}.000000Z",
            )

    async def _whole(self, turn: Turn, number: int) -> ChatResponse[Any]:
        return ChatResponse.from_updates([update async for update in self._updates(turn, number)])


def say(*chunks: Any) -> Turn:
    """Make a turn of these chunks."""
    return Turn(chunks)


def call(call_id: str, name: str, **arguments: Any) -> Content:
    """Make the call of a tool."""
    return Content.from_function_call(call_id, name, arguments=json.dumps(arguments))


def ledger(speaker: str, instruction: str, *, satisfied: bool = False) -> Turn:
    """Make what a Magentic manager says about the progress."""
    answers = {
        "is_request_satisfied": satisfied,
        "is_in_loop": False,
        "is_progress_being_made": True,
        "next_speaker": speaker,
        "instruction_or_question": instruction,
    }
    return say(json.dumps({name: {"reason": "as scripted", "answer": answer} for name, answer in answers.items()}))


def agent(name: str, *turns: Turn, **options: Any) -> Agent[Any]:
    """Make an agent whose model says these turns."""
    return Agent(client=ScriptedClient(Script(name, turns)), name=name, description=f"{name} agent", **options)
