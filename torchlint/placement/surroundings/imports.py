"""What importing a file imports in turn, within its project, found by the text of the files alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from torchlint.placement.surroundings.texts import LARGEST_FILE, root_of

#: An import that every import of its file runs: it stands at the margin, under no test and no `try`.
_IMPORT = re.compile(
    rb"^(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#;]+))", re.MULTILINE
)
#: A refusal of all ways for processes to talk but that of NVIDIA's devices.
_REFUSES = re.compile(rb"^[ \t]*assert[ \t][^\n]*==[ \t]*[\"']nccl[\"']", re.MULTILINE)
#: How many files are followed from one.
_MOST_FILES = 400


class Imports:
    """Follows imports from file to file. Each is read once.

    libraries: top names of libraries that may not be there.
    """

    def __init__(self, libraries: frozenset[str]) -> None:
        self._libraries = libraries
        #: Of each file: the files that it imports, and whether it needs one of the libraries itself.
        self._read: dict[str, tuple[list[str], bool]] = {}
        self._roots: dict[str, list[str]] = {}

    def need(self, path: str) -> tuple[bool, set[str]]:
        """Whether the file at `path` can't be imported where the libraries are missing; the files that say so."""
        pending = [os.path.abspath(path)]
        folder = os.path.dirname(pending[0])
        while os.path.isfile(package := os.path.join(folder, "__init__.py")):
            pending.append(package)
            folder = os.path.dirname(folder)
        seen: set[str] = set()
        while pending and len(seen) < _MOST_FILES:
            file = pending.pop()
            if file in seen:
                continue
            seen.add(file)
            if file not in self._read:
                self._read[file] = self._imports_of(file)
            imported, needs = self._read[file]
            if needs:
                return True, seen
            pending += imported
        return False, seen

    def _imports_of(self, file: str) -> tuple[list[str], bool]:
        try:
            with open(file, "rb") as opened:
                data = opened.read(LARGEST_FILE)
        except OSError:
            return [], False
        imported: list[str] = []
        for name, members in _imports(data):
            found = self._files_of(file, name, members)
            if not found and name.partition(".")[0] in self._libraries:
                return [], True
            imported += found
        return imported, _REFUSES.search(data) is not None

    def _files_of(self, file: str, name: str, members: list[str]) -> list[str]:
        """The files of the project that importing a name runs: packages on the way, the module, and members of it."""
        parts = [part for part in name.split(".") if part]
        if name.startswith("."):
            folder = os.path.dirname(file)
            for _ in range(len(name) - len(name.lstrip(".")) - 1):
                folder = os.path.dirname(folder)
            return _files_below(folder, parts, members)
        for root in self._roots_of(file):
            found = _files_below(root, parts, members)
            if found:
                return found
        return []

    def _roots_of(self, file: str) -> list[str]:
        """The folders that an import may start from: the file's own and those above it in its project."""
        folder = os.path.dirname(file)
        if folder not in self._roots:
            top = root_of(file) or folder
            roots = [folder]
            while folder != top and folder != os.path.dirname(folder):
                folder = os.path.dirname(folder)
                roots.append(folder)
            sources = [os.path.join(root, "src") for root in roots]
            self._roots[os.path.dirname(file)] = [*roots, *filter(os.path.isdir, sources)]
        return self._roots[os.path.dirname(file)]


def _imports(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """The modules that a text imports, and the members of each that it names."""
    for found in _IMPORT.finditer(data):
        if found[3] is not None:
            for part in found[3].split(b","):
                yield from ((word.decode(errors="replace"), []) for word in part.split()[:1])
        else:
            lines = re.sub(rb"#[^\n]*|[()\\]", b"", found[2])
            members = [part.split()[0].decode(errors="replace") for part in lines.split(b",") if part.split()]
            yield found[1].decode(), members


def _files_below(folder: str, parts: list[str], members: list[str]) -> list[str]:
    """The files that importing a name from a folder runs; none where it is not there."""
    files: list[str] = []
    for part in parts:
        folder = os.path.join(folder, part)
        if os.path.isfile(folder + ".py"):
            return [*files, folder + ".py"]
        if not os.path.isdir(folder):
            return files
        files += filter(os.path.isfile, [os.path.join(folder, "__init__.py")])
    for member in members:
        inner = os.path.join(folder, member)
        files += filter(os.path.isfile, [inner + ".py", os.path.join(inner, "__init__.py")])
    return files
