"""A real accelerator, observed: the simulator's events, as far as they can be seen from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import hooks, mixing
from .devices import HOST
from .dispatch import DispatchMode
from .events import Recorder
from .loading import in_process_loaders
from .mixing import Mixed, Operand, Operator
from .places import Place, Places, is_accelerator, merge
from .reports import Reports

T = torch.Tensor
_MOVES = ("to", "cuda", "cpu", "xpu", "type", "type_as", "half", "float", "double", "bfloat16")
_READS = ("numpy", "__array__", "tolist", "__repr__")


def find_accelerator() -> str | None:
    """The kind of the accelerator that torch finds on this machine; None where there is none."""
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            return kind
    return "mps" if torch.backends.mps.is_available() else None


class ActualPlaces(Places):
    """Places whose device is the tensor's own; the table only holds origins and marks."""

    def of(self, tensor: torch.Tensor) -> Place:
        known = super().of(tensor)
        device = tensor.device
        return known if known.device == device else Place(device, True, known.origins, known.marks)


class RealDevice(Reports):
    """Watches code that runs on a real accelerator; a context manager like SimDevice.

    Errors are the backend's own. Where the simulator's rule of mixing disagrees with the backend,
    `disagreements` says.
    """

    def __init__(
        self,
        files: Iterable[str] = ("<replay>",),
        kinds: Iterable[str] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(recorder or Recorder(files, kinds), find_accelerator() or "cpu")
        self.places = ActualPlaces()
        self.around = HOST
        self.guessed = False
        self.disagreements: list[str] = []
        self._modes = (ObservingDispatch(self), ObservingFunctions(self))  # type: ignore[arg-type]
        self._stack: contextlib.ExitStack | None = None

    def __enter__(self) -> RealDevice:
        with contextlib.ExitStack() as stack:
            stack.enter_context(hooks.open_composites())
            stack.enter_context(in_process_loaders())
            for mode in self._modes:
                stack.enter_context(mode)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*error)


class ObservingDispatch(DispatchMode):  # type: ignore[no-untyped-call]
    """Reports what it sees and leaves the deciding to the backend."""

    _sim: Any

    def _agree(self, operator: Operator, operands: Sequence[Operand]) -> Place:
        first = operands[0].place
        if all(o.place is first for o in operands):
            return first
        try:
            device, partners = mixing.split(operator, operands)
        except Mixed as mixed:
            self._mixed = mixed
            return first
        for operand in operands:
            if operator.indexing and operand.name == "indices" and operand.place.device != device:
                self._sim.report_copy("index", operand.tensor, operand.place, device, waits=False)
        return merge((o.place for o in partners), device)

    def _call(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        mixed: Mixed | None = self.__dict__.pop("_mixed", None)
        try:
            out = func(*args, **kwargs)
        except RuntimeError as error:
            if mixed is not None:
                mixed.message = str(error)
                self._sim.report_mix(operator.full, mixed)
            raise
        if mixed is not None:
            self._sim.disagreements.append(f"{operator.full} takes what should not mix: {mixed.message}")
        return out

    def _copy(self, operator: Operator, operands: Sequence[Operand], args: Any, kwargs: Any) -> Place:
        target = operands[0]
        if operator.name == "_to_copy":
            device, source = kwargs.get("device"), target.place
            if device is not None and torch.device(device).type != source.device.type:
                waits = not kwargs.get("non_blocking", False)
                self._sim.report_copy(operator.full, target.tensor, source, torch.device(device), waits=waits)
                return Place(torch.device(device), True, self._sim.origin())
            return source
        return super()._copy(operator, operands, args, kwargs)

    def _without_operands(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if isinstance(out, T) and not self._sim.api:
            self._sim.report_creation(operator.full, out, out.device, "default", host_data=True)
        return out


class ObservingFunctions(TorchFunctionMode):
    """Reports moves, creations and reads by the host; every call goes through unchanged."""

    def __init__(self, sim: RealDevice) -> None:
        super().__init__()
        self._sim = sim
        self._moves = frozenset(getattr(T, name) for name in _MOVES)
        self._reads = frozenset(getattr(T, name) for name in _READS)
        self._factories = hooks.factories()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        sim = self._sim
        name = getattr(func, "__name__", "")
        around = sim.api
        sim.api = f"Tensor.{name}" if args and isinstance(args[0], T) else f"torch.{name}"
        try:
            if func in self._reads:
                return self._read(func, args, kwargs)
            out = func(*args, **kwargs)
            if isinstance(out, T):
                if func in self._moves:
                    self._moved(args, kwargs, out)
                elif func in self._factories:
                    reason = "explicit" if kwargs.get("device") is not None else "default"
                    sim.report_creation(
                        sim.api, out, out.device, reason, name in ("tensor", "as_tensor", "asarray")
                    )
            return out
        finally:
            sim.api = around

    def _moved(self, args: Any, kwargs: Any, out: torch.Tensor) -> None:
        sim, tensor = self._sim, args[0]
        place = sim.places.of(tensor)
        if out is not tensor and out.device != tensor.device:
            wanted = next(
                (a for a in (*args[1:], kwargs.get("device")) if isinstance(a, (str, torch.device))), None
            )
            sim.places.put(out, Place(out.device, True, sim.origin(), sim.marks_of_device(wanted)))
        non_blocking = bool(kwargs.get("non_blocking", False))
        sim.report_move(sim.api, place, out.device, out is tensor, tensor.dtype, out.dtype, non_blocking)

    def _read(self, func: Any, args: Any, kwargs: Any) -> Any:
        """These read without an operator that tells, or with many that would tell too often."""
        sim = self._sim
        place = sim.places.of(args[0])
        if is_accelerator(place.device) and func.__name__ not in ("numpy", "__array__"):
            sim.report_sync(sim.api, [place])
        with sim.quiet():
            return func(*args, **kwargs)


class Unobserved(Reports):
    """No device and nobody watching: only places and marks are known."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder, "cpu")
        self.places = ActualPlaces()

    def __enter__(self) -> Unobserved:
        return self

    def __exit__(self, *error: Any) -> None:
        return None
