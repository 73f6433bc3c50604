"""How often a project runs what one of its classes computes, told from all of its files: never, or only now and then.

A text search finds the files that name the class or what holds an object of it; only those are read, with `ast`. What
is not understood (the class is inherited from, listed, handed on) says nothing, and so silences nothing.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

#: What marks the top of a project, and of one that others install.
MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
_INSTALLED = ("pyproject.toml", "setup.py", "setup.cfg")
_MOST_LEVELS = 10
#: Bytes of a project that are worth a search, and of a file.
_MOST_BYTES = 16_000_000
_LARGEST_FILE = 400_000
_SOURCES = (".py",)
#: Files that may name a class, and are not understood.
_OTHERS = (".ipynb", ".yaml", ".yml", ".json", ".toml", ".cfg", ".gin", ".sh")
_FOREIGN = frozenset(["node_modules", "site-packages", "build", "dist", "venv", "env", "__pycache__"])
#: Methods of a Module that compute nothing.
_KEEPING = frozenset(
    "parameters named_parameters to cuda cpu half float double train eval state_dict load_state_dict requires_grad_"
    " zero_grad apply modules named_modules buffers".split()
)
_TEST = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|conftest|[^/]*_test)\.py$")


class Texts:
    """The files of a project that may name one of its classes. One is read once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.installed = any(os.path.exists(os.path.join(root, marker)) for marker in _INSTALLED)
        self.size = 0
        #: The files that make an accelerator the default device, and what they hold.
        self.defaults: dict[str, bytes] = {}
        self._files: dict[str, bytes] = {}
        #: Whether there is more of it than is worth reading.
        self.complete = self._read()

    def _read(self) -> bool:
        for folder, names, files in os.walk(self.root):
            names[:] = [n for n in names if not n.startswith(".") and n not in _FOREIGN]
            for name in files:
                if not name.endswith((*_SOURCES, *_OTHERS)):
                    continue
                file = os.path.join(folder, name)
                try:
                    with open(file, "rb") as opened:
                        data = opened.read(_LARGEST_FILE)
                except OSError:
                    return False
                if _SETS_DEFAULT.search(data) is not None and not _is_test(file, self.root):
                    self.defaults[os.path.realpath(file)] = data
                self.size += len(data)
                if self.size > _MOST_BYTES:
                    self._files.clear()
                    return False
                self._files[os.path.realpath(file)] = data
        return True

    def naming(self, word: str) -> Iterator[tuple[str, bytes]]:
        """The files that hold a word, as it stands."""
        sought = word.encode()
        whole = re.compile(rb"(?<!\w)" + re.escape(sought) + rb"(?!\w)")
        for file, data in self._files.items():
            if sought in data and whole.search(data) is not None:
                yield file, data

    def sources(self) -> Iterator[bytes]:
        """What the files of code hold, those of tests left out."""
        top = os.path.realpath(self.root)
        for file, data in self._files.items():
            if file.endswith((*_SOURCES, ".ipynb")) and not _is_test(file, top):
                yield data

    def moves_attribute(self, name: str, path: str) -> bool:
        """Whether another file than that of `path` moves an attribute of some other object by this name."""
        sought = re.compile(rb"(?<!\bself)\." + re.escape(name.encode()) + rb"\.(?:to|cuda)\(")
        own = os.path.realpath(path)
        return any(file != own and sought.search(data) is not None for file, data in self._files.items())

    def holds(self, path: str) -> bool:
        """Whether a file is one of these."""
        return os.path.realpath(path) in self._files


#: A statement that makes an accelerator the default device, unless it only says that it is the CPU.
_SETS_DEFAULT = re.compile(
    rb"^[ \t\"]*(?:(?:if|else)\b[^:\n]*:[ \t]*)?(?:\w+\.)*"
    rb"set_default_(?:device\((?!\s*(?:device\s*=\s*)?(?:\w+\.device\(\s*)?\\?[\"']cpu)|tensor_type\([^)]*cuda)",
    re.MULTILINE,
)


def _is_test(file: str, root: str) -> bool:
    return _TEST.search(os.path.relpath(file, root).replace("\\", "/")) is not None


def has_default_device(texts: Texts, path: str) -> bool:
    """Whether a program of the project makes an accelerator the default device: that may be how all of it runs.

    So does what is no program, for the files beside it and those of the package that it imports.
    """
    own = os.path.realpath(path)
    parts = os.path.relpath(own, os.path.realpath(texts.root)).replace("\\", "/").split("/")
    package = parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0].removesuffix(".py")
    imports = re.compile(rb"^[ \t]*(?:import|from)[ \t]+" + re.escape(package.encode()) + rb"\b", re.MULTILINE)
    return any(
        file != own
        and (os.path.dirname(file) == os.path.dirname(own) or _runs(file, data) or imports.search(data) is not None)
        for file, data in texts.defaults.items()
    )


def sets_default_device(source: bytes) -> bool:
    """Whether a file makes an accelerator the default device."""
    return _SETS_DEFAULT.search(source) is not None


def _runs(file: str, data: bytes) -> bool:
    """Whether a file is run by itself: it says so, or is part of no package."""
    alone = not os.path.exists(os.path.join(os.path.dirname(file), "__init__.py"))
    return alone or _IS_PROGRAM.search(data) is not None


#: What speaks of devices, or of what places models and batches by itself.
_OF_DEVICES = re.compile(
    rb"cuda|device|\.to\(|gpu|\b(?:mps|xpu|npu|hpu|tpu)\b|accelerat|lightning|\bpl\.|Trainer|[Ff]abric|deepspeed",
    re.IGNORECASE,
)
_IS_PROGRAM = re.compile(rb"^if __name__ ==", re.MULTILINE)


def is_importable(path: str) -> bool:
    """Whether an import can name a file: `01_net.py` and `net-1.py` are run, and never imported."""
    return os.path.basename(path).partition(".")[0].isidentifier()


def stay_on_host(texts: Iterable[bytes], path: str) -> bool:
    """Whether a folder holds programs that train and all that they are made of, and none of it speaks of a device.

    texts: what its modules hold. A package is used by others, which may. What no import can name runs by itself.
    """
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(path)), "__init__.py")):
        return False
    held = list(texts)
    programs = any(_IS_PROGRAM.search(text) for text in held) and any(b".backward(" in text for text in held)
    alone = bool(held) and not is_importable(path)
    return (programs or alone) and not any(_OF_DEVICES.search(text) for text in held)


def root_of(path: str) -> str | None:
    """The top folder of the project that a file is part of; None where nothing marks one."""
    folder = os.path.dirname(os.path.abspath(path))
    found = None
    for _ in range(_MOST_LEVELS):
        if any(os.path.exists(os.path.join(folder, marker)) for marker in MARKERS):
            found = folder
            if os.path.exists(os.path.join(folder, ".git")):
                break
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return found


def fingerprint(root: str) -> bytes:
    """What changes with any file of a project: their names, sizes and times."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith(".") and n not in _FOREIGN]
        for name in files:
            if name.endswith((*_SOURCES, *_OTHERS)):
                file = os.path.join(folder, name)
                try:
                    status = os.stat(file)
                except OSError:
                    continue
                found.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(sorted(found)).encode("utf-8", "surrogateescape")


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
        if _is_test(file, texts.root):
            continue
        if not file.endswith(_SOURCES) or len(data) >= _LARGEST_FILE:
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
