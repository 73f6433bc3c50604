"""Which files a run checks: the paths asked for, walked with excludes and .gitignore, each file once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchlint.gitignore import Patterns

#: What is checked inside a folder; a file that is named itself is checked whatever it is called.
SUFFIXES = (".py", ".pyi", ".ipynb")

#: Folders that hold other people's code, or none; names, wherever they stand.
DEFAULT_EXCLUDES = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".torchlint_cache",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class Source(NamedTuple):
    """A file to check. path: as reported, relative to the current folder, with `/`; file: where it lies."""

    path: str
    file: str


class MissingPath(ValueError):
    """A path was asked for that does not exist."""


class Excludes:
    """Exclude patterns, in the form of .gitignore, each group relative to a folder.

    groups: pairs of a folder (absolute) and patterns; what a later group says counts more.
    """

    def __init__(self, groups: Iterable[tuple[str, Sequence[str]]]) -> None:
        self._names: set[str] = set()
        self._groups: list[tuple[str, Patterns]] = []
        for base, patterns in groups:
            if not self._groups and all(map(_is_plain_name, patterns)):
                self._names.update(patterns)
            else:
                self._groups.append((base, Patterns(patterns)))

    def excludes(self, file: str, folder: bool) -> bool:
        """Whether the entry itself is excluded; nothing is said of the folders that it lies in."""
        for base, patterns in reversed(self._groups):
            relative = _below(file, base)
            verdict = None if relative is None else patterns.excludes(relative, folder)
            if verdict is not None:
                return verdict
        return os.path.basename(file) in self._names

    def excludes_below(self, file: str, root: str, folder: bool) -> bool:
        """Whether the entry or a folder between it and `root` is excluded; elsewhere only the entry."""
        relative = _below(file, root)
        if relative is None:
            return self.excludes(file, folder)
        parts = relative.split("/")
        at = root
        for i, part in enumerate(parts):
            at = os.path.join(at, part)
            if self.excludes(at, folder or i < len(parts) - 1):
                return True
        return False


def _is_plain_name(pattern: str) -> bool:
    """Whether a pattern is only the name of a file or folder, so that a set can answer for it."""
    return not any(c in pattern for c in "*?[]!#\\/ ")


def _below(file: str, folder: str) -> str | None:
    """The path of `file` from `folder`, with `/`; None where it does not lie in it."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    if not file.startswith(prefix):
        return None
    return file[len(prefix) :].replace(os.sep, "/")


def display_path(file: str, cwd: str) -> str:
    """A file's path as reports show it: from `cwd`, or absolute where it lies elsewhere; always with `/`."""
    return _below(file, cwd) or file.replace(os.sep, "/")


def find_files(
    paths: Sequence[str],
    excludes: Excludes,
    *,
    cwd: str,
    root: str,
    force_exclude: bool = False,
    suffixes: Sequence[str] = SUFFIXES,
) -> list[Source]:
    """The files to check for the paths asked for, sorted by path, each once however often it is reached.

    A path that is named is taken even if it is excluded, unless `force_exclude` says so, and a file even if
    it ends in no known suffix. root: the folder of the settings; excludes are forced on the parts below it.
    Raises MissingPath where one does not exist.
    """
    found: dict[str, str] = {}
    for path in paths:
        file = os.path.normpath(os.path.join(cwd, path))
        folder = os.path.isdir(file)
        if not folder and not os.path.lexists(file):
            raise MissingPath(f"{path}: no such file or folder")
        if force_exclude and file != root and excludes.excludes_below(file, root, folder):
            continue
        if folder:
            real = os.path.realpath(file)
            for inner in _walk(file, excludes, tuple(suffixes)):
                # Only a link can lead away from the folder's own real path.
                key = os.path.realpath(inner) if os.path.islink(inner) else real + inner[len(file) :]
                found.setdefault(key, inner)
        else:
            found.setdefault(os.path.realpath(file), file)
    sources = [Source(display_path(file, cwd), file) for file in found.values()]
    sources.sort()
    return sources


def _walk(top: str, excludes: Excludes, suffixes: tuple[str, ...]) -> Iterator[str]:
    """The files below `top` that are neither excluded nor ignored, folder by folder; folders that can't be listed."""
    pending = [(top, _ignores_above(top))]
    while pending:
        folder, ignores = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except PermissionError:
            yield folder  # so that the run tells of it: nobody may take what wasn't looked at for clean
            continue
        except OSError:
            continue  # gone since its parent was listed
        names = {entry.name for entry in entries}
        if folder != top and "pyvenv.cfg" in names:
            continue  # a virtual environment, whatever it is called
        if ".git" in names:
            ignores = _Ignores.of_repository(folder)
        if ".gitignore" in names:
            ignores = ignores.and_file(folder)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.name.endswith(suffixes):
                continue
            if excludes.excludes(entry.path, is_folder) or ignores.ignores(entry.path, is_folder):
                continue
            if is_folder:
                pending.append((entry.path, ignores))
            elif entry.is_file():
                yield entry.path


class _Ignores(NamedTuple):
    """The .gitignore files that hold in a folder, the outermost first."""

    files: tuple[tuple[str, Patterns], ...] = ()

    @staticmethod
    def of_repository(folder: str) -> _Ignores:
        """Where a repository begins, what is ignored outside of it no longer counts."""
        return _Ignores(_read(folder, os.path.join(folder, ".git", "info", "exclude")))

    def and_file(self, folder: str) -> _Ignores:
        return _Ignores(self.files + _read(folder, os.path.join(folder, ".gitignore")))

    def ignores(self, file: str, folder: bool) -> bool:
        for base, patterns in reversed(self.files):
            relative = _below(file, base)
            verdict = None if relative is None else patterns.excludes(relative, folder)
            if verdict is not None:
                return verdict
        return False


def _read(base: str, file: str) -> tuple[tuple[str, Patterns], ...]:
    try:
        with open(file, encoding="utf-8-sig", errors="surrogateescape") as lines:
            patterns = Patterns(lines)
    except OSError:
        return ()
    return ((base, patterns),) if patterns else ()


def _ignores_above(top: str) -> _Ignores:
    """What the .gitignore files above `top` say, up to the root of its repository; nothing outside of one."""
    above: list[str] = []
    folder = top
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return _Ignores()
        folder = parent
        above.append(folder)
    if folder == top:
        return _Ignores()  # the walk itself meets the root
    ignores = _Ignores.of_repository(folder)
    for folder in reversed(above):
        ignores = ignores.and_file(folder)
    return ignores
