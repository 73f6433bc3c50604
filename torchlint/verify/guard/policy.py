"""The policy on the code: what a replay refuses to run at all, told from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..words import words

#: Modules of the standard library that training scripts import and that do no harm under the audit hook.
HARMLESS = frozenset(
    words(
        "__future__ abc argparse array ast atexit base64 bisect builtins calendar cmath collections colorsys "
        "configparser "
        "contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib enum errno fnmatch "
        "fractions "
        "functools getpass gettext glob gzip hashlib heapq hmac html inspect io itertools json keyword "
        "linecache locale "
        "logging math mimetypes numbers operator os pathlib pickle pkgutil platform pprint queue random re "
        "reprlib "
        "secrets shlex shutil stat statistics string struct sys sysconfig tarfile tempfile textwrap "
        "threading time "
        "timeit token tokenize traceback types typing typing_extensions unicodedata unittest uuid warnings "
        "weakref "
        "zipfile zlib zoneinfo"
    )
)
#: Third-party modules that may be imported where they are installed.
FRAMEWORKS = frozenset(("torch", "numpy", "torchvision", "torchaudio", "functorch"))

_NAMES = frozenset(("eval", "exec", "__import__", "breakpoint"))
#: The interpreter's insides, by which code gets at what it was not handed.
_ATTRIBUTES = frozenset(
    words(
        "__subclasses__ __globals__ __builtins__ __code__ __closure__ __base__ __bases__ __mro__ __self__ "
        "__loader__ "
        "__spec__ __reduce__ __reduce_ex__ __getattribute__ __import__ f_back f_globals f_locals f_builtins "
        "gi_frame "
        "cr_frame ag_frame tb_frame _getframe _current_frames ctypes _ctypes load_library cpp_extension "
        "addaudithook "
        "settrace setprofile posix_spawn posix_spawnp forkpty pthread_kill import_module"
    )
)
#: Harmless names elsewhere; in `os` they start or end processes, or make what is no file.
_OF_OS = frozenset(
    words(
        "system popen fork abort _exit kill killpg startfile mkfifo mknod chroot setuid setgid setreuid "
        "setsid nice pipe "
        "execl execle execlp execlpe execv execve execvp execvpe spawnl spawnle spawnlp spawnlpe spawnv "
        "spawnve spawnvp "
        "spawnvpe dup dup2 memfd_create"
    )
)
#: Folders of torch that compile, download or connect.
_MODULES = ("torch.hub", "torch.utils.cpp_extension", "torch.distributed.rpc", "torch.distributed.launcher")


@dataclass(frozen=True)
class Refusal:
    """Why a replay does not run: a line of the text that was checked (from 1), and words for a person."""

    line: int
    reason: str


def refusals(tree: ast.AST, modules: Iterable[str] = ()) -> list[Refusal]:
    """All that the policy has against a module. `modules`: top-level names that may be imported as well."""
    allowed = HARMLESS | FRAMEWORKS | frozenset(modules)
    return sorted(set(_all(tree, allowed)), key=lambda r: (r.line, r.reason))


def _all(tree: ast.AST, allowed: frozenset[str]) -> Iterator[Refusal]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _imported(line, alias.name, allowed)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                yield Refusal(line, "a relative import")
                continue
            yield from _imported(line, module, allowed)
            for alias in node.names:
                if _denied(alias.name, module) or f"{module}.{alias.name}".startswith(_MODULES):
                    yield Refusal(line, f"imports {module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            if _denied(node.attr, _owner(node)) or _dotted(node).startswith(_MODULES):
                yield Refusal(line, f"uses .{node.attr}")
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield Refusal(line, f"uses {node.id}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "compile" and len(node.args) >= 3:
                yield Refusal(line, "uses compile")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in _ATTRIBUTES or node.value in ("system", "popen"):
                yield Refusal(line, f"names {node.value!r}")


def _imported(line: int, module: str, allowed: frozenset[str]) -> Iterator[Refusal]:
    known = module.partition(".")[0] in allowed and not module.startswith(_MODULES)
    if not known or any(_denied(part) for part in module.split(".")[1:]):
        yield Refusal(line, f"imports {module}")


def _denied(attribute: str, owner: str = "") -> bool:
    return attribute in _ATTRIBUTES or (owner in ("os", "posix", "nt") and attribute in _OF_OS)


def _owner(node: ast.Attribute) -> str:
    """The last name before the attribute: `os` in `os.system` and in `torch.os.system`."""
    value = node.value
    return value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
