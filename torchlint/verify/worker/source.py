"""From the text of a request to code: probes put in, lines put back to where they are in the user's file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

#: The name by which the text reaches the worker's probes.
PROBE = "__torchlint__"


def compile_text(
    source: str,
    path: str,
    lines: Mapping[str, int] | None,
    loops: Sequence[Mapping[str, Any]] = (),
    watch: Sequence[Mapping[str, Any]] = (),
    stretch: Callable[[ast.Module], ast.Module] | None = None,
) -> tuple[CodeType, list[str]]:
    """Code with its probes, and the ids of probes that found no place. Raises SyntaxError.

    `stretch`: changes the tree once the probes are in it.
    """
    tree = ast.parse(source, path)
    probes = Instrumentation(source, loops, watch)
    tree = probes.apply(tree)
    if stretch is not None:
        tree = stretch(tree)
    _relocate(tree, lines)
    return compile(tree, path, "exec", dont_inherit=True), probes.unmatched


class Instrumentation(ast.NodeTransformer):
    """Puts the probes of a request into a tree: each calls a method of `__torchlint__` (see `probe.py`)."""

    def __init__(
        self, source: str, loops: Sequence[Mapping[str, Any]], watch: Sequence[Mapping[str, Any]]
    ) -> None:
        self._rows = source.splitlines()
        self._loops = {int(loop["line"]): loop for loop in loops}
        self._watch = list(watch)
        self._wrapped: dict[int, Mapping[str, Any]] = {}
        self._before: dict[int, list[Mapping[str, Any]]] = {}
        self._after: dict[int, list[Mapping[str, Any]]] = {}
        self._found: set[str] = set()
        self._capped = 0
        self.unmatched: list[str] = []

    def apply(self, tree: ast.Module) -> ast.Module:
        for watch in self._watch:
            if watch["what"] in ("call", "value"):
                self._find_expression(tree, watch)
            else:
                self._find_statement(tree, watch)
        tree = self.visit(tree)
        wanted = [str(item["id"]) for item in (*self._watch, *self._loops.values())]
        self.unmatched = [id for id in wanted if id not in self._found]
        return ast.fix_missing_locations(tree)

    # Finding places.

    def _find_expression(self, tree: ast.Module, watch: Mapping[str, Any]) -> None:
        found = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and self._matches(node, watch)]
        if found:
            node = min(found, key=lambda n: (n.col_offset, -(n.end_lineno or 0), -(n.end_col_offset or 0)))
            self._wrapped[id(node)] = watch
            self._found.add(str(watch["id"]))

    def _matches(self, node: ast.expr, watch: Mapping[str, Any]) -> bool:
        if node.lineno != watch["line"] or isinstance(node, (ast.Starred, ast.Slice, ast.JoinedStr)):
            return False
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return False
        if watch["what"] == "call" and not isinstance(node, ast.Call):
            return False
        column, text = watch.get("column"), watch.get("text")
        if column is not None and self._column(node) != column:
            return False
        return text is None or _normal(text) == ast.dump(node)

    def _column(self, node: ast.expr) -> int:
        """Of a node's start, in characters; `ast` counts bytes."""
        row = self._rows[node.lineno - 1].encode()
        return len(row[: node.col_offset].decode(errors="replace"))

    def _find_statement(self, tree: ast.Module, watch: Mapping[str, Any]) -> None:
        line = watch["line"]
        spans = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        if not spans:
            return
        # The innermost statement around the line; the outermost of those that begin on it.
        starting = [node for node in spans if node.lineno == line]
        node = min(starting, key=lambda n: n.col_offset) if starting else max(spans, key=lambda n: n.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return
        table = self._after if watch["what"] == "after" else self._before
        table.setdefault(id(node), []).append(watch)
        self._found.add(str(watch["id"]))

    # Putting probes in.

    def visit(self, node: ast.AST) -> Any:
        watch = self._wrapped.get(id(node))
        before, after = self._before.get(id(node), ()), self._after.get(id(node), ())
        changed = super().visit(node)
        if watch is not None:
            changed = self._wrap(changed, watch)
        if before or after:
            statements = changed if isinstance(changed, list) else [changed]
            changed = [*(_look(w, node) for w in before), *statements, *(_look(w, node) for w in after)]
        return changed

    def _wrap(self, node: ast.expr, watch: Mapping[str, Any]) -> ast.expr:
        if watch["what"] == "value":
            value: ast.expr = _located(_probe("value", ast.Constant(watch["id"]), node), node)
            return value
        assert isinstance(node, ast.Call)
        func = node.func
        if isinstance(func, ast.Attribute) and not _is_private(func.attr):
            head = [ast.Constant(watch["id"]), func.value, ast.Constant(func.attr)]
            call = _probe("method", *head, *node.args)
        else:
            call = _probe("function", ast.Constant(watch["id"]), func, *node.args)
        call.keywords = node.keywords
        located: ast.expr = _located(call, node)
        return located

    def visit_For(self, node: ast.For) -> Any:
        spec = self._spec(node)
        self.generic_visit(node)
        node.iter = _located(_probe("loop", ast.Constant(spec), node.iter), node.iter)
        return node

    def visit_While(self, node: ast.While) -> Any:
        spec = self._spec(node)
        self.generic_visit(node)
        stop = ast.If(_probe("tick", ast.Constant(spec)), [ast.Break()], [])
        enter = ast.Expr(_probe("enter", ast.Constant(spec)))
        leave = ast.Expr(_probe("leave", ast.Constant(spec)))
        node.body.insert(0, ast.fix_missing_locations(ast.copy_location(stop, node.test)))
        return [_located(enter, node), node, _located(leave, node)]

    def _spec(self, node: ast.stmt) -> str:
        """The id of a loop that the request names, or one of its own for any other."""
        loop = self._loops.get(node.lineno)
        if loop is not None and str(loop["id"]) not in self._found:
            self._found.add(str(loop["id"]))
            return str(loop["id"])
        self._capped += 1
        return f"~{self._capped}"


def _probe(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(PROBE, ast.Load()), method, ast.Load()), list(arguments), [])


def _located(new: Any, old: ast.AST) -> Any:
    """A new node, with all in it, where an old one stands."""
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _look(watch: Mapping[str, Any], node: ast.AST) -> ast.stmt:
    """A statement that looks at an expression, and at nothing else that may fail."""
    name = ast.Constant(watch["id"])
    if watch["what"] == "reach":
        return _located(ast.Expr(_probe("reach", name)), node)  # type: ignore[no-any-return]
    expression = ast.parse(watch["expression"], mode="eval").body
    look = ast.Expr(_probe("look", name, expression))
    missed = ast.Expr(_probe("missed", ast.Constant(watch["id"])))
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [missed])
    statement = ast.Try([look], [handler], [], [])
    for part in ast.walk(statement):
        if isinstance(part, (ast.expr, ast.stmt, ast.ExceptHandler)):
            ast.copy_location(part, node)
    return statement


def _normal(text: str) -> str:
    try:
        return ast.dump(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return text


def _is_private(name: str) -> bool:
    """Names that Python mangles inside of classes."""
    return name.startswith("__") and not name.endswith("__")


def _relocate(tree: ast.AST, lines: Mapping[str, int] | None) -> None:
    """Give every node the line it has in the user's file; 0 where it has none."""
    if lines is None:
        return
    table = {int(k): int(v) for k, v in lines.items()}
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt, ast.ExceptHandler, ast.arg, ast.keyword, ast.alias)):
            start, end = table.get(node.lineno, 0), table.get(node.end_lineno or 0, 0)
            if (end, node.end_col_offset or 0) < (start, node.col_offset):
                end, node.end_col_offset = start, node.col_offset
            node.lineno, node.end_lineno = start, end
        elif hasattr(node, "lineno"):
            # Patterns and type parameters, which Python 3.9 does not know.
            node.lineno = node.end_lineno = table.get(node.lineno, 0)  # type: ignore[attr-defined]
            node.end_col_offset = node.col_offset  # type: ignore[attr-defined]
