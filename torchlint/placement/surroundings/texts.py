"""The text of a project's files, read once, and where a project begins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

#: What marks the top of a project, and below of one that others install.
MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
INSTALLED = ("pyproject.toml", "setup.py", "setup.cfg")
_MOST_LEVELS = 10
#: Bytes of a project that are worth a search, and of a file.
_MOST_BYTES = 16_000_000
LARGEST_FILE = 400_000
SOURCES = (".py",)
#: Files that may name a class, and are not understood.
_OTHERS = (".ipynb", ".yaml", ".yml", ".json", ".toml", ".cfg", ".gin", ".sh")
_FOREIGN = frozenset(["node_modules", "site-packages", "build", "dist", "venv", "env", "__pycache__"])
_TEST = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|conftest|[^/]*_test)\.py$")


#: A statement that makes an accelerator the default device, unless it only says that it is the CPU.
SETS_DEFAULT = re.compile(
    rb"^[ \t\"]*(?:(?:if|else)\b[^:\n]*:[ \t]*)?(?:\w+\.)*"
    rb"set_default_(?:device\((?!\s*(?:device\s*=\s*)?(?:\w+\.device\(\s*)?\\?[\"']cpu)|tensor_type\([^)]*cuda)",
    re.MULTILINE,
)


class Texts:
    """The files of a project that may name one of its classes. One is read once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.installed = is_installed(root)
        self.size = 0
        #: The files that make an accelerator the default device, and what they hold.
        self.defaults: dict[str, bytes] = {}
        self._files: dict[str, bytes] = {}
        #: Whether there is more of it than is worth reading.
        self.complete = self._read()

    def _read(self) -> bool:
        for file in _files_below(self.root):
            try:
                with open(file, "rb") as opened:
                    data = opened.read(LARGEST_FILE)
            except OSError:
                return False
            if SETS_DEFAULT.search(data) is not None and not is_test(file, self.root):
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
            if file.endswith((*SOURCES, ".ipynb")) and not is_test(file, top):
                yield data

    def moves_attribute(self, name: str, path: str) -> bool:
        """Whether another file than that of `path` moves an attribute of some other object by this name."""
        sought = re.compile(rb"(?<!\bself)\." + re.escape(name.encode()) + rb"\.(?:to|cuda)\(")
        own = os.path.realpath(path)
        return any(file != own and sought.search(data) is not None for file, data in self._files.items())

    def holds(self, path: str) -> bool:
        """Whether a file is one of these."""
        return os.path.realpath(path) in self._files


def _files_below(root: str) -> Iterator[str]:
    """The files of a project that may be read: those of code and of settings, none that others wrote."""
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith(".") and n not in _FOREIGN]
        for name in files:
            if name.endswith((*SOURCES, *_OTHERS)):
                yield os.path.join(folder, name)


def is_test(file: str, root: str) -> bool:
    """Whether a file of a project is one of its tests, by its path."""
    return _TEST.search(os.path.relpath(file, root).replace("\\", "/")) is not None


def is_installed(root: str) -> bool:
    """Whether others install a project, and call what it offers."""
    return any(os.path.exists(os.path.join(root, marker)) for marker in INSTALLED)


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
    for file in _files_below(root):
        try:
            status = os.stat(file)
        except OSError:
            continue
        found.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(sorted(found)).encode("utf-8", "surrogateescape")
