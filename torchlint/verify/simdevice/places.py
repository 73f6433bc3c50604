"""Where each storage lives, and how that came to be: kept per storage, so that views agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing import reductions

from .devices import ACCELERATORS, HOST, META

#: More lines than these seldom help to see why a value lives where it does.
MAX_ORIGINS = 4
_SWEEP_AT = 4096


@dataclass(frozen=True)
class Place:
    """Where a value lives.

    firm: False for what C++ code allocates without a hint of the device; such a value follows its first
    partner.
    origins: the user's lines that decided the place, the nearest first. marks: the stand-ins on which it
    rests.
    """

    device: torch.device
    firm: bool = True
    origins: tuple[int, ...] = ()
    marks: frozenset[str] = frozenset()

    @property
    def plain(self) -> bool:
        """Nothing is known but that it lives on the host."""
        return self is ON_HOST


#: A weak reference to a storage; untyped in torch.
StorageWeakRef: Any = reductions.StorageWeakRef
ON_HOST = Place(HOST)
ON_META = Place(META)


def merge(places: Iterable[Place], device: torch.device) -> Place:
    """The place of what is computed on `device` from values in these places."""
    first: Place | None = None
    rest: list[Place] = []
    for place in places:
        if first is None:
            first = place
        elif place is not first:
            rest.append(place)
    if first is None:
        return ON_HOST if device.type == "cpu" else Place(device)
    if not rest and first.device == device:
        return first
    origins = list(first.origins)
    marks = first.marks
    for place in rest:
        origins.extend(line for line in place.origins if line not in origins)
        marks = marks | place.marks
    merged = Place(device, True, tuple(origins[:MAX_ORIGINS]), marks)
    return ON_HOST if merged == ON_HOST else merged


def storage_of(tensor: torch.Tensor) -> Any:
    """The storage behind a tensor, through wrappers of `torch.func` and sparse layouts."""
    try:
        return tensor.untyped_storage()
    except ValueError:
        # Parameters of lazy modules refuse to be asked until they have a shape.
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        inner: Any = tensor
        while torch._C._functorch.is_functorch_wrapped_tensor(inner):
            inner = torch._C._functorch.get_unwrapped(inner)
        if inner.layout is torch.sparse_coo:
            inner = inner._values()
        elif inner.layout is not torch.strided:
            inner = inner.values()
        return inner.untyped_storage()


def key_of(tensor: torch.Tensor) -> int:
    """The identity of the storage behind a tensor."""
    return int(storage_of(tensor)._cdata)


class Places:
    """The table of all storages that do not simply live on the host.

    A weak reference beside each entry pins the storage's address, so that no other can take it over.
    """

    def __init__(self) -> None:
        self._table: dict[int, tuple[Any, Place]] = {}
        self._sweep_at = _SWEEP_AT
        #: Storages in pinned memory, and those to which an asynchronous copy may still be under way.
        self.pinned: dict[int, Any] = {}
        self.pending: dict[int, Any] = {}

    def of(self, tensor: torch.Tensor) -> Place:
        entry = self._table.get(key_of(tensor))
        if entry is not None:
            return entry[1]
        return ON_META if tensor.is_meta else ON_HOST

    def device(self, tensor: torch.Tensor) -> torch.device:
        return self.of(tensor).device

    def of_storage(self, storage: Any) -> Place:
        """The place of an untyped or typed storage."""
        entry = self._table.get(getattr(storage, "_untyped_storage", storage)._cdata)
        return entry[1] if entry is not None else ON_HOST

    def put(self, tensor: torch.Tensor, place: Place) -> None:
        self.put_storage(storage_of(tensor), place)

    def put_storage(self, storage: Any, place: Place) -> None:
        storage = getattr(storage, "_untyped_storage", storage)
        if place.plain:
            self._table.pop(storage._cdata, None)
            return
        self._table[storage._cdata] = (StorageWeakRef(storage), place)
        if len(self._table) > self._sweep_at:
            self._table = {k: v for k, v in self._table.items() if not v[0].expired()}
            self._sweep_at = 2 * max(len(self._table), _SWEEP_AT // 2)

    def flag(self, flags: dict[int, Any], tensor: torch.Tensor) -> None:
        """Note that a tensor's storage is pinned or pending."""
        storage = storage_of(tensor)
        flags[storage._cdata] = StorageWeakRef(storage)

    def flagged(self, flags: dict[int, Any], tensor: torch.Tensor) -> bool:
        return bool(flags) and key_of(tensor) in flags


def is_accelerator(device: torch.device) -> bool:
    return device.type in ACCELERATORS
