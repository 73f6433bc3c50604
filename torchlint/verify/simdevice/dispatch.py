"""The dispatch mode: sees every operator, forward and backward, checks and tracks where its tensors live."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import errors, mixing
from .devices import HOST
from .mixing import Mixed, Operand, Operator
from .places import ON_HOST, Place, is_accelerator, merge

if TYPE_CHECKING:
    from .simulator import SimDevice

#: Outputs that stay on the host, by operator and position.
_HOST_OUTPUTS = {("_pack_padded_sequence", 1), ("_pad_packed_sequence", 1)}


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tags what operators return, raises where operands are mixed, counts copies between devices and waits."""

    def __init__(self, sim: SimDevice) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sim = sim

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        sim = self._sim
        if sim.silent:
            return func(*args, **kwargs)
        operator = Operator.of(func)
        # Function modes would see the operator's own call as one of the user's.
        with torch._C.DisableTorchFunction():
            if operator.columns:
                return self._by_columns(func, operator, args, kwargs)
            return self._by_operands(func, operator, args, kwargs)

    def _by_operands(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        operands = list(self._operands(operator, args, kwargs))
        if not operands:
            return self._without_operands(func, operator, args, kwargs)
        if self._sim.places.pending:
            self._read_pending(operator, operands)
        place = (
            self._copy(operator, operands, args, kwargs)
            if operator.copies
            else self._agree(operator, operands)
        )
        if is_accelerator(place.device):
            self._count_waits(operator, operands, kwargs)
        out = self._call(func, operator, args, kwargs)
        if operator.name == "set_":
            self._follow_storage(out, operands, place)
        elif not place.plain:
            self._tag(operator, out, place)
        return out

    def _follow_storage(self, out: torch.Tensor, operands: Sequence[Operand], place: Place) -> None:
        """A tensor has another storage now; one that nothing is known of was made for it, as in a deep copy."""
        if len(operands) == 1 and self._sim.places.of(out).plain:
            self._sim.places.put(out, place)

    def _operands(self, operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Operand]:
        of = self._sim.places.of
        for name, value in itertools.chain(zip(operator.arguments, args), kwargs.items()):
            if isinstance(value, torch.Tensor):
                yield Operand(name, value, of(value))
            elif isinstance(value, (list, tuple)):
                for item in value:
                    if isinstance(item, torch.Tensor):
                        yield Operand(name, item, of(item))

    def _agree(self, operator: Operator, operands: Sequence[Operand]) -> Place:
        """The place of the result; raises the backend's error where operands live apart."""
        first = operands[0].place
        if all(o.place is first for o in operands):
            return first
        try:
            device, partners = mixing.split(operator, operands)
        except Mixed as mixed:
            self._sim.report_mix(operator.full, mixed)
            if not self._sim.lenient:
                raise errors.mixed(mixed.message) from None
            there = [o.place for o in operands if is_accelerator(o.place.device)]
            return merge(there, there[0].device)
        place = merge((o.place for o in partners), device)
        for operand in operands:
            if not operand.place.firm:
                self._sim.places.put(operand.tensor, place)
            elif operator.indexing and operand.name == "indices" and operand.place.device != device:
                self._sim.report_copy("index", operand.tensor, operand.place, device, waits=False)
        return place

    def _copy(self, operator: Operator, operands: Sequence[Operand], args: Any, kwargs: Any) -> Place:
        """`copy_` may cross devices; what it writes to stays where it is."""
        target, source = operands[0], operands[-1]
        if operator.name in ("copy_", "_foreach_copy_") and target.place.device != source.place.device:
            if not source.place.firm or not target.place.firm:
                return target.place
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            self._sim.report_copy(
                operator.full, source.tensor, source.place, target.place.device, waits=not non_blocking
            )
            if non_blocking and target.place.device == HOST:
                self._sim.places.flag(self._sim.places.pending, target.tensor)
        return target.place

    def _by_columns(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        """Operators over lists of tensors: the first elements belong together, then the second ones, and so on."""
        named = list(zip(operator.arguments, args)) + list(kwargs.items())
        lists = [
            (n, v) for n, v in named if isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor)
        ]
        singles = [(n, v) for n, v in named if isinstance(v, torch.Tensor)]
        of = self._sim.places.of
        columns: list[Place] = []
        for i in range(max((len(v) for _, v in lists), default=0)):
            column = [Operand(n, v[i], of(v[i])) for n, v in lists if i < len(v) and n != "state_steps"]
            if operator.copies:
                columns.append(self._copy(operator, column, args, kwargs))
                continue
            column += [Operand(n, v, of(v)) for n, v in singles]
            # A 0-dim tensor on the host is a scalar to these operators.
            column = [o for o in column if o.tensor.dim() or is_accelerator(o.place.device)] or column[:1]
            columns.append(self._agree(operator, column))
        out = func(*args, **kwargs)
        if isinstance(out, (list, tuple)):
            for item, place in zip(out, columns):
                if isinstance(item, torch.Tensor) and not place.plain:
                    self._sim.places.put(item, place)
        return out

    def _without_operands(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        """Something made of nothing: on the device of the call around it, if C++ code asked for it."""
        sim = self._sim
        out = func(*args, **kwargs)
        if is_accelerator(sim.around):
            self._tag(operator, out, Place(sim.around, firm=False))
            sim.guessed = True
        elif not sim.api and isinstance(out, torch.Tensor):
            # Constructors such as torch.Tensor(...) and torch.FloatTensor(...), which function modes do not
            # see.
            sim.report_creation(operator.full, out, ON_HOST.device, "default", host_data=True)
        return out

    def _count_waits(self, operator: Operator, operands: Sequence[Operand], kwargs: Any) -> None:
        waits = operator.waits
        if operator.indexing:
            masked = any(
                o.name == "indices" and o.tensor.dtype in (torch.bool, torch.uint8) for o in operands
            )
            # A mask and one number on the host become masked_fill, which does not wait.
            number = any(
                o.name == "values" and o.tensor.numel() == 1 and o.place.device == HOST for o in operands
            )
            waits = masked and not number
        elif operator.name == "repeat_interleave" and kwargs.get("output_size") is not None:
            waits = False
        if waits:
            self._sim.report_sync(operator.full, [o.place for o in operands])

    def _read_pending(self, operator: Operator, operands: Sequence[Operand]) -> None:
        """The host computes with what an asynchronous copy may still be filling."""
        places = self._sim.places
        for operand in operands:
            if operand.place.device == HOST and operand.name not in operator.written:
                if places.flagged(places.pending, operand.tensor):
                    self._sim.report_race(operator.full, operand.tensor)

    def _call(self, func: Any, operator: Operator, args: Any, kwargs: Any) -> Any:
        """Run the operator; in float32 where the CPU has no kernel for the half precision of accelerators."""
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            half = _missing_half(error)
            if half is None or operator.written:
                raise
        wide = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: t.float() if t.dtype == half else t, (args, kwargs)
        )
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: t.to(half) if t.dtype == torch.float32 else t, func(*wide[0], **wide[1])
        )

    def _tag(self, operator: Operator, out: Any, place: Place) -> None:
        """Note where results live; one that shares an argument's storage has its place already, if it has any."""
        places = self._sim.places
        outputs = (out,) if isinstance(out, torch.Tensor) else out if isinstance(out, (tuple, list)) else ()
        for i, item in enumerate(outputs):
            if isinstance(item, torch.Tensor):
                fresh = operator.fresh[i] if i < len(operator.fresh) else True
                if (fresh or places.of(item).plain) and (operator.name, i) not in _HOST_OUTPUTS:
                    places.put(item, place)
            elif isinstance(item, (tuple, list)):
                for element in item:
                    if isinstance(element, torch.Tensor):
                        places.put(element, place)


def _missing_half(error: BaseException) -> torch.dtype | None:
    text = str(error)
    if "not implemented for" in text:
        if "'Half'" in text:
            return torch.float16
        if "'BFloat16'" in text:
            return torch.bfloat16
    return None
