"""Lists, tuples, dicts, comprehensions, numbers and strings."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from torchlint.placement.devices import is_vendor
from torchlint.placement.events import DeviceName
from torchlint.placement.hazards.helpers import note_filter
from torchlint.placement.hazards.syncs import emit_sync, spare
from torchlint.placement.hazards.texts import composed
from torchlint.placement.interpreter import Env, Interpreter, expression
from torchlint.placement.language.binding import bind
from torchlint.placement.language.conditions import narrow, truth_test
from torchlint.placement.language.keys import round_of
from torchlint.placement.syntax import string
from torchlint.placement.values import (
    NUMBER,
    Kind,
    Value,
    element_of,
    join,
    sequence,
)

DEVICE_FAMILIES = ("cuda", "mps", "xpu", "hpu", "npu")


_MADE = frozenset({"made"})


@expression(cst.Tuple, cst.List, cst.Set)
def display(run: Interpreter, node: cst.Tuple | cst.List | cst.Set, env: Env) -> Value:
    items = tuple(run.evaluate(e.value, env) for e in node.elements)
    if any(type(e) is cst.StarredElement for e in node.elements):
        element: Value | None = None
        for e, item in zip(node.elements, items):
            part = element_of(item) if type(e) is cst.StarredElement else item
            element = part if element is None else join(element, part)
        return Value(Kind.SEQUENCE, element=element)
    value = sequence(items)
    return value.but(facts=_MADE | {"fresh"} if items and all("fresh" in i.facts for i in items) else _MADE)


@expression(cst.Dict)
def dictionary(run: Interpreter, node: cst.Dict, env: Env) -> Value:
    element: Value | None = None
    keys: dict[str, Value] = {}
    for item in node.elements:
        value = run.evaluate(item.value, env)
        if type(item) is cst.DictElement:
            run.evaluate(item.key, env)
            key = string(item.key)
            if key is not None:
                keys[key] = value
                spare(run, value)
        else:
            value = element_of(value)
        element = value if element is None else join(element, value)
    return Value(Kind.MAPPING, element=element, keys=keys or None, facts=_MADE)


def _comprehend(run: Interpreter, clause: cst.CompFor, env: Env, *made: cst.CSTNode) -> frozenset[str]:
    """Bind the names of a comprehension; returns what going through it says, as a loop does."""
    iterable = run.evaluate(clause.iter, env)
    tests = iterable.tests
    bind(run, clause.target, round_of(run, clause.iter, clause.target, iterable, *made, *clause.ifs), env, None)
    for test in clause.ifs:
        value = run.evaluate(test.test, env)
        truth_test(run, test.test, value)
        narrow(run, test.test, env, {})
        tests |= value.tests
    return tests | _comprehend(run, clause.inner_for_in, env, *made) if clause.inner_for_in is not None else tests


@expression(cst.ListComp, cst.GeneratorExp, cst.SetComp)
def comprehension(run: Interpreter, node: cst.ListComp, env: Env) -> Value:
    inner = dict(env)
    with run.under(_comprehend(run, node.for_in, inner, node.elt), None):
        element = run.evaluate(node.elt, inner)
    made = Value(Kind.SEQUENCE, element=element, facts=element.facts & {"fresh"} | _MADE)
    return note_filter(run, node, node.elt, made)


@expression(cst.DictComp)
def dict_comprehension(run: Interpreter, node: cst.DictComp, env: Env) -> Value:
    inner = dict(env)
    with run.under(_comprehend(run, node.for_in, inner, node.key, node.value), None):
        run.evaluate(node.key, inner)
        element = run.evaluate(node.value, inner)
    made = Value(Kind.MAPPING, element=element, facts=element.facts & {"fresh"} | _MADE)
    return note_filter(run, node, node.value, made)


@expression(cst.Integer, cst.Float, cst.Imaginary)
def number(run: Interpreter, node: cst.CSTNode, env: Env) -> Value:
    return NUMBER


@expression(cst.SimpleString)
def text(run: Interpreter, node: cst.SimpleString, env: Env) -> Value:
    value = string(node)
    if value is None:
        return _SOME_TEXT
    if is_vendor(value):
        run.literals[node] = run.scene
        if value.startswith("mps"):
            run.emit(DeviceName(node, run.scene, "mps", "mention", literal=value), "mention")
        return Value(Kind.STRING, name=value, ref=node)
    return _text(value)


_SOME_TEXT = Value(Kind.STRING)


@lru_cache(maxsize=4096)  # the same few texts over and over, and a Value never changes
def _text(value: str) -> Value:
    return Value(Kind.STRING, name=value)


@expression(cst.ConcatenatedString)
def concatenated(run: Interpreter, node: cst.ConcatenatedString, env: Env) -> Value:
    for part in (node.left, node.right):
        run.evaluate(part, env)
    return Value(Kind.STRING)


@expression(cst.FormattedString)
def formatted(run: Interpreter, node: cst.FormattedString, env: Env) -> Value:
    family: str | None = None
    for part in node.parts:
        if type(part) is cst.FormattedStringExpression:
            value = run.evaluate(part.expression, env)
            emit_sync(run, part.expression, "f-string", value, hidden=True)
        elif type(part) is cst.FormattedStringText and family is None and ":" in part.value:
            family = part.value.split(":")[0]
    named = composed(run, node, env) if family is not None else None
    if named is not None:
        return named
    if family in DEVICE_FAMILIES:
        return Value(Kind.STRING, name=f"{family}:", facts=frozenset({"formatted"}))
    return Value(Kind.STRING)
