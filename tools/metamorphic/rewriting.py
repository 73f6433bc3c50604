"""What rewriters share: how they are registered, and small readings of a program."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator

import libcst as cst

#: A rewriter gives the program in other words, or None where there is nothing to rewrite.
Rewriter = Callable[[cst.Module], "cst.Module | None"]

#: A statement as blocks and modules hold it.
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

REWRITERS: dict[str, Rewriter] = {}

BUILTINS = frozenset(dir(builtins))


def rewriter(name: str) -> Callable[[Rewriter], Rewriter]:
    """Register a rewriter under the words that say what it does."""

    def register(function: Rewriter) -> Rewriter:
        REWRITERS[name] = function
        return function

    return register


def rewritten(module: cst.Module, transformer: cst.CSTTransformer) -> cst.Module | None:
    """The module after a transformer; None where it changed nothing."""
    new = module.visit(transformer)
    return new if new.code != module.code else None


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` for names and attributes of names."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return None


def expression(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def statement(text: str) -> Statement:
    return cst.parse_statement(text)


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Name(self, node: cst.Name) -> None:
        self.found.append(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False


def names_read(node: cst.CSTNode) -> list[str]:
    """The names in an expression, in order, each once; keywords and attributes are none."""
    visitor = _Names()
    node.visit(visitor)
    return list(dict.fromkeys(visitor.found))


def names_bound(node: cst.CSTNode) -> set[str]:
    """The names that code binds, functions and classes within it included."""

    class Bound(cst.CSTVisitor):
        def __init__(self) -> None:
            self.found: set[str] = set()

        def _target(self, target: cst.CSTNode) -> None:
            if isinstance(target, cst.Name):
                self.found.add(target.value)
            elif isinstance(target, (cst.Tuple, cst.List)):
                for element in target.elements:
                    self._target(element.value)
            elif isinstance(target, cst.StarredElement):
                self._target(target.value)

        def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
            self._target(node.target)

        def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
            self._target(node.target)

        def visit_AugAssign(self, node: cst.AugAssign) -> None:
            self._target(node.target)

        def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
            self._target(node.target)

        def visit_For(self, node: cst.For) -> None:
            self._target(node.target)

        def visit_CompFor(self, node: cst.CompFor) -> None:
            self._target(node.target)

        def visit_AsName(self, node: cst.AsName) -> None:
            self._target(node.name)

        def visit_Param(self, node: cst.Param) -> None:
            self._target(node.name)

    visitor = Bound()
    node.visit(visitor)
    return visitor.found


def parameters(function: cst.FunctionDef) -> list[cst.Param]:
    """The plain parameters in order."""
    params = function.params
    return [*params.posonly_params, *params.params, *params.kwonly_params]


def has_star_parameters(function: cst.FunctionDef) -> bool:
    return isinstance(function.params.star_arg, cst.Param) or function.params.star_kwarg is not None


def holds(node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> bool:
    """Whether a node of one of the kinds stands in code."""
    return any(isinstance(n, kinds) for n in walk(node))


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.children))


def body_of(function: cst.FunctionDef) -> list[cst.BaseStatement] | None:
    """The statements of a function that has a block; None for one-line ones."""
    if isinstance(function.body, cst.IndentedBlock):
        return list(function.body.body)
    return None


def with_body(function: cst.FunctionDef, body: list[cst.BaseStatement]) -> cst.FunctionDef:
    assert isinstance(function.body, cst.IndentedBlock)
    return function.with_changes(body=function.body.with_changes(body=body))


def block(body: list[cst.BaseStatement]) -> cst.IndentedBlock:
    return cst.IndentedBlock(body=body)


def is_docstring(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.SimpleStatementLine)
        and len(node.body) == 1
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in node.body
    )


def opening(module: cst.Module) -> int:
    """How many statements a module opens with that are its docstring and imports."""
    count = 0
    for node in module.body:
        if not is_import(node) and not (count == 0 and is_docstring(node)):
            break
        count += 1
    return count
