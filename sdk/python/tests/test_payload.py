"""Every kind of value has a JSON form, and none raises."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any, NamedTuple

import pytest
from agent_framework import AgentResponseUpdate, Content, Message
from pydantic import BaseModel

from aqueduct_magentic.payload import MAX_DEPTH, MAX_REPR, class_name, to_json, type_name


class Color(enum.Enum):
    RED = "red"
    ODD = object()


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    pass


class Point(NamedTuple):
    x: int
    y: int


class Model(BaseModel):
    when: dt.date
    tint: Color = Color.RED


@dataclasses.dataclass
class Box:
    inner: Any
    tint: Color = Color.RED


class Plain:
    def __repr__(self) -> str:
        return "Plain!"


class Hostile:
    @property
    def to_dict(self) -> Any:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


class HalfHostile:
    def to_dict(self) -> dict[str, Any]:
        raise ValueError("not this one")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("ä🦀", "ä🦀"),
        (Name("n"), "n"),
        ("a\ud800b", "a�b"),
        (Color.RED, "red"),
        (Color.ODD, "ODD"),
        (Level.HIGH, 3),
        (float("nan"), {"__class__": "float", "repr": "nan"}),
        (float("-inf"), {"__class__": "float", "repr": "-inf"}),
        (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc), "2026-01-02T03:04:05+00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.timedelta(seconds=90), 90.0),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.10"), "1.10"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (b"\x00\xff", {"__class__": "bytes", "base64": "AP8="}),
        ((1, "a"), [1, "a"]),
        ({3, 1, 2}, [1, 2, 3]),
        (collections.deque([1]), [1]),
        ({1: "a", None: "b", True: "c", Color.RED: "d"}, {"1": "c", "null": "b", "red": "d"}),
        (Point(1, 2), {"__class__": "Point", "x": 1, "y": 2}),
        (Box([b"x"]), {"__class__": "Box", "inner": [{"__class__": "bytes", "base64": "eA=="}], "tint": "red"}),
        (Model(when=dt.date(2026, 1, 2)), {"__class__": "Model", "when": "2026-01-02", "tint": "red"}),
        (ValueError("too late"), {"__class__": "ValueError", "message": "too late"}),
        (Box, f"{__name__}.Box"),
        (Plain(), {"__class__": "Plain", "repr": "Plain!"}),
        (Hostile(), {"__class__": "Hostile", "repr": "<no repr: RuntimeError>"}),
    ],
)
def test_each_kind_of_value(value: object, expected: object) -> None:
    encoded = to_json(value)
    assert encoded == expected
    assert json.loads(json.dumps(encoded, allow_nan=False)) == expected


def test_a_failing_to_dict_is_described() -> None:
    encoded = to_json([HalfHostile()])
    assert isinstance(encoded, list)
    assert encoded[0]["__class__"] == "HalfHostile"  # type: ignore[index,call-overload]


def test_a_cycle_ends() -> None:
    box = Box(None)
    box.inner = [box]
    encoded = to_json(box)
    assert encoded["inner"][0]["__class__"] == "Box"  # type: ignore[index,call-overload]
    assert "repr" in encoded["inner"][0]  # type: ignore[index,call-overload,operator]


def test_a_value_that_is_used_twice_is_no_cycle() -> None:
    shared = [1]
    assert to_json([shared, shared]) == [[1], [1]]


def test_nesting_is_bounded() -> None:
    deep: Any = "core"
    for _ in range(1_000):
        deep = [deep]
    encoded, depth = to_json(deep), 0
    while isinstance(encoded, list):
        encoded, depth = encoded[0], depth + 1
    assert depth == MAX_DEPTH
    assert isinstance(encoded, dict)
    assert len(str(encoded["repr"])) <= MAX_REPR + 50


def test_the_frameworks_own_form_is_kept() -> None:
    update = AgentResponseUpdate(
        contents=[Content.from_text("hi"), Content.from_function_call("c1", "f", arguments={"a": 1})],
        role="assistant",
        author_name="a",
    )
    assert to_json(update) == json.loads(update.to_json())


def test_properties_that_the_framework_leaves_out_are_put_back() -> None:
    message = Message("user", ["hi"], additional_properties={"plain": 1, "tint": Color.RED})
    update = AgentResponseUpdate(
        contents=[Content.from_text("hi", additional_properties={"when": dt.date(2026, 1, 2), "odd": Plain()})]
    )
    assert to_json(message)["additional_properties"] == {"plain": 1, "tint": "red"}  # type: ignore[index,call-overload]
    properties = to_json(update)["contents"][0]["additional_properties"]  # type: ignore[index,call-overload]
    assert properties["when"] == "2026-01-02"  # type: ignore[index,call-overload]
    assert properties["odd"] == {"__class__": "Plain", "repr": "Plain!"}  # type: ignore[index,call-overload]


def test_bytes_in_the_frameworks_contents_become_addresses() -> None:
    content = Content.from_data(b"\x89PNG", "image/png")
    encoded = to_json(content)
    assert encoded["uri"] == "data:image/png;base64,iVBORw=="  # type: ignore[index,call-overload]


def test_names_of_classes() -> None:
    assert class_name(None) is None
    assert class_name([]) == "list"
    assert class_name(["a", Box(1), "b"]) == "list[Box,str]"
    assert class_name([[1]]) == "list[list]"
    assert class_name({"a": 1}) == "dict"
    assert type_name(bool) == "builtins.bool"
    assert type_name(Message) == "agent_framework._types.Message"
    assert type_name(list[Message]) == "list[agent_framework._types.Message]"
