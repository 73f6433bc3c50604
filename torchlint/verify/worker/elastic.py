"""Makes code elastic: where a step fails only because a stand-in does not fit, something takes its result's place.

Every call, attribute, operator and subscript is handed to `standins/bridge.py`, which tries the real thing first.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Any

from .source import PROBE

#: These look at the frame that calls them.
_OF_THE_FRAME = frozenset(("super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"))
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg", ast.Invert: "invert",
}  # fmt: skip
_KEPT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def stretch(tree: ast.Module, *, skip: bool = True) -> ast.Module:
    """The tree, made elastic. `skip`: a statement of the module that fails is left out."""
    tree = Elastic().visit(tree)
    if skip:
        tree.body = [new for node in tree.body for new in _skippable(node)]
    return ast.fix_missing_locations(tree)


def unbound(tree: ast.AST) -> list[str]:
    """Names that the code uses and nowhere binds."""
    loaded: set[str] = set()
    bound = set(dir(builtins)) | {PROBE, "__file__", "__name__", "__class__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            bound.add(node.name or "")
        elif type(node).__name__ in ("MatchAs", "MatchStar"):
            bound.add(getattr(node, "name", None) or "")
    return sorted(loaded - bound)


def perhaps_unbound(tree: ast.Module) -> list[str]:
    """Names that the module binds in branches and loops alone."""
    surely: set[str] = set()
    perhaps: set[str] = set()
    for node in tree.body:
        names = set(_own_names(node))
        if isinstance(node, (ast.If, ast.For, ast.While, ast.Try)):
            perhaps |= names
        else:
            surely |= names
    return sorted(perhaps - surely)


class Elastic(ast.NodeTransformer):
    """Hands what may fail to the bridge. Annotations are left alone."""

    def visit_arguments(self, node: ast.arguments) -> Any:
        node.defaults = [self.visit(d) for d in node.defaults]
        node.kw_defaults = [d and self.visit(d) for d in node.kw_defaults]
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        node.body = [new for statement in node.body for new in _listed(self.visit(statement))]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _OF_THE_FRAME:
            return node
        if isinstance(node.func, ast.Attribute) and _is_probe(node.func.value):
            node.args = [self.visit(a) for a in node.args]
            node.keywords = [self.visit(k) for k in node.keywords]
            return node
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = _at(keyword.value, "spread", keyword.value)
        return _at(node, "call", node.func, *node.args, keywords=node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if _is_probe(node.value):
            return node
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
            return node
        return _at(node, "attribute", node.value, ast.Constant(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        index = _as_expression(node.slice)
        if not isinstance(node.ctx, ast.Load) or index is None:
            return node
        return _at(node, "item", node.value, index)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return _at(node, "operate", ast.Constant(_OPERATORS[type(node.op)]), node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = _at(node.operand, "truth", node.operand)
            return node
        name = _OPERATORS.get(type(node.op))
        return node if name is None else _at(node, "operate", ast.Constant(name), node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        node.values = [_at(v, "decided", v) for v in node.values[:-1]] + node.values[-1:]
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        name = _OPERATORS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if name is None:
            return node
        return _at(node, "operate", ast.Constant(name), node.left, node.comparators[0])

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node.value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            return node
        name = "i" + _OPERATORS[type(node.op)].strip("_")
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = _at(node, "operate", ast.Constant(name), before, node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        shape = _shape(node.targets[0])
        if shape is not None:
            node.value = _at(node.value, "unpack", node.value, shape)
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        wrapped = node.iter
        if (
            isinstance(wrapped, ast.Call)
            and isinstance(wrapped.func, ast.Attribute)
            and _is_probe(wrapped.func.value)
        ):
            wrapped.args[-1] = _at(node.iter, "items", wrapped.args[-1], _names(node.target))
        else:
            node.iter = _at(node.iter, "items", node.iter, _names(node.target))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _at(node.iter, "items", node.iter, _names(node.target), ast.Constant(False))
        node.ifs = [_at(test, "truth", test) for test in node.ifs]
        return node

    def visit_If(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _at(node.test, "truth", node.test)
        return node

    visit_IfExp = visit_While = visit_If

    def visit_Assert(self, node: ast.Assert) -> Any:
        test = self.visit(node.test)
        return ast.copy_location(ast.Expr(_at(node, "truth", test)), node)


def _skippable(node: ast.stmt) -> Iterator[ast.stmt]:
    """A statement of the module, left out if it fails; its names are then unknown."""
    plain = isinstance(node, _KEPT) and not node.decorator_list
    if plain or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
        yield node
        return
    if isinstance(node, ast.If):
        node.body = [new for part in node.body for new in _skippable(part)]
        node.orelse = [new for part in node.orelse for new in _skippable(part)]
    names = sorted({*_own_names(node)})
    namespace = ast.Call(ast.Name("globals", ast.Load()), [], [])
    listed = ast.Tuple([ast.Constant(n) for n in names], ast.Load())
    left_out = ast.Expr(_call("skipped", ast.Constant(node.lineno), namespace, listed))
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [left_out])
    statement = ast.Try([node], [handler], [], [])
    ast.copy_location(statement, node)
    yield statement


def _own_names(node: ast.AST) -> Iterator[str]:
    """Names that a statement binds, not those inside of functions and comprehensions."""
    if isinstance(node, _KEPT):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (a.asname or a.name.partition(".")[0] for a in node.names)
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _own_names(child)


def _shape(target: ast.expr) -> ast.expr | None:
    """The names of an unpacking target, nested as it is; None where nothing of known length is unpacked."""
    if not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    return _names(target)


def _names(target: ast.expr) -> ast.expr:
    if isinstance(target, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in target.elts):
        return ast.Tuple([_names(e) for e in target.elts], ast.Load())
    if isinstance(target, ast.Name):
        return ast.Constant(target.id)
    return ast.Constant(target.attr if isinstance(target, ast.Attribute) else "")


def _as_expression(index: ast.expr) -> ast.expr | None:
    """An index that can be handed on as a value; None where it can't."""
    if isinstance(index, ast.Slice):
        parts = [p or ast.Constant(None) for p in (index.lower, index.upper, index.step)]
        return ast.Call(ast.Name("slice", ast.Load()), parts, [])
    if isinstance(index, ast.Tuple):
        if any(isinstance(e, ast.Starred) for e in index.elts):
            return None
        return ast.Tuple([_as_expression(e) or e for e in index.elts], ast.Load())
    return index


def _is_probe(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == PROBE


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    bridge = ast.Attribute(ast.Name(PROBE, ast.Load()), "bridge", ast.Load())
    return ast.Call(ast.Attribute(bridge, method, ast.Load()), list(arguments), [])


def _at(old: ast.AST, method: str, *arguments: ast.expr, keywords: list[ast.keyword] | None = None) -> Any:
    """A call of the bridge where an old node stands; what else is new in it gets its place in the end."""
    call = _call(method, *arguments)
    call.keywords = keywords or []
    ast.copy_location(call, old)
    return call


def _listed(new: Any) -> list[Any]:
    return new if isinstance(new, list) else [new]
