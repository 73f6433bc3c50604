"""The paths of a function: what really runs is among the ways that are walked, and what can't run is not."""

from __future__ import annotations

from functools import partial
from itertools import product
from textwrap import dedent, indent
from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.placement.protocols.paths import Automaton, TooManyPaths, Walk, Ways
from torchlint.placement.syntax import dotted

KEPT = 3


class Recorder(Automaton):
    """Remembers the last letters that a path called."""

    def concerns(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and (dotted(node.func) or "") in "abcd"

    def visit(self, node: cst.CSTNode, ways: Ways, walk: Walk) -> Ways:
        assert isinstance(node, cst.Call)
        letter = dotted(node.func)
        return frozenset(w._replace(state=(*w.state, letter)[-KEPT:]) for w in ways)

    def assign(self, target: Any, value: Any, state: Any, walk: Walk, weak: bool) -> Any:
        return state

    def returned(self, node: Any, state: Any, walk: Walk) -> Any:
        return state

    def statement_ends(self, state: Any) -> Any:
        return state

    def enter(self, item: cst.WithItem) -> object:
        return None

    def leave(self, entered: object) -> None:
        return None

    def back_edge(self, state: Any, jump: Any, walk: Walk) -> Any:
        return state


def ends(code: str) -> set[str]:
    """The last letters of every way through a function."""
    module = cst.parse_module(dedent(code))
    function = next(s for s in module.body if isinstance(s, cst.FunctionDef))
    ways = Walk(Recorder(), module.code_for_node).run(function, function.body.body, ())
    return {"".join(w.state) for w in ways}


@pytest.mark.parametrize(
    "body, expected",
    [
        ("a()\nb()", {"ab"}),
        ("if p:\n    a()\nelse:\n    b()\nc()", {"ac", "bc"}),
        ("if p:\n    a()\nif p:\n    b()", {"", "ab"}),
        ("if p:\n    a()\nif not p:\n    b()", {"a", "b"}),
        ("if p is None:\n    a()\nif p is not None:\n    b()", {"a", "b"}),
        ("if p:\n    a()\np = d\nif p:\n    b()", {"", "a", "b", "ab"}),
        ("s = p > 0\nif s:\n    a()\nif p > 0:\n    b()", {"", "ab"}),
        ("if p and q:\n    a()\nelif p:\n    b()\nif q:\n    c()", {"ac", "b", "c", ""}),
        ("if p or q:\n    a()\nif not q:\n    b()", {"a", "ab", "b"}),
        ("if p != q:\n    a()\nif p == q:\n    b()", {"a", "b"}),
        ("if p:\n    return a()\nb()", {"a", "b"}),
        ("if p:\n    raise a()\nb()", {"b"}),
        ("assert p\nif p:\n    a()", {"a"}),
        ("a() if p else b()", {"a", "b"}),
        ("p and a()", {"a", ""}),
        ("b(a())", {"ab"}),
        ("if a() and b():\n    c()", {"a", "ab", "abc"}),
        ("for x in p:\n    a()\nb()", {"b", "ab", "aab"}),
        ("for x in p:\n    if x:\n        continue\n    a()\n    break\nelse:\n    b()", {"a", "b"}),
        ("while True:\n    a()\n    if p:\n        break", {"a"}),
        ("while True:\n    a()\n    p = d\n    if p:\n        break", {"a", "aa", "aaa"}),
        ("for x in p:\n    if x:\n        a()\n    if x:\n        b()", {"", "ab", "bab"}),
        ("try:\n    a()\nexcept E:\n    b()\nc()", {"ac", "bc"}),
        ("try:\n    return a()\nfinally:\n    b()", {"ab"}),
        ("for x in p:\n    try:\n        continue\n    finally:\n        a()", {"", "a", "aa", "aaa"}),
        ("for x in r:\n    return\ntry:\n    return\nfinally:\n    a()", {"", "a"}),
        ("for x in r:\n    for y in q:\n        return\n    try:\n        return\n    finally:\n        a()", {"", "a"}),
        ("try:\n    try:\n        return\n    finally:\n        a()\nfinally:\n    b()", {"ab"}),
        ("with p as q:\n    a()", {"a"}),
        ("match p:\n    case 1:\n        a()\n    case _:\n        b()", {"a", "b", ""}),
        ("if p:\n    a()\n    exit()\nb()", {"b"}),
        ("[a() for x in p]", {"a"}),
        ("def g():\n    a()\nb()", {"b"}),
        ("if False:\n    a()\nb()", {"b"}),
        ("while p:\n    a()\n    p = d", {"", "a", "aa", "aaa"}),
    ],
)
def test_the_ways_through_a_function(body: str, expected: set[str]) -> None:
    assert ends("def f(p, q):\n" + indent(body, "    ")) == expected


def test_a_function_with_too_many_ways_is_given_up() -> None:
    body = "\n".join(f"    if p{i}:\n        a(p{i})\n    x{i} = p{i} + b()" for i in range(12))
    tests = "\n".join(f"    if p{i}:\n        x = c() if q{i} else d()" for i in range(12))
    with pytest.raises(TooManyPaths):
        ends(
            f"def f(p):\n{body}\n{tests}\n"
            + "".join(f"    if r{i}:\n        return a()\n" for i in range(200))
        )


# ---- against Python itself


def _block(statements: list[str]) -> str:
    return "\n".join(statements)


_LETTERS = st.sampled_from(["a()", "b()", "c()", "d()"])
_TESTS = st.sampled_from(
    ["p", "q", "not p", "p and q", "p or not q", "p is None", "q is not None", "x", "not x"]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(_block)

    def nested(text: str) -> str:
        return indent(text, "    ")

    return st.one_of(
        st.builds(lambda t, a, b: f"if {t}:\n{nested(a)}\nelse:\n{nested(b)}", _TESTS, body, body),
        st.builds(lambda t, a: f"if {t}:\n{nested(a)}", _TESTS, body),
        st.builds(lambda a: f"for x in r:\n{nested(a)}", body),
        st.builds(
            lambda t, a: f"for x in r:\n{nested(f'if {t}:')}\n{nested(nested('continue'))}\n{nested(a)}",
            _TESTS,
            body,
        ),
        st.builds(
            lambda t, a: f"for x in r:\n{nested(a)}\n{nested(f'if {t}:')}\n{nested(nested('break'))}",
            _TESTS,
            body,
        ),
        st.builds(lambda a, b: f"try:\n{nested(a)}\nfinally:\n{nested(b)}", body, body),
        st.builds(lambda t, a: f"if {t}:\n{nested(a)}\n    return", _TESTS, body),
    )


_PROGRAMS = st.lists(st.recursive(_LETTERS, _compound, max_leaves=8), min_size=1, max_size=4).map(_block)


@settings(max_examples=150, deadline=None)
@given(_PROGRAMS)
def test_what_really_runs_is_among_the_ways(body: str) -> None:
    code = "def f(p, q, r, x=None):\n" + indent(body, "    ")
    try:
        walked = ends(code)
    except TooManyPaths:
        return
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    for p, q, r in product([None, 1], [None, 1], [(), (0,), (1, 0), (0, 1)]):
        heard: list[str] = []
        namespace.update({letter: partial(heard.append, letter) for letter in "abcd"})
        namespace["f"](p, q, r)
        assert "".join(heard[-KEPT:]) in walked
