"""What brings data to a device: checkpoints, DataLoaders, wrappers that replicate or compile a module."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.data

from . import hooks
from .devices import ACCELERATORS
from .places import Place

if TYPE_CHECKING:
    from .simulator import SimDevice


@contextlib.contextmanager
def loading(sim: SimDevice) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(checkpoints(sim))
        stack.enter_context(loaders(sim))
        if sim.devices.kind != "none":
            stack.enter_context(hooks.patched(torch.nn, "DataParallel", DataParallel))
        stack.enter_context(hooks.patched(torch, "compile", _compile))
        yield


@contextlib.contextmanager
def checkpoints(sim: SimDevice) -> Iterator[None]:
    """`torch.save` writes the logical device beside each storage, and `torch.load` puts it back there."""
    registry = hooks.storage_registry()
    mine = (0, functools.partial(_tag, sim), functools.partial(_restore, sim))
    registry.insert(0, mine)
    load = torch.load

    @functools.wraps(load)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        location = args[1] if len(args) > 1 else kwargs.get("map_location")
        named = isinstance(location, (str, torch.device))
        sim.recorder.add(
            "load",
            "torch.load",
            target=str(location) if named else "",
            detail={"mapped": location is not None},
        )
        return load(*args, **kwargs)

    try:
        with hooks.patched(torch, "load", recorded):
            yield
    finally:
        registry.remove(mine)


def _tag(sim: SimDevice, storage: Any) -> str | None:
    device = sim.places.of_storage(storage).device
    return str(device) if device.type in ACCELERATORS else None


def _restore(sim: SimDevice, storage: Any, location: str) -> Any:
    """Bring a loaded storage to the device that the checkpoint or `map_location` names."""
    if location.partition(":")[0] != sim.devices.kind:
        return None
    index = location.partition(":")[2]
    device = sim.devices.resolve(f"{sim.devices.kind}:{index}" if index else sim.devices.kind)
    if device is not None:
        sim.places.put_storage(storage, Place(device, True, sim.origin()))
    return storage


@contextlib.contextmanager
def saved_on(device: str) -> Iterator[None]:
    """Inside, `torch.save` writes that all storages live on `device`, as a run on such a machine would."""
    registry = hooks.storage_registry()
    entry = (-1, lambda storage: device, lambda storage, location: None)
    registry.insert(0, entry)
    try:
        yield
    finally:
        registry.remove(entry)


@contextlib.contextmanager
def loaders(sim: SimDevice) -> Iterator[None]:
    """DataLoaders fetch in this process; what a worker process could not do is still refused there."""
    forked: set[int] = set()

    def made(loader: Any, workers: int, context: Any) -> None:
        if workers and context is None and sim.devices.kind == "cuda":
            forked.add(id(loader.dataset))

    def guarded(fetch: Any) -> Any:
        @functools.wraps(fetch)
        def run(self: Any, indices: Any) -> Any:
            inside = id(self.dataset) in forked
            sim.in_worker += inside
            try:
                return fetch(self, indices)
            finally:
                sim.in_worker -= inside

        return run

    with contextlib.ExitStack() as stack:
        stack.enter_context(in_process_loaders(made))
        for fetcher in hooks.fetchers():
            stack.enter_context(hooks.patched(fetcher, "fetch", guarded(fetcher.fetch)))  # type: ignore[attr-defined]
        yield


@contextlib.contextmanager
def in_process_loaders(made: Callable[[Any, int, Any], None] | None = None) -> Iterator[None]:
    """DataLoaders without worker processes; `made` is told of each, how many it asked for, and by which context."""
    original = torch.utils.data.DataLoader.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        args, workers = _without_workers(args, kwargs)
        context = kwargs.pop("multiprocessing_context", None)
        for name in ("persistent_workers", "prefetch_factor", "timeout", "worker_init_fn"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs)
        if made is not None:
            made(self, workers, context)

    with hooks.patched(torch.utils.data.DataLoader, "__init__", init):
        yield


#: Where `num_workers` stands among the positional arguments after the dataset.
_WORKERS_AT = 5


def _without_workers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], int]:
    if len(args) > _WORKERS_AT:
        return (*args[:_WORKERS_AT], 0, *args[_WORKERS_AT + 1 :]), args[_WORKERS_AT]
    return args, kwargs.pop("num_workers", 0)


class DataParallel(torch.nn.Module):
    """`torch.nn.DataParallel` over one device: it moves its inputs to the first device and calls the module."""

    def __init__(
        self, module: torch.nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.dim, self.device_ids = module, dim, device_ids

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        first = next(self.module.parameters(), None)
        if first is not None:
            args, kwargs = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda t: t.to(first.device), (args, kwargs)
            )
        return self.module(*args, **kwargs)


def _compile(model: Any = None, **kwargs: Any) -> Any:
    """`torch.compile` without compiling: placement is the same."""
    return model if model is not None else lambda function: function
