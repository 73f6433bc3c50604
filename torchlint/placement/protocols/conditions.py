"""Tests as atoms whose truth a path remembers, so that correlated branches do not conflict."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import libcst as cst

#: What a path assumed: the text of a test and its truth.
Conditions = frozenset[tuple[str, bool]]

_NAME = re.compile(r"[A-Za-z_~][\w~]*(?:\.[A-Za-z_]\w*)*")
_OPPOSITES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.IsNot: cst.Is,
    cst.NotEqual: cst.Equal,
    cst.NotIn: cst.In,
    cst.GreaterThanEqual: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThan,
}
_LITERALS = {"True": True, "False": False, "None": False}


def atom(test: cst.BaseExpression, text: Callable[[cst.CSTNode], str]) -> tuple[str, bool]:
    """A test without `and`, `or`, `not` as (text, truth): `x is None` and `x` are one atom, differently true.

    text: renders an expression.
    """
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, right = type(test.comparisons[0].operator), test.comparisons[0].comparator
        if isinstance(right, cst.Name) and right.value in _LITERALS and operator not in (cst.In, cst.NotIn):
            positive = operator in (cst.Is, cst.Equal)
            return text(test.left), positive is _LITERALS[right.value]
        truth = operator not in _OPPOSITES
        operator = _OPPOSITES.get(operator, operator)
        return f"{text(test.left)} {operator.__name__} {text(right)}", truth
    return text(test), True


def constant(text: str) -> bool | None:
    """The truth of a test whose text is a literal; None where it is none."""
    if text in _LITERALS:
        return _LITERALS[text]
    if text.isdigit():
        return int(text) != 0
    return None


@lru_cache(maxsize=4096)
def names_in(text: str) -> frozenset[str]:
    """The dotted names that a test reads."""
    return frozenset(_NAME.findall(text))


def speaks_of(text: str, name: str) -> bool:
    """Whether the truth of a test may change when `name` is bound anew."""
    return name in _reached(text) or not _owners(name).isdisjoint(names_in(text))


@lru_cache(maxsize=4096)
def _owners(name: str) -> frozenset[str]:
    """What a dotted name hangs on: `a` and `a.b` for `a.b.c`."""
    parts = name.split(".")
    return frozenset(".".join(parts[:end]) for end in range(1, len(parts)))


@lru_cache(maxsize=4096)
def _reached(text: str) -> frozenset[str]:
    """The names that a test reads, and those that they hang on."""
    return names_in(text).union(*map(_owners, names_in(text)))


@lru_cache(maxsize=8192)  # asked of every way through a function after every assignment, and ways are much alike
def without(conditions: Conditions, names: frozenset[str]) -> Conditions:
    """What is still known once the names are bound anew."""
    if not conditions or not names:
        return conditions
    owners = frozenset[str]().union(*map(_owners, names))
    return frozenset(
        c for c in conditions if names.isdisjoint(_reached(c[0])) and owners.isdisjoint(names_in(c[0]))
    )
