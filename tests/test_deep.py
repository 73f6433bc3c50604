"""Room for deep recursion."""

from __future__ import annotations

import sys
import threading

import pytest

from torchlint.deep import deeply, too_deep


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


# ---- what the parser would crash on


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = " + "[" * 2000 + "]" * 2000 + "\n", "more than 200 brackets"),
        ("x = " + "f(" * 300 + ")" * 300 + "\n", "more than 200 brackets"),
        ("x = a" + " + b" * 4000 + "\n", "more than 3000 operators"),
        ("x = a" + ".b()" * 4000 + "\n", "more than 3000 operators"),
        ("x = (a\n" + "  + b\n" * 4000 + ")\n", "more than 3000 operators"),
        ("x = " + "not " * 4000 + "a\n", "more than 3000 operators"),
        ("if a: b\n" + "elif a: b\n" * 6000, "more than 5000 branches"),
    ],
)
def test_what_is_too_deep_is_refused(text: str, why: str) -> None:
    assert why in str(too_deep(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = " + "(" * 150 + "1" + ")" * 150 + "\n",
        "x = '" + "(" * 5000 + "'\n",
        "# " + "[" * 5000 + "\nx = '''\n" + "{\n" * 5000 + "'''\n",
        "x = [" + "-1 + 2, " * 9000 + "]\n",
        "x = {\n" + "    'a': -1,\n" * 9000 + "}\n",
        "x = a" + " + b" * 2000 + "\n",
        "x = 1 + 2\n" * 9000,
        "x = 1; " * 9000 + "\n",
        "x = f(\n" + "    -1,\n    +2,\n" * 5000 + ")\n",
        "+x\n" * 9000,
        ")" * 1000,
    ],
)
def test_what_only_looks_deep_is_not_refused(text: str) -> None:
    assert too_deep(text) is None
