"""What differs between releases of torch, 2.4 to 2.13 and newer: every private name that the simulator rests on."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
import torch._lobpcg
import torch._lowrank
import torch.amp.autocast_mode
import torch.nn.functional
import torch.nn.init
import torch.overrides
import torch.utils._device

_MATCH = re.match(r"(\d+)\.(\d+)", torch.__version__)
VERSION = (int(_MATCH[1]), int(_MATCH[2])) if _MATCH else (2, 4)
#: From 2.8 on, the generated device check says which argument differs.
CHECK_NAMES_THE_OUTLIER = VERSION >= (2, 8)

#: Not to be had as an attribute: torch.optim deletes its submodules' names.
_OPTIMIZER = importlib.import_module("torch.optim.optimizer")
_MISSING = object()

parse_to = torch._C._nn._parse_to


@functools.cache
def prepare() -> None:
    """Before the first patch: import what torch imports at its first optimizer step, to take stock of itself."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch._dynamo")
    # The compiler of TorchScript knows the functions that `open_composites` replaces.
    importlib.import_module("torch.jit._builtins")._register_builtin(_never, "aten::has_torch_function")


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for a while; what was inherited is inherited again afterwards."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@functools.cache
def factories() -> frozenset[Any]:
    """The functions that make a tensor on the default device."""
    return frozenset(torch.utils._device._device_constructors())


def default_device() -> torch.device | None:
    """What `set_default_device` or `with torch.device(...)` asks for at this moment; None for nothing."""
    return torch.utils._device.CURRENT_DEVICE


def is_active(mode: torch.overrides.TorchFunctionMode) -> bool:
    """Whether a function mode would see the next call: torch takes it off the stack while it handles one."""
    stack: Any = torch.overrides._get_current_function_mode_stack  # untyped in some releases
    return any(m is mode for m in stack())


def composite_modules() -> list[ModuleType]:
    """Modules of Python functions that torch hands to a function mode whole, hiding the calls inside them."""
    return [torch.nn.functional, torch.functional, torch.nn.init, torch._lowrank, torch._lobpcg]


@contextlib.contextmanager
def open_composites() -> Iterator[None]:
    """Let function modes see the calls inside of Python composites, not the composites themselves."""
    names = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    with contextlib.ExitStack() as stack:
        for module in [*composite_modules(), torch.autograd]:
            for name in names:
                if hasattr(module, name):
                    stack.enter_context(patched(module, name, _never))
        yield


def _never(*args: Any) -> bool:
    return False


@contextlib.contextmanager
def around_backward(wrapper: Any) -> Iterator[None]:
    """Have `wrapper(original, outputs, *args, **kwargs)` called in place of the autograd engine."""
    original = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(original, outputs, *args, **kwargs)

    with patched(torch.autograd, "_engine_run_backward", run):
        yield


@contextlib.contextmanager
def around_saved_tensors(wrapper: Any) -> Iterator[None]:
    """Have `wrapper` put around hooks for saved tensors, which torch calls in the middle of an operation."""
    module: Any = torch._C._autograd
    original = module._push_saved_tensors_default_hooks

    def push(pack: Any, unpack: Any) -> None:
        original(wrapper(pack), wrapper(unpack))

    with patched(module, "_push_saved_tensors_default_hooks", push):
        yield


@contextlib.contextmanager
def plain_optimizers() -> Iterator[None]:
    """Let optimizers step parameter by parameter, as on the CPU, unless told otherwise: the same bits."""
    with patched(_OPTIMIZER, "_get_foreach_kernels_supported_devices", list):
        yield


@contextlib.contextmanager
def grouping(group: Any) -> Iterator[None]:
    """Replace the C++ function that sorts tensors by their real device."""
    name = "_group_tensors_by_device_and_dtype"
    if not hasattr(torch._C, name):
        yield
        return
    with patched(torch._C, name, group):
        yield


def autocast_dtype(kind: str) -> torch.dtype | None:
    """The type to which autocast casts on this kind of device; None where it is off."""
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


@contextlib.contextmanager
def cpu_autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """Set the CPU's autocast state, which is what really casts under the simulator; None switches it off."""
    enabled, before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    torch.set_autocast_enabled("cpu", dtype is not None)
    if dtype is not None:
        torch.set_autocast_dtype("cpu", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", before)


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """Keep the CPU off its fused kernels; `torch.backends.mkldnn.flags` would touch other settings, and warn."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def clip_module() -> ModuleType:
    """Where functions that clip gradients are defined; other modules of torch take them from there."""
    return importlib.import_module("torch.nn.utils.clip_grad")


def storage_registry() -> list[Any]:
    """Who says where saved storages lived, and where loaded ones go: (priority, tagger, restorer)."""
    return torch.serialization._package_registry


def fetchers() -> list[type]:
    """The classes that fetch a batch from a dataset."""
    from torch.utils.data._utils import fetch

    return [fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher]
