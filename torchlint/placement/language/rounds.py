"""What one round of a loop hands on to the next: the names that its body reads before it binds them itself.

A second look at a body learns nothing where these hold what they held before, so that most loops are entered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import libcst as cst

from torchlint.placement.syntax import assigned_names, children, dotted, statements
from torchlint.placement.values import Kind, Value


class Carried(NamedTuple):
    """reads: the names (dotted ones, too) that a body may read as the round before left them. counted: those that it
    only adds to (`total += x`): a sum of numbers says nothing that the first round did not say."""

    reads: set[str]
    counted: set[str]

    def learns(self, before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
        """Whether a further round would find something new: `before` and `after` are what holds as rounds begin."""
        for name, value in after.items():
            old = before.get(name)
            if value is old or (old is not None and old.same(value)):
                continue
            read = name.partition("[")[0]
            if read in self.reads or (read in self.counted and value.kind is not Kind.NUMBER):
                return True
        return False


def carried(loop: cst.For | cst.While) -> Carried:
    """What the body of a loop (and the test of a `while`) reads of the round before."""
    found = Carried(set(), set())
    if type(loop) is cst.For:
        bound = set(assigned_names(loop.target))
    else:
        bound = set()
        _read(loop.test, bound, found)  # type: ignore[union-attr]
    _suite(loop.body, bound, found)
    return found


def _suite(body: cst.BaseSuite | None, bound: set[str], found: Carried) -> set[str]:
    """Note what a block reads; returns the names bound at its end."""
    if body is not None:
        for statement in statements(body):
            _statement(statement, bound, found)
    return bound


def _statement(node: cst.CSTNode, bound: set[str], found: Carried) -> None:
    reader = _STATEMENTS.get(type(node))
    if reader is not None:
        reader(node, bound, found)
    else:
        _read(node, bound, found)


def _line(node: cst.SimpleStatementLine, bound: set[str], found: Carried) -> None:
    for small in node.body:
        _statement(small, bound, found)


def _assign(node: cst.Assign, bound: set[str], found: Carried) -> None:
    _read(node.value, bound, found)
    _bind((target.target for target in node.targets), bound, found)


def _annotated(node: cst.AnnAssign, bound: set[str], found: Carried) -> None:
    if node.value is not None:
        _read(node.value, bound, found)
        _bind([node.target], bound, found)


def _augmented(node: cst.AugAssign, bound: set[str], found: Carried) -> None:
    _read(node.value, bound, found)
    name = dotted(node.target)
    if name is None:
        _read(node.target, bound, found)
    elif name not in bound:
        found.counted.add(name)


def _bind(targets: Iterable[cst.CSTNode], bound: set[str], found: Carried) -> None:
    for target in targets:
        name = dotted(target)
        if name is not None:
            bound.add(name)
        elif type(target) in (cst.Tuple, cst.List):
            _bind((element.value for element in target.elements), bound, found)  # type: ignore[attr-defined]
        else:
            _read(target, bound, found)


def _if(node: cst.If, bound: set[str], found: Carried) -> None:
    """An if with its elifs: bound is what all branches bind."""
    ends: list[set[str]] = []
    clause: cst.If | cst.Else | None = node
    while type(clause) is cst.If:
        _read(clause.test, bound, found)
        ends.append(_suite(clause.body, set(bound), found))
        clause = clause.orelse
    if clause is not None:
        ends.append(_suite(clause.body, set(bound), found))
        bound |= set.intersection(*ends)


def _for(node: cst.For, bound: set[str], found: Carried) -> None:
    _read(node.iter, bound, found)
    _suite(node.body, bound | set(assigned_names(node.target)), found)
    if node.orelse is not None:
        _suite(node.orelse.body, set(bound), found)


def _with(node: cst.With, bound: set[str], found: Carried) -> None:
    for item in node.items:
        _read(item.item, bound, found)
        if item.asname is not None:
            _bind([item.asname.name], bound, found)
    _suite(node.body, bound, found)


def _definition(node: cst.FunctionDef | cst.ClassDef, bound: set[str], found: Carried) -> None:
    for child in children(node):
        if child is not node.name:
            _read(child, bound, found)
    bound.add(node.name.value)


def _try(node: cst.Try | cst.TryStar, bound: set[str], found: Carried) -> None:
    _suite(node.body, set(bound), found)
    for part in (*node.handlers, node.orelse, node.finalbody):
        if part is not None:
            _suite(part.body, set(bound), found)


def _read(node: cst.CSTNode, bound: set[str], found: Carried) -> None:
    """Note the names in an expression that are not bound so far."""
    stack = [node]
    while stack:
        top = stack.pop()
        kind = type(top)
        if kind is cst.Name:
            if top.value not in bound:  # type: ignore[attr-defined]
                found.reads.add(top.value)  # type: ignore[attr-defined]
            continue
        name = dotted(top) if kind is cst.Attribute else None
        if name is None:
            stack += children(top)
            continue
        prefixes = [name]
        while "." in name:
            name = name.rpartition(".")[0]
            prefixes.append(name)
        if bound.isdisjoint(prefixes):
            found.reads.update(prefixes)


_STATEMENTS: dict[type[cst.CSTNode], Any] = {
    cst.SimpleStatementLine: _line,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.If: _if,
    cst.For: _for,
    cst.With: _with,
    cst.FunctionDef: _definition,
    cst.ClassDef: _definition,
    cst.Try: _try,
    cst.TryStar: _try,
}
