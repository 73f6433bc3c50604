"""What names mean on a path: aliases, arguments of calls that are followed, flags that stand for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.syntax import (
    assigned_names,
    dotted,
    parameters,
    semantic_fields,
)

_CALM = frozenset([cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.Name, cst.Attribute])


class Scope:
    """The names of one function while it is walked.

    prefix: what marks the names that belong to a call that is followed; empty for the function that is
    judged, whose names stay as they are written. receiver: what `self` is called outside.
    """

    def __init__(
        self,
        function: cst.FunctionDef | None,
        local: frozenset[str],
        defined: dict[str, cst.BaseExpression],
        code_for: Callable[[cst.CSTNode], str],
        prefix: str = "",
        caller: Scope | None = None,
        receiver: str = "",
    ) -> None:
        self.function = function
        self.prefix = prefix
        self.caller = caller
        self._local = local
        self._defined = defined
        self._code_for = code_for
        self._bound: dict[str, str] = {}
        first = next(iter(parameters(function)), None) if receiver and function is not None else None
        self.self_name = first.name.value if first is not None else ""
        if caller is not None and self.self_name:
            self._bound[self.self_name] = receiver

    @property
    def self_key(self) -> str:
        """What the instance is called by the function that is judged."""
        return self.key(self.self_name) if self.self_name else ""

    def bind_arguments(self, function: Function, call: cst.Call) -> None:
        """Let the parameters stand for what the call passes, or for their literal defaults."""
        caller = self.caller
        assert caller is not None
        names = [p.name.value for p in parameters(function.node) if p.name.value != self.self_name]
        position = 0
        passed: set[str] = set()
        for arg in call.args:
            if arg.star:
                return
            if arg.keyword is not None:
                name = arg.keyword.value
            elif position < len(names):
                name = names[position]
                position += 1
            else:
                continue
            passed.add(name)
            self._bound[name] = caller.text(arg.value)
        for parameter in parameters(function.node):
            name, default = parameter.name.value, parameter.default
            if name not in passed and type(default) in (cst.Name, cst.Integer) and default is not None:
                self._bound[name] = self._code_for(default)

    def key(self, name: str) -> str:
        """What a dotted name of this scope is called by the function that is judged."""
        return self._key(name, 0)

    def _key(self, name: str, depth: int) -> str:
        root, dot, rest = name.partition(".")
        if root in self._bound:
            return f"{self._bound[root]}{dot}{rest}"
        meant = self._defined.get(name) or self._defined.get(root)
        if meant is not None and depth < 4:
            alias = dotted(meant)
            if alias is not None and alias != name and alias.partition(".")[0] != root:
                return self._key(alias if name in self._defined else f"{alias}.{rest}", depth + 1)
        if self.prefix and root in self._local:
            return f"{self.prefix}{name}"
        return name

    def text(self, node: cst.CSTNode) -> str:
        """An expression as text in which equal things read the same."""
        name = dotted(node)
        if name is not None:
            return self.key(name)
        writer = _WRITERS.get(type(node))
        return self._code_for(node).strip() if writer is None else writer(self, node)

    def _call(self, node: cst.Call) -> str:
        inner = (
            a.star + (f"{a.keyword.value}=" if a.keyword is not None else "") + self.text(a.value)
            for a in node.args
        )
        return f"{self.text(node.func)}({', '.join(inner)})"

    def _attribute(self, node: cst.Attribute) -> str:
        return f"{self.text(node.value)}.{node.attr.value}"

    def _literal(self, node: cst.Integer | cst.Float | cst.SimpleString) -> str:
        return node.value

    def _binary(self, node: cst.BinaryOperation | cst.BooleanOperation) -> str:
        return f"({self.text(node.left)} {type(node.operator).__name__} {self.text(node.right)})"

    def _unary(self, node: cst.UnaryOperation) -> str:
        return f"{type(node.operator).__name__} {self.text(node.expression)}"

    def _comparison(self, node: cst.Comparison) -> str:
        rest = " ".join(f"{type(c.operator).__name__} {self.text(c.comparator)}" for c in node.comparisons)
        return f"{self.text(node.left)} {rest}"

    def _subscript(self, node: cst.Subscript) -> str:
        return f"{self.text(node.value)}[{', '.join(self.text(e.slice) for e in node.slice)}]"

    def _index(self, node: cst.Index) -> str:
        return self.text(node.value)

    def meaning(self, test: cst.BaseExpression) -> cst.BaseExpression:
        """The test that a flag stands for, where it is bound once; else the test itself."""
        name = dotted(test)
        if name is None or name.partition(".")[0] in self._bound:
            return test
        meant = self._defined.get(name)
        if meant is None or type(meant) not in _CALM or dotted(meant) is not None:
            return test
        return meant


_WRITERS: dict[type[cst.CSTNode], Callable[[Scope, Any], str]] = {
    cst.Call: Scope._call,
    cst.Attribute: Scope._attribute,
    cst.Integer: Scope._literal,
    cst.Float: Scope._literal,
    cst.SimpleString: Scope._literal,
    cst.BinaryOperation: Scope._binary,
    cst.BooleanOperation: Scope._binary,
    cst.UnaryOperation: Scope._unary,
    cst.Comparison: Scope._comparison,
    cst.Subscript: Scope._subscript,
    cst.Index: Scope._index,
}


def locals_of(function: cst.FunctionDef) -> frozenset[str]:
    """The names that a function binds, its parameters among them."""
    names = {p.name.value for p in parameters(function)}
    names.update(n for n in bound_names(function.body) if "." not in n)
    return frozenset(names)


def bound_names(node: cst.CSTNode) -> Iterator[str]:
    """The dotted names that statements at and below a node bind; nested functions apart."""
    for statement in statements_below(node):
        for target in _targets(statement):
            yield from _names(target)


def targets_of(target: cst.CSTNode) -> Iterator[str]:
    """The dotted names that a target binds."""
    return _names(target)


def statements_below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements at and below a node in program order, with clauses and items; nested functions apart."""
    stack = [node]
    while stack:
        top = stack.pop()
        kind = type(top)
        if kind in _APART:
            continue
        yield top
        parts = _parts_of(kind)
        below: list[cst.CSTNode] = []
        for field in parts:
            part = getattr(top, field)
            if part is None:
                continue
            if type(part) in (tuple, list):
                below.extend(part)
            else:
                below.append(part)
        stack.extend(reversed(below))


#: Nothing below these binds names of the function around.
_APART = frozenset([cst.FunctionDef, cst.ClassDef, cst.Lambda])
#: The fields that hold statements, clauses of statements, or tests in which a walrus may bind.
_STATEMENT_FIELDS = (
    "items",
    "test",
    "subject",
    "body",
    "handlers",
    "cases",
    "pattern",
    "orelse",
    "finalbody",
)


@cache
def _parts_of(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    if issubclass(kind, cst.BaseExpression):
        return semantic_fields(kind) if kind in _MAY_HOLD_WALRUS else ()
    if issubclass(kind, cst.MatchPattern):
        return semantic_fields(kind)
    return tuple(
        f for f in semantic_fields(kind) if f in _STATEMENT_FIELDS and kind not in (cst.Assert, cst.WithItem)
    )


_MAY_HOLD_WALRUS = frozenset([cst.BooleanOperation, cst.Comparison, cst.UnaryOperation, cst.NamedExpr])


def _targets(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    kind = type(node)
    if kind is cst.Assign:
        return [t.target for t in node.targets]  # type: ignore[attr-defined]
    if kind in _WITH_TARGET:
        return [node.target]  # type: ignore[attr-defined]
    if kind is cst.WithItem and node.asname is not None:  # type: ignore[attr-defined]
        return [node.asname.name]  # type: ignore[attr-defined]
    if kind in (cst.MatchAs, cst.MatchStar) and node.name is not None:  # type: ignore[attr-defined]
        return [node.name]  # type: ignore[attr-defined]
    return ()


_WITH_TARGET = frozenset([cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr])


def _names(target: cst.CSTNode) -> Iterator[str]:
    name = dotted(target)
    if name is not None:
        yield name
    elif type(target) in (cst.Tuple, cst.List):
        for element in target.elements:  # type: ignore[attr-defined]
            yield from _names(element.value)
    elif type(target) is cst.Subscript:
        yield from _names(target.value)
    else:
        yield from assigned_names(target)


def definitions(
    body: Iterable[cst.CSTNode], function: cst.FunctionDef | None
) -> dict[str, cst.BaseExpression]:
    """What each name is bound to that is bound once in this code, and by a plain assignment."""
    counts: Counter[str] = (
        Counter() if function is None else Counter(p.name.value for p in parameters(function))
    )
    found: dict[str, cst.BaseExpression] = {}
    for statement in body:
        for node in statements_below(statement):
            for target in _targets(node):
                counts.update(_names(target))
            kind = type(node)
            if kind is cst.Assign and len(node.targets) == 1:  # type: ignore[attr-defined]
                name = dotted(node.targets[0].target)  # type: ignore[attr-defined]
                if name is not None:
                    found[name] = node.value  # type: ignore[attr-defined]
            elif kind is cst.AnnAssign and node.value is not None:  # type: ignore[attr-defined]
                name = dotted(node.target)  # type: ignore[attr-defined]
                if name is not None:
                    found[name] = node.value  # type: ignore[attr-defined]
    return {name: value for name, value in found.items() if counts[name] == 1}
