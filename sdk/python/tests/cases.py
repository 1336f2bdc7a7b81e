"""Workflows of every orchestration, with what they must come to. The expectations are written from the scripts.

``answer`` holds who says what on the answer channel of the last run, in order; ``texts`` what each agent's model
said that the workflow shows (turn by turn, answers included); ``intermediate`` what of it is shown as work and not as
the answer, in all runs (an answer under review is; it is sent again as the answer once it is final); ``outcomes`` how
each ``run()`` ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_framework import tool
from agent_framework.orchestrations import (
    ConcurrentBuilder,
    GroupChatBuilder,
    HandoffBuilder,
    MagenticBuilder,
    SequentialBuilder,
)

from aqueduct_magentic import PendingRequest
from scripted import agent, call, ledger, say

QUESTION = "Tell me about Rust."
MAX_ROUNDS = "The group chat has reached the maximum number of rounds."
OVERLOADED = "model overloaded (529)"


@dataclass
class Case:
    """One workflow and what becomes of it."""

    build: Callable[[], Any]
    answer: list[tuple[str, str]]
    texts: dict[str, list[str]]
    intermediate: dict[str, list[str]] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=lambda: ["success"])
    replies: list[Any] = field(default_factory=list)
    """The human's words, one reply after the other, in the forms that a frontend would send."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None

    def expected(self) -> dict[str, Any]:
        """Give the expectations as JSON."""
        expected: dict[str, Any] = {
            "answer": [{"agent": agent, "text": text} for agent, text in self.answer],
            "answer_text": "\n".join(text for _, text in self.answer),
            "texts": self.texts,
            "intermediate": self.intermediate,
            "tools": self.tools,
            "outcomes": self.outcomes,
            "outcome": self.outcomes[-1],
        }
        if self.failure is not None:
            expected["failure"] = self.failure
        return expected

    def on_reply(self) -> Callable[[Sequence[PendingRequest]], Awaitable[Any]]:
        """Play the human."""
        words = iter(self.replies)

        async def reply(pending: Sequence[PendingRequest]) -> Any:
            return {"request_id": pending[0].request_id, "response": next(words)}

        return reply


@tool(approval_mode="always_require")
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool(approval_mode="never_require")
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"{city}: 12 C, light rain"


def _sequential(**options: Any) -> Any:
    researcher = agent("researcher", say("Rust is ", "memory-safe."))
    writer = agent("writer", say("Rust: ", "safe ", "and fast. 🦀"))
    return SequentialBuilder(participants=[researcher, writer], **options).build()


def _concurrent(**options: Any) -> Any:
    physicist = agent("physicist", say("Iron ", "oxide."))
    chemist = agent("chemist", say("Fe2O3, ", "hydrated."))
    coder = agent("coder", say("A ", "language."))
    return ConcurrentBuilder(participants=[physicist, chemist, coder], **options).build()


def _group_chat() -> Any:
    researcher = agent("researcher", say("Rust is ", "memory-safe."))
    writer = agent("writer", say("A draft ", "about Rust."))
    order = iter(["researcher", "writer"])
    return GroupChatBuilder(
        participants=[researcher, writer],
        selection_func=lambda state: next(order),
        max_rounds=2,
        intermediate_output_from="all_other",
    ).build()


def _magentic(*reviews: Any, **options: Any) -> Any:
    manager = agent(
        "manager",
        say("We know nothing yet."),
        say("- researcher finds a fact\n- writer writes it down"),
        *reviews,
        ledger("researcher", "Find one fact about Rust."),
        ledger("writer", "Write it down."),
        ledger("writer", "Done.", satisfied=True),
        say("Rust is a ", "memory-safe language."),
    )
    researcher = agent("researcher", say("Rust is ", "memory-safe."))
    writer = agent("writer", say("A draft ", "about Rust."))
    return MagenticBuilder(
        participants=[researcher, writer],
        manager_agent=manager,
        intermediate_output_from="all_other",
        **options,
    ).build()


def _magentic_review() -> Any:
    revised = (say("Still nothing."), say("- researcher finds a fact with a source\n- writer writes it down"))
    return _magentic(*revised, enable_plan_review=True)


def _handoff(*refund_turns: Any) -> Any:
    stored = {"require_per_service_call_history_persistence": True}
    triage = agent("triage", say("Let me pass you on. ", call("call_h1", "handoff_to_refunds")), **stored)
    refunds = agent("refunds", *refund_turns, **stored)
    builder = HandoffBuilder(
        participants=[triage, refunds],
        termination_condition=lambda conversation: "refunded" in conversation[-1].text,
    )
    return builder.with_start_agent(triage).build()


def _reviewed() -> Any:
    researcher = agent("researcher", say("Rust is ", "memory-safe."))
    writer = agent("writer", say("A long ", "draft."), say("A short ", "draft."))
    builder = SequentialBuilder(participants=[researcher, writer], output_from=["writer"])
    return builder.with_request_info(agents=["writer"]).build()


def _approval(*last: Any) -> Any:
    janitor = agent(
        "janitor",
        say("I need to delete it. ", call("call_d1", "delete_file", path="x.txt")),
        say(*last),
        tools=[delete_file],
    )
    return SequentialBuilder(participants=[janitor]).build()


def _weather() -> Any:
    reporter = agent(
        "reporter",
        say("Let me look. ", call("call_w1", "get_weather", city="Paris")),
        say("It rains ", "in Paris."),
        tools=[get_weather],
    )
    return SequentialBuilder(participants=[reporter]).build()


def _failing() -> Any:
    researcher = agent("researcher", say("Rust is ", "memory-safe."))
    crasher = agent("crasher", say("Half a sen", RuntimeError(OVERLOADED)))
    return SequentialBuilder(
        participants=[researcher, crasher],
        output_from=["crasher"],
        intermediate_output_from="all_other",
    ).build()


_CONCURRENT = {"physicist": "Iron oxide.", "chemist": "Fe2O3, hydrated.", "coder": "A language."}
_TEAM = {"researcher": ["Rust is memory-safe."], "writer": ["A draft about Rust."]}
_DELETE = {"agent": "janitor", "call_id": "call_d1", "name": "delete_file", "arguments": {"path": "x.txt"}}

CASES: dict[str, Case] = {
    "sequential": Case(
        build=_sequential,
        answer=[("writer", "Rust: safe and fast. 🦀")],
        texts={"writer": ["Rust: safe and fast. 🦀"]},
    ),
    "sequential_intermediate": Case(
        build=lambda: _sequential(output_from=["writer"], intermediate_output_from="all_other"),
        answer=[("writer", "Rust: safe and fast. 🦀")],
        texts={"researcher": ["Rust is memory-safe."], "writer": ["Rust: safe and fast. 🦀"]},
        intermediate={"researcher": ["Rust is memory-safe."]},
    ),
    "concurrent": Case(
        build=_concurrent,
        answer=list(_CONCURRENT.items()),
        texts={name: [text] for name, text in _CONCURRENT.items()},
    ),
    "concurrent_intermediate": Case(
        build=lambda: _concurrent(intermediate_output_from="all_other"),
        answer=list(_CONCURRENT.items()),
        texts={name: [text] for name, text in _CONCURRENT.items()},
        intermediate={name: [text] for name, text in _CONCURRENT.items()},
    ),
    "group_chat": Case(
        build=_group_chat,
        answer=[("group_chat_orchestrator", MAX_ROUNDS)],
        texts=_TEAM,
        intermediate=_TEAM,
    ),
    "magentic": Case(
        build=_magentic,
        answer=[("magentic_orchestrator", "Rust is a memory-safe language.")],
        texts=_TEAM,
        intermediate=_TEAM,
    ),
    "magentic_plan_review": Case(
        build=_magentic_review,
        answer=[("magentic_orchestrator", "Rust is a memory-safe language.")],
        texts=_TEAM,
        intermediate=_TEAM,
        outcomes=["interrupted", "interrupted", "success"],
        replies=[{"approved": False, "feedback": "Name the source."}, {"approved": True}],
    ),
    "handoff": Case(
        build=lambda: _handoff(say("You are ", "refunded.")),
        answer=[("triage", "Let me pass you on. "), ("refunds", "You are refunded.")],
        texts={"triage": ["Let me pass you on. "], "refunds": ["You are refunded."]},
        tools=[{"agent": "triage", "call_id": "call_h1", "name": "handoff_to_refunds", "arguments": {}}],
    ),
    "handoff_reply": Case(
        build=lambda: _handoff(say("Which ", "order?"), say("Order 7 is ", "refunded.")),
        answer=[("refunds", "Order 7 is refunded.")],
        texts={"triage": ["Let me pass you on. "], "refunds": ["Which order?", "Order 7 is refunded."]},
        tools=[{"agent": "triage", "call_id": "call_h1", "name": "handoff_to_refunds", "arguments": {}}],
        outcomes=["interrupted", "success"],
        replies=[{"text": "Order 7."}],
    ),
    "request_info": Case(
        build=_reviewed,
        answer=[("writer", "A short draft.")],
        texts={"writer": ["A long draft.", "A short draft."]},
        intermediate={"writer": ["A long draft.", "A short draft."]},
        outcomes=["interrupted", "interrupted", "success"],
        replies=[{"feedback": "Shorter, please."}, True],
    ),
    "tool_approval": Case(
        build=lambda: _approval("Done, ", "it is deleted."),
        answer=[("janitor", "Done, it is deleted.")],
        texts={"janitor": ["I need to delete it. ", "Done, it is deleted."]},
        tools=[{**_DELETE, "result": "deleted x.txt"}],
        outcomes=["interrupted", "success"],
        replies=[{"approved": True}],
    ),
    "tool_refused": Case(
        build=lambda: _approval("Then ", "it stays."),
        answer=[("janitor", "Then it stays.")],
        texts={"janitor": ["I need to delete it. ", "Then it stays."]},
        tools=[{**_DELETE, "error": True}],
        outcomes=["interrupted", "success"],
        replies=[False],
    ),
    "tool": Case(
        build=_weather,
        answer=[("reporter", "Let me look. "), ("reporter", "It rains in Paris.")],
        texts={"reporter": ["Let me look. ", "It rains in Paris."]},
        tools=[
            {
                "agent": "reporter",
                "call_id": "call_w1",
                "name": "get_weather",
                "arguments": {"city": "Paris"},
                "result": "Paris: 12 C, light rain",
            }
        ],
    ),
    "failing_agent": Case(
        build=_failing,
        answer=[("crasher", "Half a sen")],
        texts={"researcher": ["Rust is memory-safe."], "crasher": ["Half a sen"]},
        intermediate={"researcher": ["Rust is memory-safe."]},
        outcomes=["failed"],
        failure=OVERLOADED,
    ),
}
