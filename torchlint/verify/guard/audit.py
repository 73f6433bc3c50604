"""The audit hook: refuses files outside the temporary directory, processes and sockets.

Events and their arguments: Python's documentation, "Audit events table". The hook can't be taken off again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..words import words
from .policy import FRAMEWORKS, HARMLESS

#: Refused whatever the arguments are; a name that ends in a dot stands for all events below it.
_REFUSED = words(
    "os.system os.exec os.posix_spawn os.spawn os.startfile os.startfile/2 os.fork os.forkpty os.kill "
    "os.killpg "
    "os.chown os.lockf os.setxattr os.removexattr os.add_dll_directory subprocess.Popen pty.spawn "
    "sys.addaudithook "
    "sys.setprofile sys.settrace sys._current_frames sys._current_exceptions sys.remote_exec "
    "signal.pthread_kill "
    "sqlite3.connect sqlite3.enable_load_extension webbrowser.open code.__new__ gc.get_objects "
    "gc.get_referrers "
    "gc.get_referents cpython.run_command cpython.run_file cpython.run_module cpython.run_interactivehook"
)
_REFUSED_BELOW = (
    "socket", "ctypes", "urllib", "http", "ftplib", "smtplib", "imaplib", "poplib", "nntplib", "telnetlib",
    "winreg", "msvcrt", "fcntl", "syslog", "resource", "_winapi", "_posixsubprocess",
)  # fmt: skip
#: Which arguments are paths, by event; the first element says whether they are written to, the last where
#: dir_fd is.
_PATHS: dict[str, tuple[bool, tuple[int, ...], tuple[int, ...]]] = {
    "os.remove": (True, (0,), (1,)),
    "os.rmdir": (True, (0,), (1,)),
    "os.mkdir": (True, (0,), (2,)),
    "os.rename": (True, (0, 1), (2, 3)),
    "os.link": (True, (0, 1), (2, 3)),
    "os.symlink": (True, (0, 1), (2, 2)),
    "os.truncate": (True, (0,), ()),
    "os.chmod": (True, (0,), (2,)),
    "os.utime": (True, (0,), (3,)),
    "os.chdir": (False, (0,), ()),
    "os.listdir": (False, (0,), ()),
    "os.scandir": (False, (0,), ()),
    "shutil.rmtree": (True, (0,), (1,)),
    "shutil.move": (True, (0, 1), ()),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NEVER_IMPORTED = frozenset(
    ("subprocess", "socket", "_socket", "ctypes", "_ctypes", "_posixsubprocess", "pty", "mmap")
)
_IMPORTED = HARMLESS | FRAMEWORKS | frozenset(getattr(sys, "stdlib_module_names", ()))
#: Read by torch and the C library while they work.
_ALWAYS_READABLE = (
    "/dev/null",
    "/dev/urandom",
    "/proc/self/",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
    "/usr/share/zoneinfo/",
)


class AuditHook:
    """What was refused so far, and a way for the worker's own code around the refusals."""

    def __init__(self, directory: str, readable: Iterable[str], modules: Iterable[str]) -> None:
        self._inside = os.path.realpath(directory)
        self._readable = tuple(os.path.realpath(p) + os.sep for p in readable)
        self._modules = _IMPORTED | frozenset(modules)
        self._trusted = False
        self.refused: list[str] = []
        self._checks: dict[str, Callable[[Any], str | None]] = {"open": self._open, "import": self._import}
        self._checks["pickle.find_class"] = self._find_class
        self._checks.update({event: _always(event) for event in _REFUSED})

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        check = self._checks.get(event)
        if check is None:
            if event in _PATHS:
                reason = self._paths(event, arguments)
            elif event.partition(".")[0] in _REFUSED_BELOW and "." in event:
                reason = event
            else:
                return
        elif self._trusted:
            return
        else:
            reason = check(arguments)
        if reason is None or self._trusted:
            return
        if len(self.refused) < 20:
            self.refused.append(reason)
        raise PermissionError(f"refused in a replay: {reason}")

    def allow(self, modules: Iterable[str]) -> None:
        """Let these top-level modules be imported as well, in place of those that were let before."""
        self._modules = _IMPORTED | frozenset(modules)

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """The worker's own code, for a moment."""
        before, self._trusted = self._trusted, True
        try:
            yield
        finally:
            self._trusted = before

    def _open(self, arguments: Any) -> str | None:
        path, mode, flags = arguments
        if isinstance(path, int):
            return None
        writes = bool(flags and flags & _WRITING) or (
            isinstance(mode, str) and any(c in mode for c in "wax+")
        )
        return self._path(path, writes)

    def _paths(self, event: str, arguments: Any) -> str | None:
        writes, positions, descriptors = _PATHS[event]
        for i, position in enumerate(positions):
            path = arguments[position] if position < len(arguments) else None
            at = descriptors[i] if i < len(descriptors) else None
            folder = arguments[at] if at is not None and at < len(arguments) else -1
            reason = self._path(path, writes, folder if isinstance(folder, int) else -1)
            if reason is not None:
                return f"{event}: {reason}"
        return None

    def _path(self, path: Any, writes: bool, folder: int = -1) -> str | None:
        if isinstance(path, int):
            path = _behind(path)
        text = os.fsdecode(path) if path is not None else "."
        if folder >= 0:
            text = os.path.join(_behind(folder), text)
        # A link's own place counts, not what it points to, where it is to be made or removed.
        real = os.path.realpath(text)
        if real == self._inside or real.startswith(self._inside + os.sep) or real == "/dev/null":
            return None
        if not writes and ((real + os.sep).startswith(self._readable) or real.startswith(_ALWAYS_READABLE)):
            return None
        return f"{'write to' if writes else 'read'} {text}"

    def _import(self, arguments: Any) -> str | None:
        name = str(arguments[0])
        top = name.partition(".")[0]
        if top in _NEVER_IMPORTED or (top not in self._modules and top not in sys.modules):
            return f"import {name}"
        return None

    def _find_class(self, arguments: Any) -> str | None:
        module, name = str(arguments[0]), str(arguments[1])
        top = module.partition(".")[0]
        harmful = module == "builtins" and name in (
            "eval",
            "exec",
            "compile",
            "open",
            "getattr",
            "__import__",
        )
        if (
            harmful
            or top in ("os", "posix", "nt", "sys", "shutil", "importlib", "runpy")
            or top in _NEVER_IMPORTED
        ):
            return f"unpickle {module}.{name}"
        return None


def install(directory: str, readable: Iterable[str], modules: Iterable[str]) -> AuditHook:
    """Add a hook to this process, for good."""
    hook = AuditHook(directory, readable, modules)
    sys.addaudithook(hook)
    return hook


def _always(event: str) -> Callable[[Any], str | None]:
    return lambda arguments: event


def _behind(descriptor: int) -> str:
    """The path behind a file descriptor, where the system tells; else one that nothing is inside of."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.sep
