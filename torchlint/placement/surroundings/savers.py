"""Where the tensors are that a project saves, told from all of its files."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator

#: What torch is called; `th` by custom.
_OF_TORCH = ("torch", "th")
_SAVES = re.compile(rf"\b(?:{'|'.join(_OF_TORCH)})\.save\(")
#: What is on the CPU: a move there, or a load that is mapped there.
_ON_HOST = re.compile(r"""\.cpu\(\)|(?:\.to\(|map_location=|\bload\([^()]*,)\s*(?:torch\.device\()?["']cpu["']""")
_TABLE = re.compile(r"(?:vocab|vocabulary|dictionary|tokenizer)$")
_OFFLOADS = re.compile(r"offload_to_cpu\s*=\s*True|cpu_offload\s*=\s*True")
#: How many assignments what is saved is followed through.
_MOST_HOPS = 4


class Savers:
    """The functions of a project that save, and whether what each saves was brought to the CPU first."""

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        #: By file: the name of each function that saves, empty for the file's own code, and whether from the CPU.
        self._found: dict[str, list[tuple[str, bool]]] = {}
        #: The files of those that train.
        self._training: set[str] = set()
        for file, data in files:
            text = data.decode("utf-8", "replace") if b".save(" in data else ""
            if file.endswith(".py") and _SAVES.search(text) is not None:
                found = [(getattr(scope, "name", ""), _saves_from_host(text, scope)) for scope in _saving(text)]
                if found:
                    self._found[file] = found
                    if ".backward(" in text:
                        self._training.add(file)

    def save_from_host(self, path: str, reader: str) -> bool:
        """Whether all that saves in a file does so from the CPU; where nothing does, what trains beside it, or most.

        reader: the function that asks for what it reads; what it saves of that tells nothing.
        """
        own = [known for name, known in self._found.get(os.path.realpath(path), ()) if name != reader]
        if own:
            return all(own)
        folder = os.path.dirname(os.path.realpath(path))
        trainers = [file for file in self._training if os.path.dirname(file) == folder]
        beside = [known for file in trainers for _, known in self._found[file]]
        if beside and all(beside):
            return True
        found = [known for of_file in self._found.values() for _, known in of_file]
        return bool(found) and sum(found) * 2 > len(found)


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
    parts: list[ast.expr] = [saved]
    names = _names(saved)
    for _ in range(_MOST_HOPS):
        if any(_ON_HOST.search(ast.unparse(part)) for part in parts):
            return True
        parts = [value for targets, value in making if targets & names]
        names = names.union(*map(_names, parts))
    return False


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
