"""The simulated accelerator: real values on the CPU, each storage tagged with the logical device it lives on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

import torch
from torch.utils._pytree import tree_leaves

from . import hooks
from .backends import backends
from .devices import HOST, Devices
from .dispatch import DispatchMode
from .events import Recorder
from .functions import FunctionMode
from .loading import loading
from .mixing import Mixed
from .places import Place, Places, is_accelerator, merge


class SimDevice:
    """A machine with an accelerator that is not there: use it as a context manager around the code to run.

    kind: `cuda`, `mps`, `xpu`, or `none` for a machine without any. count: how many devices (1 for mps).
    files: the names of the files whose lines events name. kinds: the kinds of events to record; None for all.

    Values are computed by the CPU's kernels, so that they agree bit for bit with a run on the CPU. What is simulated
    is where they live: devices, errors, copies and waits are those of the real backend, times and memory are not.

    Raises ValueError for an unknown kind. Not re-entrant, and for one thread.
    """

    def __init__(
        self,
        kind: str = "cuda",
        count: int = 1,
        files: Iterable[str] = ("<replay>",),
        kinds: Optional[Iterable[str]] = None,
        recorder: Optional[Recorder] = None,
    ) -> None:
        self.devices = Devices(kind, count)
        self.recorder = recorder or Recorder(files, kinds)
        self.places = Places()
        #: The torch function being called, "" between calls; the device of what C++ code allocates inside of it.
        self.api = ""
        self.around = HOST
        #: Set when a device was guessed from `around`.
        self.guessed = False
        #: While positive: nothing is checked or recorded; or: only waits are not recorded.
        self.silent = 0
        self.unwaited = 0
        #: While positive, the code of a DataLoader's worker process is running.
        self.in_worker = 0
        self._marked_devices: dict[int, tuple[Any, frozenset[str]]] = {}
        self.function_mode = FunctionMode(self)
        self.dispatch_mode = DispatchMode(self)
        self._stack: Optional[contextlib.ExitStack] = None

    def __enter__(self) -> SimDevice:
        if self._stack is not None:
            raise RuntimeError("this SimDevice is already in use")
        with contextlib.ExitStack() as stack:
            for patch in (
                hooks.open_composites(),
                hooks.plain_optimizers(),
                hooks.grouping(self._group),
                hooks.around_backward(self._backward),
                backends(self),
                loading(self),
                self.dispatch_mode,
                self.function_mode,
            ):
                stack.enter_context(patch)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*error)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Operators inside are neither checked nor recorded, and their results are not tagged."""
        self.silent += 1
        try:
            yield
        finally:
            self.silent -= 1

    # Moving.

    def move(
        self,
        tensor: torch.Tensor,
        device: torch.device,
        api: str,
        *,
        non_blocking: bool = False,
        marks: frozenset[str] = frozenset(),
    ) -> torch.Tensor:
        """A copy of a tensor on a device, in a storage of its own, differentiable; gradients go back where they belong."""
        source = self.places.of(tensor)
        if source.device != device:
            self.report_copy(api, tensor, source, device, waits=not non_blocking)
        place = Place(device, True, self.origin(), marks)
        if tensor.requires_grad and torch.is_grad_enabled() and not _in_transform():
            out: torch.Tensor = ToCopy.apply(tensor, self, place, source)
        else:
            out = self.copied(tensor, place)
        if non_blocking and device == HOST and is_accelerator(source.device):
            self.places.flag(self.places.pending, out)
        return out

    def copied(self, tensor: torch.Tensor, place: Place) -> torch.Tensor:
        """A tagged copy, without an event."""
        with self.quiet():
            out = tensor.clone()
        self.places.put(out, place)
        return out

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
        leaves = itertools.chain(value.parameters(), value.buffers()) if isinstance(value, torch.nn.Module) else None
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
            source=str(place.device) if place else self.devices.kind,
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
        self.recorder.add("race", self.api or api, source="cpu", target="cpu", origins=place.origins, marks=place.marks)

    def report_mix(self, api: str, mixed: Mixed) -> None:
        """Operands that live apart; marks and origins are those of the accused ones."""
        operands = tuple(
            (o.name, str(o.place.device), o.tensor.dim(), o.place.origins, tuple(sorted(o.place.marks)), o.is_in(mixed.accused))
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

    def check_worker(self, device: torch.device) -> None:
        """An accelerator that was in use before the fork can't be used in a DataLoader's worker."""
        if self.in_worker and is_accelerator(device):
            from . import errors

            raise errors.in_forked_worker(device.type)

    def read_type(self, wanted: Any) -> tuple[str, torch.dtype]:
        """`torch.cuda.FloatTensor`, as a class or in words, as a device argument and an element type."""
        text = wanted if isinstance(wanted, str) else getattr(wanted, "torch_name", str(wanted))
        name = text.rpartition("'")[0].rpartition("'")[2] if "'" in text else text
        parts = name.split(".")
        dtype = getattr(torch, f"{parts[-1]}", None)
        kind = parts[1] if len(parts) == 3 else "cpu"
        dtype = torch.tensor([]).type(f"torch.{parts[-1]}").dtype
        return kind, dtype

    # What torch's own code asks of the real device.

    def _backward(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the autograd engine with the function mode on, for user code that it calls."""
        roots = [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor)]
        device = next((d for d in map(self.places.device, roots) if is_accelerator(d)), self.around)
        around, self.around = self.around, device
        try:
            if hooks.is_active(self.function_mode):
                return original(outputs, *args, **kwargs)
            with self.function_mode:
                return original(outputs, *args, **kwargs)
        finally:
            self.around = around

    def _group(self, lists: Any, with_indices: bool = False) -> Any:
        """Sort parallel lists of tensors by logical device and type; the first list decides."""
        groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for i, first in enumerate(lists[0]):
            tensor = first if first is not None else next(x[i] for x in lists if i < len(x) and x[i] is not None)
            columns, indices = groups.setdefault(
                (self.places.device(tensor), tensor.dtype), ([[] for _ in lists], [])
            )
            for column, values in zip(columns, lists):  # noqa: B905
                if i < len(values):
                    column.append(values[i])
            indices.append(i)
        return groups


class ToCopy(torch.autograd.Function):
    """A move between devices, as autograd sees it: the gradient moves back."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, sim: SimDevice, place: Place, source: Place) -> torch.Tensor:
        ctx.sim, ctx.source = sim, source
        return sim.copied(tensor, place)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        return ctx.sim.move(grad, ctx.source.device, "ToCopyBackward"), None, None, None


def _in_transform() -> bool:
    """Inside vmap, grad and the like, which take no autograd.Function without rules for them."""
    return torch._C._functorch.peek_interpreter_stack() is not None
