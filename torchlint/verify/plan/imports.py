"""The modules that a file imports: its own project's as text, all others by name."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.verify.guard.policy import HARMLESS
from torchlint.verify.protocol import Module

#: Modules of a project that one replay carries at most, and how large each may be (bytes).
_MOST = 40
_LARGEST = 400_000


@dataclass(frozen=True)
class Imports:
    """text: the file's own, relative imports made absolute. modules: the project's. missing: all others, by name."""

    text: str
    modules: tuple[Module, ...]
    missing: tuple[str, ...]


def follow(text: str, file: Path, root: Path) -> Imports:
    """What a file imports, and what that imports. root: no module is looked for above it."""
    found: dict[str, Module] = {}
    missing: set[str] = set()
    package = _package(file, root)
    own = _absolute(text, package)
    waiting = [own]
    while waiting and len(found) < _MOST:
        source = waiting.pop(0)
        for name, certain in _imported(source):
            if name in found or name in missing or name.partition(".")[0] in HARMLESS | {"torch"}:
                continue
            path = _locate(name, file, root)
            if path is None:
                if certain:
                    missing.add(name)
            elif path.is_file() and path.stat().st_size <= _LARGEST:
                module = _read(name, path)
                if module is None:
                    missing.add(name)
                    continue
                inner = name if module.package else name.rpartition(".")[0]
                module = replace(module, source=_absolute(module.source, inner))
                found[name] = module
                waiting.append(module.source)
    missing -= {n for n in missing if any(f == n or f.startswith(n + ".") for f in found)}
    missing = {
        n
        for n in missing
        if not (n.partition(".")[0] in {f.partition(".")[0] for f in found} and "." not in n)
    }
    return Imports(own, tuple(found.values()), tuple(sorted(missing)))


def _imported(source: str) -> Iterator[tuple[str, bool]]:
    """Names that a text imports, packages before what is in them, and whether they are modules for certain."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            parts = name.split(".")
            yield from ((".".join(parts[:end]), True) for end in range(1, len(parts) + 1))
        if names and isinstance(node, ast.ImportFrom):
            # What is imported from a module may be one itself; only a file can tell.
            yield from ((f"{names[0]}.{alias.name}", False) for alias in node.names if alias.name != "*")


def _locate(name: str, file: Path, root: Path) -> Path | None:
    """The file of a module of the project, looked for beside the file and in the folders above it."""
    parts = name.split(".")
    folder = file.parent
    while True:
        base = folder.joinpath(*parts)
        for candidate in (base.with_suffix(".py"), base / "__init__.py"):
            if candidate.is_file() and candidate != file:
                return candidate
        if folder in (root, folder.parent):
            return None
        folder = folder.parent


def _read(name: str, path: Path) -> Module | None:
    try:
        source = path.read_text(encoding="utf-8")
        ast.parse(source)
    except (OSError, UnicodeError, SyntaxError, ValueError):
        return None
    shown = os.path.relpath(path)
    return Module(
        name, source, shown if not shown.startswith("..") else str(path), package=path.name == "__init__.py"
    )


def _package(file: Path, root: Path) -> str:
    """The package that a file belongs to: its folders that are packages."""
    parts: list[str] = []
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder != root.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def _absolute(text: str, package: str) -> str:
    """The text with its relative imports made absolute, line by line as it was."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".")[: max(0, len(package.split(".")) - node.level + 1)]
            module = ".".join(p for p in [*base, node.module or ""] if p) or "__main__"
            line = lines[node.lineno - 1]
            head, dots, tail = line.partition("from ")
            rest = tail.lstrip()[node.level :].lstrip() if tail.lstrip().startswith(".") else tail
            rest = (
                rest[len(node.module) :]
                if node.module and rest.startswith(node.module)
                else f" {rest.lstrip()}"
            )
            lines[node.lineno - 1] = f"{head}{dots}{module}{rest}"
    return "".join(lines)
