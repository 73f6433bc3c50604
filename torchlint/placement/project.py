"""First-party modules: what an import of the project's own code denotes, read when something asks for it.

A module that is imported is indexed with `ast`, which costs a tenth of a LibCST parse; a definition is parsed by
LibCST only when a name of it is looked up. Nothing of it emits events: they belong to the file that is checked.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from torchlint.placement.allowance import Allowance
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge.apis import api_value
from torchlint.placement.surroundings import Surroundings
from torchlint.placement.surroundings.texts import MARKERS
from torchlint.placement.values import Kind, Value

#: Larger files are data or generated; what they define stays unknown.
LARGEST_MODULE = 400_000
#: Lines of a definition that is too large to be worth it: the class of a trainer, say, takes longer to read than most
#: files that use it.
LARGEST_DEFINITION = 600
#: How many re-exports are followed.
MOST_HOPS = 6
#: Characters of source kept in memory, and of definitions kept as trees, which take two hundred times as much.
MOST_SOURCE = 3_000_000
MOST_PARSED = 900_000
#: A definition without any of these neither makes, moves nor waits for a tensor, and is not worth a parse.
_PLACEMENT = re.compile(r"torch|\.to\(|\.cuda\(|\.cpu\(|\.item\(|device|[Tt]ensor|\bnn\.|Module|numpy\(|_like\(")
#: Summaries of imported functions ask for those of functions that they import in turn, this deep.
MOST_NESTED_MODULES = 2
_MOST_LEVELS = 8


class Project:
    """The modules around the files that are checked. One serves many files of a process."""

    def __init__(self) -> None:
        self._modules: dict[str, _SourceModule | None] = {}
        self._roots: dict[str, tuple[str, ...]] = {}
        self._folders: dict[str, str] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        self._located: dict[tuple[str, str], tuple[str, list[str]] | None] = {}
        self._kept = self.parsed = 0
        #: Which files each file took something from, directly.
        self._uses: dict[str, set[str]] = {}
        #: What the other files of the project say of a file.
        self.surroundings = Surroundings(self._note_use)
        #: How many summaries of imported functions are being computed, one within the other.
        self.nesting = 0

    def resolve(self, name: str, path: str, hops: int = 0, allowance: Allowance | None = None) -> Value | None:
        """What a qualified name denotes, seen from the file at `path`; None if it is none of the project's.

        A relative name starts with dots, one for the package that holds the file. allowance: what may be read for it.
        """
        if hops > MOST_HOPS or not name:
            return None
        key = self._folder_of(path), name
        if key not in self._located:  # the file system is asked once
            self._located[key] = self._locate(name, path)
        location = self._located[key]
        if location is None:
            return None
        file, rest = location
        if not rest:
            return None
        self._uses.setdefault(path, set()).add(file)
        module = self._module(file)
        if module is None:
            return None
        if allowance is not None and not allowance.grants(file, rest[0], module.lines_of(rest[0])):
            return None
        value = module.look(rest[0], hops)
        if value is None:
            return None
        for part in rest[1:]:
            if value.kind is not Kind.API or not value.name:
                return None
            value = Value(Kind.API, name=f"{value.name}.{part}")
        if value.kind is Kind.API and value.name and value.name != name:
            deeper = self.resolve(value.name, file, hops + 1, allowance)
            return deeper if deeper is not None else None if value.name.startswith(".") else value
        return value

    def _note_use(self, path: str, other: str) -> None:
        self._uses.setdefault(path, set()).add(other)

    def _folder_of(self, path: str) -> str:
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = os.path.dirname(path)
        return folder

    def dependencies(self, path: str) -> list[str]:
        """The files that what was said of a file rests on, directly or through others, for a cache to know.

        A folder among them stands for all files of a project.
        """
        found: set[str] = set()
        pending = [path]
        while pending:
            for file in self._uses.get(pending.pop(), ()):
                if file not in found:
                    found.add(file)
                    pending.append(file)
        return sorted(found - {path})

    # ------------------------------------------------------------------ finding files

    def _locate(self, name: str, path: str) -> tuple[str, list[str]] | None:
        """The file that holds a name, and what is left of the name inside of it."""
        if name.startswith("."):
            dots = len(name) - len(name.lstrip("."))
            folder = os.path.dirname(path) or "."
            for _ in range(dots - 1):
                folder = os.path.join(folder, os.pardir)
            parts = [p for p in name.lstrip(".").split(".") if p]
            return self._below(os.path.normpath(folder), parts)
        parts = name.split(".")
        if len(parts) < 2:
            return None
        for root in self._import_roots(path):
            if self._has(root, parts[0]):
                return self._below(root, parts)
        return None

    def _below(self, folder: str, parts: list[str]) -> tuple[str, list[str]] | None:
        """Walk down packages as far as the name goes."""
        package_file: str | None = None
        for position, part in enumerate(parts):
            inner = os.path.join(folder, part)
            file = inner + ".py"
            if os.path.isfile(file):
                return file, parts[position + 1 :]
            if os.path.isdir(inner):
                folder = inner
                init = os.path.join(inner, "__init__.py")
                package_file = init if os.path.isfile(init) else None
                continue
            init = os.path.join(folder, "__init__.py")
            if os.path.isfile(init):
                return init, parts[position:]
            return None
        return (package_file, []) if package_file is not None else None

    def _has(self, root: str, first: str) -> bool:
        key = (root, first)
        if key not in self._found:
            inner = os.path.join(root, first)
            known = os.path.isfile(inner + ".py") or os.path.isfile(os.path.join(inner, "__init__.py"))
            if not known and os.path.isdir(inner):
                known = any(entry.endswith(".py") for entry in _entries(inner))
            self._found[key] = inner if known else None
        return self._found[key] is not None

    def _import_roots(self, path: str) -> tuple[str, ...]:
        """Folders that an absolute import may start from: the file's own, and those above it in the project."""
        folder = os.path.dirname(path) or "."
        if folder not in self._roots:
            roots = [folder]
            current = os.path.abspath(folder)
            for _ in range(_MOST_LEVELS):
                if current not in roots:
                    roots.append(current)
                source = os.path.join(current, "src")
                if os.path.isdir(source):
                    roots.append(source)
                if any(os.path.exists(os.path.join(current, m)) for m in MARKERS):
                    break
                parent = os.path.dirname(current)
                if parent == current:
                    break
                current = parent
            self._roots[folder] = tuple(roots)
        return self._roots[folder]

    # ------------------------------------------------------------------ modules

    def _module(self, file: str) -> _SourceModule | None:
        if file in self._modules:
            return self._modules[file]
        module = self._modules[file] = _SourceModule.read(file, self)
        if module is not None:
            self._kept += module.size
        return module

    def trim(self) -> None:
        """Between two files: forget all modules if they take much memory; they are read again when asked for.

        All at once, since what one defines refers to what others define, and none can be taken apart alone.
        """
        if self._kept <= MOST_SOURCE and self.parsed <= MOST_PARSED:
            return
        for module in self._modules.values():
            if module is not None:
                module.release()
        self._modules.clear()
        self._kept = self.parsed = 0


class _SourceModule:
    """One imported module: an index of its top level, and an interpreter that gets its definitions on demand."""

    def __init__(self, file: str, text: str, tree: ast.Module, project: Project) -> None:
        self.file = file
        self.size = len(text)
        self._lines = text.splitlines(keepends=True)
        self._project = project
        self._index: dict[str, list[tuple[int, int]]] = {}
        #: The lines of what defines a name; it is asked for whenever one is used.
        self._lengths: dict[str, int] = {}
        #: The line on which the body of each class begins.
        self._bodies: dict[tuple[int, int], int] = {}
        self._stars: list[str] = []
        self._loading: set[str] = set()
        self._run = Interpreter(cst.Module(body=[]), file, project, silent=True)
        self._run.globals = _LazyGlobals(self)
        for statement in tree.body:
            self._add(statement)

    @classmethod
    def read(cls, file: str, project: Project) -> _SourceModule | None:
        """None where the file can't be read, is no Python or is too large to be worth it."""
        try:
            data = Path(file).read_bytes()
            if len(data) > LARGEST_MODULE:
                return None
            text = data.decode("utf-8-sig")
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return cls(file, text, tree, project)

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.split(".")[0]
                dict.__setitem__(self._run.globals, name, Value(Kind.API, name=alias.name if alias.asname else name))
        elif isinstance(statement, ast.ImportFrom):
            base = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                if alias.name == "*":
                    self._stars.append(base)
                    continue
                separator = "" if base.endswith(".") else "."
                dict.__setitem__(
                    self._run.globals, alias.asname or alias.name, api_value(f"{base}{separator}{alias.name}")
                )
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
            span = (first, statement.end_lineno or first)
            self._index.setdefault(statement.name, []).append(span)
            if isinstance(statement, ast.ClassDef):
                self._bodies[span] = statement.body[0].lineno
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        lines = (statement.lineno, statement.end_lineno or statement.lineno)
                        self._index.setdefault(node.id, []).append(lines)
        elif isinstance(statement, ast.Try | ast.If | ast.With):
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.Import | ast.ImportFrom):
                    self._add(child)

    def look(self, name: str, hops: int) -> Value | None:
        """What the module binds to a name at its top level, itself or by `from … import *`."""
        value = self._run.globals.get(name)
        if value is None:
            for star in self._stars:
                separator = "" if star.endswith(".") else "."
                value = self._project.resolve(f"{star}{separator}{name}", self.file, hops + 1)
                if value is not None:
                    break
        return value

    def release(self) -> None:
        """Take apart what refers to itself, so that its memory is free at once."""
        self._run.release()
        vars(self).clear()

    def lines_of(self, name: str) -> int:
        """How many lines there are to read for what defines a name."""
        known = self._lengths.get(name)
        if known is None:
            found = self._definitions(name) if name in self._index else ()
            known = self._lengths[name] = sum(text.count("\n") for text in found)
        return known

    def _definitions(self, name: str) -> Iterator[str]:
        """The text of what defines a name, so far as it is worth a parse; of several, the last ones hold."""
        for first, last in self._index[name][-3:]:
            text = "".join(self._lines[first - 1 : last])
            if last - first >= LARGEST_DEFINITION or (last - first > 1 and _PLACEMENT.search(text) is None):
                body = self._bodies.get((first, last))
                if body is None or body <= first:
                    continue
                # What a class inherits from may say that it is a Module, whatever stands in it.
                text = "".join(self._lines[first - 1 : body - 1]) + "    pass\n"
            yield text

    def load(self, name: str) -> Value | None:
        """Parse and run what defines a name; None where nothing does, or it is on its way already."""
        if name not in self._index or name in self._loading:
            return None
        self._loading.add(name)
        for text in self._definitions(name):
            try:
                snippet = cst.parse_module(text)
            except Exception:  # a definition that LibCST does not parse stays unknown
                continue
            self._project.parsed += len(text)
            self._run.usage.add(snippet)
            self._run.block(snippet.body, self._run.globals)
        return dict.get(self._run.globals, name)


class _LazyGlobals(Env):
    """The globals of an imported module: a name that is not there yet is parsed when it is asked for."""

    def __init__(self, module: _SourceModule) -> None:
        super().__init__()
        self._module = module

    def get(self, name: str, default: Value | None = None) -> Value | None:  # type: ignore[override]
        value = dict.get(self, name)
        if value is None:
            value = self._module.load(name)
        return default if value is None else value


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
