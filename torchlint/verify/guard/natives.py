"""Functions of torch that open files or sockets in C++, where no audit event tells: checked in Python instead."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch


def install(directory: str) -> None:
    """Replace them in this process, for good: files only inside of `directory`, sockets and libraries not at all."""
    inside = os.path.realpath(directory) + os.sep

    def checked(path: Any) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            if not os.path.realpath(os.fsdecode(path)).startswith(inside):
                raise PermissionError(f"a replay may not open {os.fsdecode(path)}")

    _guard(torch, "from_file", 0, checked)
    _guard(torch.UntypedStorage, "from_file", 0, checked, static=True)
    _guard(torch._C, "PyTorchFileWriter", 0, checked)
    _guard(torch.jit, "save", 1, checked)
    _guard(torch.jit._script.RecursiveScriptModule, "save", 1, checked)
    _guard(torch.jit._script.RecursiveScriptModule, "_save_for_lite_interpreter", 1, checked)
    for profiler in (torch.autograd.profiler.profile, torch.profiler.profile):
        for name in ("export_chrome_trace", "export_stacks", "export_memory_timeline"):
            _guard(profiler, name, 1, checked)
    for owner, name in ((torch.ops, "load_library"), (torch.classes, "load_library")):
        _refuse(owner, name)
    if torch.distributed.is_available():
        for name in ("TCPStore", "FileStore", "init_process_group"):
            _refuse(torch.distributed, name)


def _guard(owner: Any, name: str, position: int, check: Callable[[Any], None], static: bool = False) -> None:
    """Check the path among a function's arguments before it is called."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original, updated=())
    def guarded(*args: Any, **kwargs: Any) -> Any:
        for value in (*args[position : position + 1], *kwargs.values()):
            check(value)
        return original(*args, **kwargs)

    try:
        setattr(owner, name, staticmethod(guarded) if static else guarded)
    except (AttributeError, TypeError):
        # A type of C++ that can't be changed: the kernel's layers stand behind.
        return


def _refuse(owner: Any, name: str) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(f"a replay may not use {name}")

    if hasattr(owner, name):
        setattr(owner, name, refused)
