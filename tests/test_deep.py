"""Room for deep recursion."""

from __future__ import annotations

import sys
import threading

import pytest

from torchlint.deep import deeply


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


def test_what_is_too_deep_for_the_interpreter_gets_through() -> None:
    assert deeply(lambda: depth(5_000)) == 5_000


def test_limits_are_put_back() -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    deeply(lambda: depth(5_000))
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_what_is_shallow_is_called_once_and_here() -> None:
    calls: list[threading.Thread] = []
    deeply(lambda: calls.append(threading.current_thread()))
    assert calls == [threading.current_thread()]


def test_endless_recursion_is_still_an_error() -> None:
    def forever() -> None:
        forever()

    with pytest.raises(RecursionError):
        deeply(forever)


def test_other_errors_are_passed_on() -> None:
    def fail_below(n: int) -> None:
        if n == 0:
            raise KeyError("x")
        fail_below(n - 1)

    for n in (1, 5_000):
        with pytest.raises(KeyError):
            deeply(lambda n=n: fail_below(n))  # type: ignore[misc]
