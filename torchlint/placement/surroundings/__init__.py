"""What the other files of a project say, found by their text: who runs a class, who saves, which devices there are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from torchlint.placement.surroundings.callers import how_often
from torchlint.placement.surroundings.imports import Imports
from torchlint.placement.surroundings.programs import (
    has_default_device,
    is_importable,
    sets_default_device,
    speaks_elsewhere,
    stay_on_host,
    train_on_host,
)
from torchlint.placement.surroundings.savers import Savers
from torchlint.placement.surroundings.texts import INSTALLED, LARGEST_FILE, Texts, is_installed, root_of

#: How many modules a folder may have that are searched for what they say of devices.
_MOST_BESIDE = 20
#: How many folders are searched for kernels that a program builds when it starts.
_MOST_FOLDERS = 60
#: How many folders are asked for programs where nothing marks a project.
_LEVELS_OF_PROGRAMS = 3


class Surroundings:
    """Answers questions of a file that other files of its project decide. Each project is read once.

    note: is told of each file or folder that an answer rests on, for the file that asked.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._note = note
        #: What the modules of a folder hold.
        self._beside: dict[str, list[bytes]] = {}
        self._on_host: dict[tuple[str, bool], bool] = {}
        #: The top folder of each folder's project, the texts of projects, and how often they run a class of a file.
        self._tops: dict[str, str | None] = {}
        self._texts: dict[str, Texts] = {}
        self._often: dict[tuple[str, str], str] = {}
        #: What saves in each project.
        self._savers: dict[str, Savers] = {}
        #: What each project is for.
        self._elsewhere: dict[str, str] = {}
        #: By libraries: who can't be imported without them.
        self._imports: dict[frozenset[str], Imports] = {}
        #: By folder: whether its files are of a project that builds CUDA kernels, by the nearest setup.py.
        self._kernels: dict[str, bool] = {}

    def how_often(self, name: str, path: str) -> str:
        """How often the project runs what a class of the file at `path` computes: see `callers.how_often`."""
        texts = self._texts_around(path)
        if texts is None:
            return ""
        key = os.path.realpath(path), name
        if key not in self._often:
            self._often[key] = how_often(texts, path, name)
        return self._often[key]

    def never_applies(self, name: str, path: str) -> bool:
        """Whether no file of the project applies an autograd.Function of this name, or hands it on."""
        texts = self._texts_around(path)
        if texts is None or not texts.complete or texts.installed or not texts.holds(path):
            return False
        used = re.compile(rb"(?<![\w.])%s(?:[ \t]*[.,)\]}=]|[ \t]*$)" % re.escape(name.encode()), re.MULTILINE)
        return all(used.search(data) is None for _, data in texts.naming(name))

    def stays_on_host(self, path: str) -> bool:
        """Whether the file at `path` is part of programs that never speak of a device: see `programs.stay_on_host`."""
        key = os.path.dirname(os.path.abspath(path)), is_importable(path)
        texts = self.beside(path)
        if key not in self._on_host:
            self._on_host[key] = stay_on_host(texts, path) or self._never_speaks_of_devices(path)
        return self._on_host[key]

    def _never_speaks_of_devices(self, path: str) -> bool:
        """Whether a project trains models, and none of its files speaks of a device."""
        texts = self._texts_around(path)
        return texts is not None and texts.complete and texts.holds(path) and train_on_host(texts.sources())

    def has_default_device(self, path: str) -> bool:
        """Whether programs of the project run the code of the file at `path` on a default device that they set."""
        texts = self._texts_around(path)
        if texts is not None:
            return has_default_device(texts, path)
        folder = os.path.dirname(os.path.abspath(path))
        for _ in range(_LEVELS_OF_PROGRAMS):  # nothing marks a project: the programs beside it and above
            held = self.beside(os.path.join(folder, "__init__.py"), path)
            if any(map(sets_default_device, held)):
                return True
            if not held:
                break
            folder = os.path.dirname(folder)
        return False

    def is_for_others(self, path: str) -> bool:
        """Whether other projects may call what the file at `path` defines: its own is installed, or unmarked."""
        root = self._top(path)
        if root is None:
            return True
        for marker in INSTALLED:
            self._note(path, os.path.join(root, marker))
        return is_installed(root)

    def moves_attribute(self, name: str, path: str) -> bool:
        """Whether another file of the project moves an attribute of some object by this name."""
        texts = self._texts_around(path)
        return texts is not None and texts.moves_attribute(name, path)

    def saves_from_host(self, path: str, reader: str, what: str = "") -> bool:
        """Whether what saves checkpoints brings them to the CPU first: see `Savers.save_from_host`."""
        texts = self._texts_around(path)
        if texts is None:
            return Savers([(os.path.realpath(path), Path(path).read_bytes())]).save_from_host(path, reader, what)
        if texts.root not in self._savers:
            self._savers[texts.root] = Savers(texts.naming("save"))
        return self._savers[texts.root].save_from_host(path, reader, what)

    def needs(self, path: str, libraries: frozenset[str]) -> bool:
        """Whether the file at `path`, or what it imports of its project, can't be imported without some libraries."""
        if libraries not in self._imports:
            self._imports[libraries] = Imports(libraries)
        found, files = self._imports[libraries].need(path)
        if self._texts_around(path) is None:  # a project is noted as a whole
            for file in files:
                self._note(path, file)
        return found

    def elsewhere(self, path: str) -> str:
        """What the project of the file at `path` is for: see `speaks_elsewhere`; empty without one, or if too large."""
        project = self._texts_around(path)
        if self._builds_kernels(path, project):
            return "kernels"
        texts = project or self._texts_of_package(path)
        if texts is None or not texts.complete or not texts.holds(path):
            return ""
        if texts.root not in self._elsewhere:
            self._elsewhere[texts.root] = speaks_elsewhere(texts.sources())
        said = self._elsewhere[texts.root]
        return "" if project is None and said == "alone" else said  # the programs around a package may choose

    def _builds_kernels(self, path: str, project: Texts | None) -> bool:
        """Whether the nearest setup.py builds CUDA kernels; in no marked project, what stands in a folder beside."""
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in self._kernels:
            root = project.root if project is not None else self._top_of_package(folder)
            files: list[str] = []
            inner = folder
            while True:
                if os.path.exists(os.path.join(inner, "setup.py")):
                    files = [os.path.join(inner, "setup.py")]
                    break
                if inner == root or os.path.dirname(inner) == inner:
                    break
                inner = os.path.dirname(inner)
            if project is None and not files:
                folders = [os.path.join(root, name) for name in _entries(root)[:_MOST_FOLDERS] if "." not in name]
                files = [os.path.join(f, n) for f in folders for n in _entries(f)[:_MOST_BESIDE] if n.endswith(".py")]
            self._kernels[folder] = speaks_elsewhere(map(_start_of, files)) == "kernels"
        return self._kernels[folder]

    @staticmethod
    def _top_of_package(folder: str) -> str:
        while os.path.exists(os.path.join(folder, "__init__.py")):
            folder = os.path.dirname(folder)
        return folder

    def _texts_around(self, path: str) -> Texts | None:
        """The files of the project that a file is part of, which all that is said of it rests on; None without one."""
        root = self._top(path)
        if root is None:
            return None
        self._note(path, root)
        if root not in self._texts:
            self._texts[root] = Texts(root)
        return self._texts[root]

    def _top(self, path: str) -> str | None:
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in self._tops:
            self._tops[folder] = root_of(path)
        return self._tops[folder]

    def _texts_of_package(self, path: str) -> Texts | None:
        """The files of the outermost package that a file is part of, for one in no marked project."""
        folder, found = os.path.dirname(os.path.abspath(path)), ""
        while os.path.exists(os.path.join(folder, "__init__.py")):
            found, folder = folder, os.path.dirname(folder)
        if not found:
            return None
        self._note(path, found)
        if found not in self._texts:
            self._texts[found] = Texts(found)
        return self._texts[found]

    def beside(self, path: str, asking: str = "") -> list[bytes]:
        """What the modules of a file's folder hold, its own among them; nothing where they are too many.

        asking: the file that rests on it, if another.
        """
        folder = os.path.dirname(os.path.abspath(path))
        self._note(asking or path, folder)
        if folder not in self._beside:
            files = [os.path.join(folder, name) for name in _entries(folder) if name.endswith(".py")]
            try:
                texts = [Path(file).read_bytes() for file in files] if len(files) <= _MOST_BESIDE else []
            except OSError:
                texts = []
            self._beside[folder] = texts if sum(map(len, texts)) <= LARGEST_FILE else []
        return self._beside[folder]


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _start_of(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(LARGEST_FILE)
    except OSError:
        return b""
