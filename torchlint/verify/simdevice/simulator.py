"""The simulated accelerator: real values on the CPU, each storage tagged with the logical device it lives on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from . import errors, hooks
from .backends import backends
from .devices import HOST, Devices
from .dispatch import DispatchMode
from .events import Recorder
from .functions import FunctionMode
from .loading import loading
from .places import Place, is_accelerator
from .reports import Reports


class SimDevice(Reports):
    """A machine with an accelerator that is not there: use it as a context manager around the code to run.

    kind: `cuda`, `mps`, `xpu`, or `none` for a machine without any. count: how many devices (1 for mps).
    files: the names of the files whose lines events name. kinds: the kinds of events to record; None for all.

    Values are computed by the CPU's kernels, so that they agree bit for bit with a run on the CPU. What is
    simulated
    is where they live: devices, errors, copies and waits are those of the real backend, times and memory
    are not.

    Raises ValueError for an unknown kind. Not re-entrant, and for one thread.
    """

    def __init__(
        self,
        kind: str = "cuda",
        count: int = 1,
        files: Iterable[str] = ("<replay>",),
        kinds: Iterable[str] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(recorder or Recorder(files, kinds), f"{kind}:0")
        self.devices = Devices(kind, count)
        #: The device of what C++ code allocates inside the torch function that is being called.
        self.around = HOST
        #: Set when a device was guessed from `around`.
        self.guessed = False
        #: While positive, the code of a DataLoader's worker process is running.
        self.in_worker = 0
        self.function_mode = FunctionMode(self)
        self.dispatch_mode = DispatchMode(self)
        self._stack: contextlib.ExitStack | None = None

    def __enter__(self) -> SimDevice:
        if self._stack is not None:
            raise RuntimeError("this SimDevice is already in use")
        hooks.prepare()
        with contextlib.ExitStack() as stack:
            for patch in (
                hooks.open_composites(),
                hooks.plain_optimizers(),
                hooks.grouping(self._group),
                hooks.around_backward(self._backward),
                hooks.around_saved_tensors(self._with_mode),
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
        """A copy of a tensor on a device, in its own storage, differentiable: gradients move back."""
        source = self.places.of(tensor)
        if source.device != device:
            self.report_copy(api, tensor, source, device, waits=not non_blocking)
        place = Place(device, True, self.origin(), marks)
        if tensor.requires_grad and torch.is_grad_enabled() and not _in_transform():
            out: torch.Tensor = ToCopy.apply(tensor, self, place, source)  # type: ignore[no-untyped-call]
        else:
            out = self.copied(tensor, place)
        if non_blocking and device == HOST and is_accelerator(source.device):
            self.places.flag(self.places.pending, out)
        return out

    def copied(self, tensor: torch.Tensor, place: Place) -> torch.Tensor:
        """A tagged copy, without an event."""
        lazy: bool = torch.nn.parameter.is_lazy(tensor)
        with self.quiet():
            if lazy:
                with torch._C.DisableTorchFunction():
                    out = tensor.clone().as_subclass(type(tensor))
            else:
                out = tensor.clone()
        self.places.put(out, place)
        return out

    # What differs from the CPU.

    def check_worker(self, device: torch.device) -> None:
        """An accelerator that was in use before the fork can't be used in a DataLoader's worker."""
        if self.in_worker and is_accelerator(device):
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
            return self._with_mode(original)(outputs, *args, **kwargs)
        finally:
            self.around = around

    def _with_mode(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that torch calls while it has the function mode off its stack, with the mode on."""

        def run(*args: Any, **kwargs: Any) -> Any:
            if hooks.is_active(self.function_mode):
                return function(*args, **kwargs)
            with self.function_mode:
                return function(*args, **kwargs)

        return run

    def _group(self, lists: Any, with_indices: bool = False) -> Any:
        """Sort parallel lists of tensors by logical device and type; the first list decides."""
        groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for i, first in enumerate(lists[0]):
            tensor = (
                first if first is not None else next(x[i] for x in lists if i < len(x) and x[i] is not None)
            )
            columns, indices = groups.setdefault(
                (self.places.device(tensor), tensor.dtype), ([[] for _ in lists], [])
            )
            for column, values in zip(columns, lists):
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
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.sim.move(grad, ctx.source.device, "ToCopyBackward"), None, None, None


def _in_transform() -> bool:
    """Inside vmap, grad and the like, which take no autograd.Function without rules for them."""
    return torch._C._functorch.peek_interpreter_stack() is not None
