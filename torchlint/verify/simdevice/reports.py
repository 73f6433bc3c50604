"""What an observer of a device, real or simulated, keeps and reports: places, marks of stand-ins, events."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .devices import HOST
from .events import Recorder
from .mixing import Mixed
from .places import Place, Places, is_accelerator, merge


class Reports:
    """Turns what the modes see into events. `default`: the device that a wait without operands waits for."""

    def __init__(self, recorder: Recorder, default: str) -> None:
        self.recorder = recorder
        self.default = default
        self.places = Places()
        #: The torch function being called, "" between calls.
        self.api = ""
        #: While positive: nothing is checked or recorded; or: only waits are not recorded.
        self.silent = 0
        self.unwaited = 0
        #: What mixes devices is reported and goes on, as if the accused operands had been moved.
        self.lenient = False
        self._marked_devices: dict[int, tuple[Any, frozenset[str]]] = {}

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Operators inside are neither checked nor recorded, and their results are not tagged."""
        self.silent += 1
        try:
            yield
        finally:
            self.silent -= 1

    # Marks of stand-ins.

    def mark(self, value: Any, mark: str) -> Any:
        """Note that a value is a stand-in; what is derived from it, and placed by it, carries the mark as well.

        Tensors and modules are marked in place, devices and their names by identity: use what is returned.
        Containers are gone through. Anything else is returned as it is.
        """
        if isinstance(value, torch.device):
            return self._mark_device(torch.device(str(value)), frozenset((mark,)))
        if isinstance(value, str) and value.partition(":")[0] in ("cuda", "mps", "xpu", "cpu"):
            return self._mark_device("".join(list(value)), frozenset((mark,)))
        leaves = (
            itertools.chain(value.parameters(), value.buffers())
            if isinstance(value, torch.nn.Module)
            else None
        )
        for leaf in leaves if leaves is not None else tree_leaves(value):
            if isinstance(leaf, torch.nn.Module):
                self.mark(leaf, mark)
            elif isinstance(leaf, torch.Tensor):
                place = self.places.of(leaf)
                self.places.put(leaf, Place(place.device, True, place.origins, place.marks | {mark}))
        return value

    def _mark_device(self, device: Any, marks: frozenset[str]) -> Any:
        # The table keeps the object alive, so that its id is its own.
        self._marked_devices[id(device)] = (device, marks)
        return device

    def marks_of_device(self, device: Any) -> frozenset[str]:
        """The marks of a device argument, by the identity of the object."""
        entry = self._marked_devices.get(id(device))
        return entry[1] if entry is not None else frozenset()

    def device_handed_out(self, tensor: torch.Tensor) -> torch.device:
        """`tensor.device`; it carries the tensor's marks on to where it is used."""
        place = self.places.of(tensor)
        if not place.marks:
            return place.device
        return self._mark_device(torch.device(str(place.device)), place.marks)  # type: ignore[no-any-return]

    # Events.

    def origin(self) -> tuple[int, ...]:
        line = self.recorder.site().line
        return (line,) if line else ()

    def report_creation(
        self,
        api: str,
        tensor: torch.Tensor,
        device: torch.device,
        reason: str,
        host_data: bool,
        marks: frozenset[str] = frozenset(),
    ) -> None:
        """A tensor is born: tag it, and count it. What follows a template keeps the template's marks."""
        if reason == "template":
            marks = marks | self.places.of(tensor).marks
        self.places.put(tensor, Place(device, True, self.origin(), marks))
        detail = {"reason": reason, "host_data": host_data, "dim": tensor.dim(), "dtype": str(tensor.dtype)}
        self.recorder.add("create", api, target=str(device), marks=marks, detail=detail)

    def report_move(
        self,
        api: str,
        place: Place,
        device: torch.device,
        kept: bool,
        before: torch.dtype,
        after: torch.dtype,
        non_blocking: bool,
    ) -> None:
        detail: Mapping[str, Any] = {
            "kept": kept,
            "dtype": f"{before} -> {after}" if before != after else "",
            "non_blocking": bool(non_blocking),
        }
        self.recorder.add(
            "move",
            api,
            source=str(place.device),
            target=str(device),
            origins=place.origins,
            marks=place.marks,
            detail=detail,
        )

    def report_copy(
        self, api: str, tensor: torch.Tensor, place: Place, device: torch.device, *, waits: bool = True
    ) -> None:
        """Bytes cross between devices. `waits`: the host waits for a copy to it, as it does unless told otherwise."""
        if self.silent:
            return
        with torch._C.DisableTorchFunction():  # parameters of lazy modules refuse to be asked otherwise
            detail = {"elements": tensor.numel()}
        self.recorder.add(
            "copy",
            self.api or api,
            source=str(place.device),
            target=str(device),
            origins=place.origins,
            marks=place.marks,
            detail=detail,
        )
        if waits and device == HOST and is_accelerator(place.device):
            self.report_sync(api, [place])

    def report_sync(self, api: str, places: Iterable[Place]) -> None:
        """The host waits for the device; what was under way has arrived."""
        if self.silent or self.unwaited:
            return
        on_device = [p for p in places if is_accelerator(p.device)]
        self.places.pending.clear()
        place = merge(on_device, on_device[0].device) if on_device else None
        self.recorder.add(
            "sync",
            self.api or api,
            source=str(place.device) if place else self.default,
            target="cpu",
            origins=place.origins if place else (),
            marks=place.marks if place else (),
        )

    def report_race(self, api: str, tensor: torch.Tensor) -> None:
        """The host reads a tensor to which a copy may be under way; once for each copy."""
        if not self.places.flagged(self.places.pending, tensor):
            return
        place = self.places.of(tensor)
        self.places.pending.clear()
        self.recorder.add(
            "race", self.api or api, source="cpu", target="cpu", origins=place.origins, marks=place.marks
        )

    def report_mix(self, api: str, mixed: Mixed) -> None:
        """Operands that live apart; marks and origins are those of the accused ones."""
        operands = tuple(
            (
                o.name,
                str(o.place.device),
                o.tensor.dim(),
                o.place.origins,
                tuple(sorted(o.place.marks)),
                o.is_in(mixed.accused),
            )
            for o in mixed.operands
        )
        accused = mixed.accused[0].place
        marks = frozenset[str]().union(*(o.place.marks for o in mixed.accused))
        self.recorder.add(
            "mix",
            self.api or api,
            source=str(accused.device),
            origins=accused.origins,
            marks=marks,
            detail={"message": mixed.message, "op": api, "operands": operands},
        )
