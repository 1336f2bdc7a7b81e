"""The window keeps what is not acknowledged, and sends no more than it may."""

from __future__ import annotations

import pytest

from aqueduct_magentic.window import ResumeError, Window


def filled(count: int, size: int = 10) -> Window:
    window = Window(max_lines=100, max_bytes=10_000)
    for number in range(1, count + 1):
        window.push(f"line {number}", size)
    return window


def taken(window: Window) -> list[int]:
    numbers = []
    while window.has_next():
        number, line = window.take()
        assert line == f"line {number}"
        numbers.append(number)
    return numbers


def test_nothing_goes_before_a_connection() -> None:
    assert taken(filled(3)) == []


def test_no_more_lines_than_granted() -> None:
    window = filled(5)
    window.resume(0, 2, 1000)
    assert taken(window) == [1, 2]
    assert window.ack(1)
    assert taken(window) == [3]
    assert not window.ack(1)
    assert window.ack(3)
    assert taken(window) == [4, 5]
    assert not window.is_empty
    window.ack(5)
    assert window.is_empty


def test_no_more_bytes_than_granted_but_one_line_always() -> None:
    window = filled(3, size=60)
    window.resume(0, 10, 100)
    assert taken(window) == [1]
    window.ack(1)
    window.resume(1, 10, 5)
    assert taken(window) == [2]


def test_a_new_connection_sends_again_what_was_lost() -> None:
    window = filled(5)
    window.resume(0, 10, 1000)
    assert taken(window) == [1, 2, 3, 4, 5]
    window.ack(1)
    # The gateway had taken 2 and 3, only its word about it was lost.
    window.resume(3, 10, 1000)
    assert window.acknowledged == 3
    assert taken(window) == [4, 5]


def test_room_is_limited_by_lines_and_bytes() -> None:
    window = Window(max_lines=2, max_bytes=100)
    assert window.has_room(1_000), "one line always fits"
    window.push("a", 60)
    assert window.has_room(40)
    assert not window.has_room(41)
    window.push("b", 1)
    assert not window.has_room(1)


def test_a_gateway_that_knows_other_lines_is_refused() -> None:
    window = filled(2)
    with pytest.raises(ResumeError, match="only 2 exist"):
        window.resume(3, 10, 1000)
    window.resume(0, 10, 1000)
    taken(window)
    window.ack(2)
    with pytest.raises(ResumeError, match="lost payloads 1 to 2"):
        window.resume(0, 10, 1000)
    with pytest.raises(ResumeError, match="acknowledged payload 9"):
        window.ack(9)
