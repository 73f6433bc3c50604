"""Where a finding stands: its function, class, loops and conditions, told from the syntax tree of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionDef = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Scope:
    """What surrounds a line. function: the outermost one, which a replay calls; inner: the innermost one.

    classes: those around the function. loops: those around the line within the innermost function, outermost first.
    tests: conditions of the `if` statements around the line within its innermost loop.
    """

    line: int
    function: ast.FunctionDef | None = None
    inner: ast.FunctionDef | None = None
    classes: tuple[ast.ClassDef, ...] = ()
    loops: tuple[ast.For | ast.While, ...] = ()
    tests: tuple[ast.expr, ...] = field(default=(), compare=False)

    @property
    def loop(self) -> ast.For | ast.While | None:
        return self.loops[-1] if self.loops else None


def around(tree: ast.Module, line: int) -> Scope:
    """The scope of a line."""
    function: ast.FunctionDef | None = None
    inner: ast.FunctionDef | None = None
    classes: list[ast.ClassDef] = []
    loops: list[ast.For | ast.While] = []
    tests: list[ast.expr] = []
    for node in _path(tree, line):
        if isinstance(node, FunctionDef) and line >= node.body[0].lineno:
            function = function or node  # type: ignore[assignment]
            inner = node  # type: ignore[assignment]
            loops, tests = [], []
        elif isinstance(node, ast.ClassDef) and function is None:
            classes.append(node)
        elif isinstance(node, (ast.For, ast.While)) and node.body[0].lineno <= line <= _last(node.body):
            loops.append(node)
            tests = []
        elif isinstance(node, ast.If) and line >= node.body[0].lineno:
            tests.append(node.test)
    return Scope(line, function, inner, tuple(classes), tuple(loops), tuple(tests))


def _path(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Statements around a line, the outermost first."""
    for child in ast.iter_child_nodes(node):
        start, end = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if isinstance(child, (ast.ExceptHandler, ast.stmt)) or type(child).__name__ == "match_case":
            first = min([start or 0, *(d.lineno for d in getattr(child, "decorator_list", ()))])
            if start is None or first <= line <= (end or 0):
                yield child
                yield from _path(child, line)


def _last(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno


def interval(scope: Scope, tree: ast.Module) -> int | None:
    """How often the condition around a line comes true: the n of `step % n`; None where no such n is known.

    0: there is such a condition, but its n is not known.
    """
    found = None
    for test in scope.tests:
        for node in ast.walk(test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                found = max(found or 0, constant(node.right, scope, tree) or 0)
    return found


def constant(node: ast.expr, scope: Scope, tree: ast.Module) -> int | None:
    """The whole number that an expression is: written there, a default, a constant of the module, a command line's."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        for function in (scope.inner, scope.function):
            if function is not None and node.id in (defaults := default_values(function)):
                return constant(defaults[node.id], Scope(0), tree)
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and any(_is(t, node.id) for t in statement.targets):
                return constant(statement.value, Scope(0), ast.Module([], []))
    if isinstance(node, ast.Attribute):
        return _argument(node.attr, tree)
    return None


def _argument(name: str, tree: ast.Module) -> int | None:
    """The default of `--name` where the file adds it to a command line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if any(n.lstrip("-").replace("-", "_") == name for n in names):
                for keyword in node.keywords:
                    if keyword.arg == "default" and isinstance(keyword.value, ast.Constant):
                        value = keyword.value.value
                        return value if isinstance(value, int) else None
    return None


def default_values(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = dict(
        zip([a.arg for a in positional[len(positional) - len(args.defaults) :]], args.defaults, strict=True)
    )
    defaults.update(
        {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    )
    return defaults


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
