"""From a finding to pieces that can be run: its function with stand-ins for what a caller hands in, then its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torchlint.verify.guard.policy import FRAMEWORKS
from torchlint.verify.plan.imports import Imports, follow
from torchlint.verify.plan.kinds import parameters
from torchlint.verify.plan.scope import Scope, around, default_values, interval
from torchlint.verify.probes import Ask, Site
from torchlint.verify.protocol import Limits, Loop, Request

#: Calls of a function that has no loop around the line; and of loops other than that, iterations at most.
_CALLS = 3
_CAP = 3
#: What a launcher tells each of its processes.
_ENVIRONMENT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


@dataclass(frozen=True)
class Piece:
    """Something to run. how: what it is, in words. stage: see `worker/__init__.py`. main: run as a script. real: on the
    accelerator of this machine. alone: of the file, nothing but its imports and the statement of the finding.
    """

    how: str
    stage: dict[str, Any]
    main: bool = False
    real: bool = False
    alone: bool = False


class Source:
    """A file whose findings are replayed. text: as findings count its lines. root: of its project."""

    def __init__(self, text: str, path: str, root: Path) -> None:
        self.text, self.path, self._root = text, path, root

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree; None where this Python can't read the file."""
        try:
            return ast.parse(self.imports.text)
        except (SyntaxError, ValueError, RecursionError):
            return None

    @cached_property
    def imports(self) -> Imports:
        return follow(self.text, Path(self.path).resolve(), self._root)

    def scope(self, line: int) -> Scope:
        assert self.tree is not None
        return around(self.tree, line)

    def pieces(self, site: Site) -> Iterator[Piece]:
        """What to try, in this order."""
        assert self.tree is not None
        scope = self.scope(site.line)
        yield from _calls(self.tree, scope, site)
        if _runs_by_itself(self.tree) or scope.function is None:
            yield Piece("the file was run as a script", {}, main=True)

    def statement(self, site: Site) -> Iterator[Piece]:
        """The statement alone, for what can be told from it: where no test of devices stands around it."""
        tests = " ".join(map(ast.unparse, self.scope(site.line).tests))
        if not re.search(r"cuda|available|device|accelerator|mps|xpu", tests):
            yield Piece("the statement was run alone", {}, main=True, alone=True)

    def request(self, piece: Piece, ask: Ask, site: Site) -> Request:
        """The replay of a piece that answers what a probe asks."""
        text = self.imports.text
        if piece.alone:
            text = alone(self.imports.text, site)
        if ask.substitute == "device":
            text = substituted(text, site)
        elif ask.substitute == "host":
            text = _on_lines(text, site.lines, lambda line: line.replace(".cpu()", ""))
        missing = list(self.imports.missing)
        tops = {name.partition(".")[0] for name in missing} - FRAMEWORKS
        assert self.tree is not None
        stage = {**piece.stage, "missing": missing, "lines": [*site.lines], "words": _words(self.tree)}
        scope = self.scope(site.line)
        loops = _loops(scope, ask, piece)
        if not loops:
            stage.setdefault("calls", max(_CALLS, min(ask.iterations, 12)))
            stage["count"] = True
        count = text.count("\n") + 1
        return Request(
            source=text,
            path=self.path,
            lines={n: n for n in range(1, count + 1)},
            device=ask.device,
            modules=self.imports.modules,
            imports=tuple(sorted(tops)),
            loops=loops,
            cap=_CAP,
            watch=ask.watch,
            precision=ask.precision,
            underflow=ask.underflow,
            name="__main__" if piece.main else "replayed",
            limits=Limits(wall=8.0, cpu=8.0),
            environment=_ENVIRONMENT,
            stage=stage,
            lenient=True,
        )


def _loops(scope: Scope, ask: Ask, piece: Piece) -> tuple[Loop, ...]:
    """The loop whose iterations count: the innermost around the line."""
    loop = scope.loop
    if loop is None:
        return ()
    return (Loop("hot", loop.lineno, iterations=ask.iterations, graph=ask.graph),)


def substituted(text: str, site: Site) -> str:
    """The text with `cpu` in place of the accelerators that the lines of a finding name."""
    return _on_lines(text, {*site.lines, *site.also.get("also", ())}, _on_cpu)


def alone(text: str, site: Site) -> str:
    """The imports of a text and the statement of the finding, on their lines; all else is left out."""
    rows = text.splitlines()
    kept = [""] * len(rows)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node in tree.body:
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                kept[number - 1] = rows[number - 1]
    here = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and node.lineno <= site.line <= (node.end_lineno or 0)
    ]
    for node in here[-1:]:
        part = node.value if isinstance(node, ast.Return) and node.value is not None else node
        segment = (ast.get_source_segment(text, part) or "").split("\n")
        kept[part.lineno - 1 : part.lineno - 1 + len(segment)] = segment
    return "\n".join(kept) + "\n"


def _on_lines(text: str, numbers: Iterable[int], change: Callable[[str], str]) -> str:
    lines = text.splitlines(keepends=True)
    for number in numbers:
        if 0 < number <= len(lines):
            lines[number - 1] = change(lines[number - 1])
    return "".join(lines)


def _on_cpu(line: str) -> str:
    """A line that names no accelerator any more."""
    line = re.sub(r"torch\.cuda\.amp\.autocast\(", 'torch.amp.autocast("cpu", ', line)
    line = re.sub(r"torch\.cuda\.amp\.GradScaler\(", 'torch.amp.GradScaler("cpu", ', line)
    line = re.sub(r"torch\.cuda\.(\w+Tensor)\b", r"torch.\1", line)
    line = re.sub(r"(['\"])(?:cuda|mps|xpu)(?::\d+)?\1", r"\1cpu\1", line)
    return re.sub(r"\.(?:cuda|xpu)\((?:[^()]*)\)", ".cpu()", line)


# ---- calls -------------------------------------------------------------------------------------------------


def _calls(tree: ast.Module, scope: Scope, site: Site) -> Iterator[Piece]:
    """Calls of the function around the line, or, where it is the module's, of functions that use what it binds."""
    if scope.function is not None:
        yield from _call(tree, scope.function, scope.classes, scope, site)
        return
    if scope.classes or scope.loop is not None:
        return
    names = _bound_at(tree, site.line)
    for function, classes in _functions(tree):
        if names & {
            n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }:
            yield from _call(tree, function, classes, scope, site)
            return


def _call(
    tree: ast.Module, function: ast.FunctionDef, classes: tuple[ast.ClassDef, ...], scope: Scope, site: Site
) -> Iterator[Piece]:
    decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in function.decorator_list}
    if isinstance(function, ast.AsyncFunctionDef) or "property" in decorators:
        return
    if any(map(_skips, [*function.decorator_list, *(d for c in classes for d in c.decorator_list)])):
        return
    method = bool(classes) and "staticmethod" not in decorators
    stage: dict[str, Any] = {"call": [*(c.name for c in classes), function.name]}
    given = _numbers(function, scope, tree)
    init = next((i for c in classes[-1:] for i in _inits(c, tree)), None) if classes else None
    if init is not None:
        stage["init"] = parameters(init, method=True, number=True, tree=tree)
    if function.name != "__init__":
        stage["parameters"] = parameters(function, method=method, given=given, tree=tree)
    stage["batches_on_device"] = not _moves(function)
    where = ".".join(stage["call"])
    yield Piece(f"`{where}` was called with stand-ins", stage)
    if any(_is_zero(n) for t in scope.tests for n in ast.walk(t)):
        empty = [(n, k, h, (0, 8) if k == "tensor" else d) for n, k, h, d in stage.get("parameters", ())]
        yield Piece(f"`{where}` was called with empty tensors", {**stage, "parameters": empty})
    words = [p for p in stage.get("parameters", ()) if p[1] == "str" and p[3] is not None]
    if words:
        other = [(n, k, h, None if k == "str" else d) for n, k, h, d in stage["parameters"]]
        yield Piece(
            f"`{where}` was called with stand-ins, and another word for `{words[0][0]}`",
            {**stage, "parameters": other},
        )
    optional = [a for a in default_values(function) if _is_none(default_values(function)[a])]
    if optional and function.name != "__init__":
        full = _with_optional(function, method)
        yield Piece(
            f"`{where}` was called with stand-ins, for optional arguments, too", {**stage, "parameters": full}
        )


def _with_optional(function: ast.FunctionDef, method: bool) -> list[Any]:
    """All parameters, those that are None by default as well."""
    bare = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(bare, ast.FunctionDef)
    values = default_values(bare)
    positional = [*bare.args.posonlyargs, *bare.args.args]
    first = next(
        (i for i, a in enumerate(positional) if a.arg in values and not _is_none(values[a.arg])),
        len(positional),
    )
    names = {a.arg for a in positional[:first]}
    bare.args.args = [a for a in bare.args.args if a.arg in names]
    bare.args.defaults = []
    bare.args.kw_defaults = [None if d is not None and _is_none(d) else d for d in bare.args.kw_defaults]
    return parameters(bare, method=method)


def _numbers(function: ast.FunctionDef, scope: Scope, tree: ast.Module) -> dict[str, int]:
    """A short interval for `step % n` where n is the caller's."""
    if interval(scope, tree) == 0:
        names = {
            n.right.id
            for t in scope.tests
            for n in ast.walk(t)
            if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) and isinstance(n.right, ast.Name)
        }
        return {name: 5 for name in names if name in {a.arg for a in function.args.args}}
    return {}


def _inits(cls: ast.ClassDef, tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The constructors of a class and of its bases in the file, nearest first."""
    yield from (n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    bases = {b.id for b in cls.bases if isinstance(b, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in bases:
            yield from _inits(node, tree)


def _moves(function: ast.FunctionDef) -> bool:
    """Whether a function moves anything, so that its batches come from elsewhere."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("to", "cuda", "to_device"):
            return True
    return False


def _bound_at(tree: ast.Module, line: int) -> set[str]:
    for node in tree.body:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, tuple[ast.ClassDef, ...]]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, ()
        elif isinstance(node, ast.ClassDef):
            yield from ((n, (node,)) for n in node.body if isinstance(n, ast.FunctionDef))


def _runs_by_itself(tree: ast.Module) -> bool:
    """Whether a file does something when it is run: calls at its end, loops, a guard for scripts."""
    return any(
        isinstance(n, (ast.If, ast.For, ast.While, ast.With))
        or (isinstance(n, ast.Expr) and isinstance(n.value, ast.Call))
        for n in tree.body
    )


def _words(tree: ast.Module) -> dict[str, str]:
    """Attributes that are compared with words, such as arguments of the command line, and the first of these."""
    words: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
            for part in node.comparators:
                listed = part.elts if isinstance(part, (ast.List, ast.Tuple, ast.Set)) else [part]
                for word in listed:
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        words.setdefault(node.left.attr, word.value)
    return words


def _skips(decorator: ast.expr) -> bool:
    """Whether a decorator keeps tests from running where they can't; unittest's is heeded when it is called."""
    text = ast.unparse(decorator)
    return (
        re.search(r"skip|require|mark\.|gpu|cuda", text, re.IGNORECASE) is not None and "unittest" not in text
    )


def _is_zero(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
