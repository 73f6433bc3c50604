"""How often a project runs what one of its classes computes, told from all of its files: never, or only now and then.

A text search finds the files that name the class or what holds an object of it; only those are read, with `ast`. What
is not understood (the class is inherited from, listed, handed on) says nothing, and so silences nothing.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from torchlint.placement.surroundings.texts import LARGEST_FILE, SOURCES, Texts, is_test

#: Methods of a Module that compute nothing.
_KEEPING = frozenset(
    "parameters named_parameters to cuda cpu half float double train eval state_dict load_state_dict requires_grad_"
    " zero_grad apply modules named_modules buffers".split()
)


def how_often(texts: Texts, path: str, name: str) -> str:
    """`never` or `seldom`, where all that a project does with objects of a class says so; else empty."""
    if not texts.complete or not texts.holds(path):
        return ""
    made = _search(texts, name, _Makers)
    if made is None:
        return ""
    holders, calls, unnamed = made
    for holder in holders:
        used = _search(texts, holder, _Callers)
        if used is None:
            return ""
        calls = calls + used[1]
    if calls:
        return "seldom" if all(calls) else ""
    if holders:
        return "" if unnamed else "never"
    return "" if texts.installed else "never"


#: How the parts of a Module are called without their names.
_UNNAMED = re.compile(rb"\bgetattr\(|children\(|\b_modules\b|Sequential\)|\bModuleDict\b|\bforward_pre|\bsetattr\(")


def _search(texts: Texts, word: str, kind: type[_Makers]) -> tuple[set[str], list[bool], bool] | None:
    """What files say of a word; None where that is open.

    Who holds objects, for each call whether it is seldom, and whether a holder's parts may be called without a name.
    """
    holders: set[str] = set()
    calls: list[bool] = []
    unnamed = False
    for file, data in texts.naming(word):
        if is_test(file, texts.root):
            continue
        if not file.endswith(SOURCES) or len(data) >= LARGEST_FILE:
            return None
        read = _mentions(data)
        if read is None:
            return None
        seen = kind(word, read)
        if seen.escapes:
            return None
        holders |= seen.holders
        calls += seen.calls
        unnamed |= bool(seen.holders) and _UNNAMED.search(data) is not None
    return holders, calls, unnamed


class _Mentions(NamedTuple):
    """Where a file names what: nodes by the word, each with what stands around it, outermost first.

    periodic: names of conditions that are true now and then.
    """

    words: dict[str, list[tuple[ast.AST, tuple[ast.AST, ...]]]]
    periodic: frozenset[str]


@lru_cache(maxsize=16)  # a file's classes are asked for one after the other
def _mentions(data: bytes) -> _Mentions | None:
    try:
        pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(ast.parse(data), ())]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    words: dict[str, list[tuple[ast.AST, tuple[ast.AST, ...]]]] = {}
    periodic = set()
    while pending:
        node, above = pending.pop()
        word = _word_of(node)
        if word is not None:
            words.setdefault(word, []).append((node, above))
        if isinstance(node, ast.Assign) and _counts(node.value):
            periodic |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        pending += [(child, (*above, node)) for child in ast.iter_child_nodes(node)]
    return _Mentions(words, frozenset(periodic))


def _word_of(node: ast.AST) -> str | None:
    """The word that a node reads, or stands for: a name, a text that may be one, an import under another name."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return node.value
    if isinstance(node, ast.alias) and node.asname not in (None, node.name):
        return node.name.rpartition(".")[2]
    return node.name if isinstance(node, ast.ClassDef) and node.decorator_list else None


class _Makers:
    """What a file does with a class: what holds its objects, and whether they are called."""

    def __init__(self, word: str, read: _Mentions) -> None:
        self.holders: set[str] = set()
        #: For each call, whether it is made only now and then.
        self.calls: list[bool] = []
        self.escapes = False
        self._above: tuple[ast.AST, ...] = ()
        self._periodic = read.periodic
        for node, self._above in read.words.get(word, ()):
            if isinstance(node, ast.Name | ast.Attribute):
                self.judge(node)
            elif not (isinstance(node, ast.Constant) and self._is_exported()):
                self.escapes = True  # named by a text, or registered by a decorator, or imported as something else

    def judge(self, node: ast.expr) -> None:
        """One use of the class."""
        if self._is_annotation(node) or self._is_given_to("super", "isinstance"):
            return
        position = len(self._above) - 1
        above = self._above[position]
        if isinstance(above, ast.Attribute) and above.attr == "apply":  # of an autograd Function
            node, position = above, position - 1
            above = self._above[position]
            if isinstance(above, ast.Call) and above.func is node:
                self.calls.append(self.is_seldom())
                return
        elif isinstance(above, ast.Call) and above.func is node:
            node, position = above, position - 1
        else:
            self.escapes = True
            return
        self._hold(node, position)

    def _hold(self, node: ast.AST, position: int) -> None:
        """What an object is bound to, behind what moves it; or it is called where it is made."""
        while isinstance(self._above[position], ast.Attribute | ast.Call | ast.IfExp):
            above = self._above[position]
            if isinstance(above, ast.Call) and above.func is not node:
                self.escapes = True
                return
            if isinstance(above, ast.Call) and isinstance(node, ast.Call):
                self.calls.append(self.is_seldom())
                return
            if isinstance(above, ast.Attribute) and above.attr not in _KEEPING:
                self.escapes = True
                return
            node, position = above, position - 1
        statement = self._above[position]
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign) and statement.value is node:
            targets = [statement.target]
        for target in targets:
            if isinstance(target, ast.Name | ast.Attribute):
                self.holders.add(target.id if isinstance(target, ast.Name) else target.attr)
            else:
                self.escapes = True
        self.escapes |= not targets

    def is_seldom(self) -> bool:
        """Whether what is above says that this runs only now and then."""
        for above, below in pairwise(self._above):
            if isinstance(above, ast.If | ast.IfExp):
                body = above.body if isinstance(above.body, list) else [above.body]
                if below in body and self._is_periodic(above.test):
                    return True
        return False

    def _is_periodic(self, test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(map(self._is_periodic, test.values))
        return _counts(test) or (isinstance(test, ast.Name) and test.id in self._periodic)

    def _is_exported(self) -> bool:
        """Whether a text stands in `__all__`, or is a docstring."""
        for above in self._above:
            if isinstance(above, ast.Assign | ast.AugAssign):
                targets = above.targets if isinstance(above, ast.Assign) else [above.target]
                return any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets)
        return bool(self._above) and isinstance(self._above[-1], ast.Expr)

    def _is_given_to(self, *names: str) -> bool:
        above = self._above[-1]
        return isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in names

    def _is_annotation(self, node: ast.AST) -> bool:
        for above in reversed(self._above):
            if isinstance(above, ast.arg):
                return True
            if isinstance(above, ast.AnnAssign):
                return above.annotation is node
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return above.returns is node
            if isinstance(above, ast.stmt):
                return False
            node = above
        return False


#: Where a value is asked whether there is one.
_ASKING = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.If)


class _Callers(_Makers):
    """What a file does with what is called like the holder of an object."""

    def judge(self, node: ast.expr) -> None:
        above = self._above[-1]
        called = isinstance(above, ast.Call) and above.func is node
        if called or (isinstance(above, ast.Attribute) and above.attr == "forward"):
            self.calls.append(self.is_seldom())
        elif isinstance(above, ast.Attribute) and above.attr in _KEEPING:
            pass
        elif not (isinstance(above, _ASKING) or self._is_given_to("isinstance") or self._is_annotation(node)):
            self.escapes = True


def _counts(test: ast.expr) -> bool:
    """`step % n == 0`, alone or among what has to hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_counts, test.values))
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.BinOp)
        and isinstance(test.left.op, ast.Mod)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq)
    )
