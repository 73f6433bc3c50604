"""Where the tensors are that a project saves, told from all of its files."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: What torch is called; `th` by custom.
_OF_TORCH = ("torch", "th")
_SAVES = re.compile(rf"\b(?:{'|'.join(_OF_TORCH)})\.save\(")
#: What is on the CPU: a move there, or a load that is mapped there.
_ON_HOST = re.compile(r"""\.cpu\(\)|(?:\.to\(|map_location=|\bload\([^()]*,)\s*(?:torch\.device\()?["']cpu["']""")
#: Words for the state of a network, and for what else a run keeps.
_NETWORK = re.compile(
    r"model|net(?:s|_|\b|work)|weight|encoder|decoder|critic|actor|policy|backbone|\bema|module",
    re.IGNORECASE,
)
_RUN = re.compile(r"optim|sched|resum|training", re.IGNORECASE)
_LOADS = re.compile(rf"\b(?:{'|'.join(_OF_TORCH)})\.load\(")
#: What speaks of devices, or of what moves models by itself.
_OF_DEVICES = re.compile(
    r"cuda|device|gpu|\.to\(|accelerat|lightning|deepspeed|distributed|\bmps\b|\bxpu\b|Trainer|from_pretrained",
    re.IGNORECASE,
)
#: How files are called that make weights of one framework those of another.
_CONVERTS = re.compile(r"convert|(?:_to_|2)(?:py)?torch", re.IGNORECASE)
_TABLE = re.compile(r"(?:vocab|vocabulary|dictionary|tokenizer)$")
_OFFLOADS = re.compile(r"offload_to_cpu\s*=\s*True|cpu_offload\s*=\s*True")
#: How many assignments what is saved is followed through.
_MOST_HOPS = 4
#: Within how many of them what is saved is called after what it is.
_FEW_HOPS = 3


@dataclass(frozen=True, slots=True)
class _Saver:
    """A function that saves, its name empty for the file's own code.

    from_host: it brings all of it to the CPU first. of_network: among it is the state of a network. rewrites: it makes
    that of what it reads itself, and trains nothing.
    """

    name: str
    from_host: bool
    of_network: bool
    rewrites: bool


class Savers:
    """The functions of a project that save, and whether what each saves was brought to the CPU first."""

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        #: By file.
        self._found: dict[str, list[_Saver]] = {}
        #: The files of those that train.
        self._training: set[str] = set()
        #: The files of those that speak of devices, or read what others saved.
        self._speaking: set[str] = set()
        for file, data in files:
            text = data.decode("utf-8", "replace") if b".save(" in data else ""
            if file.endswith(".py") and _SAVES.search(text) is not None:
                trains = ".backward(" in text
                found = [_saver(text, scope, trains) for scope in _saving(text)]
                if found:
                    self._found[file] = found
                    if trains:
                        self._training.add(file)
                    if _OF_DEVICES.search(text) is not None or _LOADS.search(text) is not None:
                        self._speaking.add(file)

    def save_from_host(self, path: str, reader: str, what: str = "") -> bool:
        """Whether all that saves in a file does so from the CPU; where nothing does, what trains beside it, or most.

        reader: the function that asks for what it reads; what it saves of that tells nothing. what: the path that it
        reads, in words; unless they tell of the state of a run, only what saves a network can have written it.
        """
        own = self._found.get(os.path.realpath(path), [])
        others = _that_wrote([saver for saver in own if saver.name != reader], what)
        if others:
            return all(saver.from_host for saver in others)
        folder = os.path.dirname(os.path.realpath(path))
        trainers = [file for file in self._training if os.path.dirname(file) == folder]
        beside = _that_wrote([saver for file in trainers for saver in self._found[file]], what)
        if beside and all(saver.from_host for saver in beside):
            return True
        if any(saver.rewrites for saver in own if saver.name == reader):
            return False  # what converts files gets them from anywhere
        found = _that_wrote([saver for of_file in self._found.values() for saver in of_file], what)
        if found and not self._training and all(map(self._converts_on_host, self._found)):
            return True  # nothing trains, and what saves takes the weights of other frameworks
        return bool(found) and sum(saver.from_host for saver in found) * 2 > len(found)

    def _converts_on_host(self, file: str) -> bool:
        """Whether a file is called after converting, reads nothing that torch saved, and never speaks of a device."""
        return file not in self._speaking and _CONVERTS.search("/".join(file.split(os.sep)[-2:])) is not None


def _that_wrote(savers: list[_Saver], what: str) -> list[_Saver]:
    """Those of some savers that may have written a file first, as far as that can be told."""
    first = [saver for saver in savers if not saver.rewrites] or savers
    return first if _RUN.search(what) else [saver for saver in first if saver.of_network] or first


def _saver(text: str, scope: ast.AST, trains: bool) -> _Saver:
    name = getattr(scope, "name", "")
    source = ast.get_source_segment(text, scope) or text
    rewrites = not trains and _LOADS.search(source) is not None and _RUN.search(source) is None
    making = list(_making(scope))
    saves_network = any(_is_of_network(value, making) for value in _saved(scope))
    return _Saver(name, _saves_from_host(text, scope), saves_network, rewrites)


def _is_of_network(saved: ast.expr, making: list[tuple[set[str], ast.expr]]) -> bool:
    """Whether what is saved is called after a network, or is a state that is not called after what else a run keeps."""
    if isinstance(saved, ast.Starred):
        return True  # anything
    near = itertools.islice(_made_of(saved, making), _FEW_HOPS)
    told = " ".join(ast.unparse(part) for parts in near for part in parts)
    return _NETWORK.search(told) is not None or ("state_dict(" in told and _RUN.search(told) is None)


def _saving(text: str) -> Iterator[ast.AST]:
    """The functions of a file that save, outermost ones, and the file's own code where that does."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    scopes: list[ast.AST] = [s for s in _definitions(tree) if any(_saved(s))]
    yield from scopes or ([tree] if any(_saved(tree)) else [])


def _definitions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _definitions(node)


def _saved(scope: ast.AST) -> Iterator[ast.expr]:
    """What `torch.save` gets in a scope."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            if node.func.attr == "save" and isinstance(node.func.value, ast.Name) and node.func.value.id in _OF_TORCH:
                yield node.args[0]


def _saves_from_host(text: str, scope: ast.AST) -> bool:
    """Whether all that a scope saves, or what that is made of there, is brought to the CPU."""
    if _OFFLOADS.search(ast.get_source_segment(text, scope) or ""):
        return True
    making = list(_making(scope))
    saved = list(_saved(scope))
    # A table of words holds no tensors.
    saved = [value for value in saved if _TABLE.search(ast.unparse(value)) is None] or saved
    return all(_is_on_host(value, making) for value in saved)


def _is_on_host(saved: ast.expr, making: list[tuple[set[str], ast.expr]]) -> bool:
    return any(_ON_HOST.search(ast.unparse(part)) for parts in _made_of(saved, making) for part in parts)


def _made_of(saved: ast.expr, making: list[tuple[set[str], ast.expr]]) -> Iterator[list[ast.expr]]:
    """What is saved, what that is made of, and so on."""
    parts: list[ast.expr] = [saved]
    names = _names(saved)
    for _ in range(_MOST_HOPS):
        yield parts
        parts = [value for targets, value in making if targets & names]
        names = names.union(*map(_names, parts))


def _making(scope: ast.AST) -> Iterator[tuple[set[str], ast.expr]]:
    """What gives a value to names: assignments, loops, and methods that change what they are called on."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            yield set().union(*(_bases(t) for t in node.targets)), node.value
        elif isinstance(node, ast.AugAssign | ast.For):
            yield _bases(node.target), node.value if isinstance(node, ast.AugAssign) else node.iter
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Attribute):
                yield _bases(node.value.func.value), node.value


def _bases(target: ast.expr) -> set[str]:
    """The names whose value a target is a part of."""
    if isinstance(target, ast.Tuple | ast.List):
        return set().union(*map(_bases, target.elts))
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred | ast.Call):
        target = target.func if isinstance(target, ast.Call) else target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _names(value: ast.expr) -> set[str]:
    """The names in an expression, but those of modules and of `self`."""
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - {"torch", "th", "os", "self", "args"}
