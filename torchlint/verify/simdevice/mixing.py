"""Which operands of one operation must live together, and what a backend says where they do not.

Two kinds of checks exist in PyTorch. Elementwise operations go through TensorIterator, which lets a 0-dim
CPU tensor
join (unless it is written to). All others have a generated check that knows no exception but those named
here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..words import words
from . import errors
from .devices import HOST
from .places import Place, is_accelerator

#: Arguments that may live on the host beside an accelerator, by operator.
_HOST_ARGUMENTS = {
    "index": {"indices"},
    "index_put": {"indices"},
    "index_put_": {"indices"},
    "_index_put_impl_": {"indices"},
    "_unsafe_index": {"indices"},
    "_pack_padded_sequence": {"lengths"},
    "_pad_packed_sequence": {"batch_sizes"},
    "_pack_padded_sequence_backward": {"batch_sizes"},
    "lstm": {"batch_sizes"},
    "gru": {"batch_sizes"},
    "rnn_tanh": {"batch_sizes"},
    "rnn_relu": {"batch_sizes"},
    "_ctc_loss": {"input_lengths", "target_lengths"},
    "_ctc_loss_backward": {"input_lengths", "target_lengths"},
    "set_": {"source"},
    "set_data": {"new_data"},
}
#: Run through TensorIterator, but not tagged as pointwise.
_ELEMENTWISE = frozenset(
    words(
        "masked_fill masked_fill_ fill_ fill index_fill index_fill_ index_put index_put_ _index_put_impl_ "
        "mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy_with_logits normal polar "
        "complex "
        "floor_divide floor_divide_ where"
    )
)
_INDEXING = frozenset(("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"))
#: The host waits for these though no tag says so.
_WAITS = frozenset(("_linalg_check_errors",))
_COPIES = frozenset(("copy_", "_to_copy", "_foreach_copy_", "_copy_from", "_copy_from_and_resize"))


@dataclass(frozen=True)
class Operator:
    """What is asked of each operator on every call, read off its schema once."""

    full: str
    name: str
    overload: str
    arguments: tuple[str, ...]
    written: frozenset[str]
    fresh: tuple[bool, ...]
    elementwise: bool
    host_arguments: frozenset[str]
    columns: bool
    copies: bool
    indexing: bool
    waits: bool

    @classmethod
    @functools.cache
    def of(cls, func: Any) -> Operator:
        schema = func._schema
        name = schema.name.rpartition("::")[2]
        waiting = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
        return cls(
            full=f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name,
            name=name,
            overload=schema.overload_name,
            arguments=tuple(a.name for a in schema.arguments),
            written=frozenset(
                a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
            ),
            fresh=tuple(r.alias_info is None for r in schema.returns),
            elementwise=torch.Tag.pointwise in func.tags or name in _ELEMENTWISE,
            host_arguments=frozenset(_HOST_ARGUMENTS.get(name, ())),
            columns=name.startswith(("_foreach", "_fused", "_amp_foreach")),
            copies=name in _COPIES,
            indexing=name in _INDEXING,
            waits=name in _WAITS or any(tag in func.tags for tag in waiting),
        )


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor argument of an operation, and where it lives."""

    name: str
    tensor: torch.Tensor
    place: Place

    def is_in(self, operands: Sequence[Operand]) -> bool:
        return any(o is self for o in operands)


class Mixed(Exception):
    """Operands of one operation live apart; `accused` are those on the host, or else those that differ."""

    def __init__(self, message: str, operands: Sequence[Operand], accused: Sequence[Operand]) -> None:
        super().__init__(message)
        self.message, self.operands, self.accused = message, tuple(operands), tuple(accused)


def excused(operator: Operator, operand: Operand) -> bool:
    """Whether an operand on the host may join others on an accelerator."""
    if operand.place.device != HOST:
        return False
    if operand.name in operator.host_arguments:
        return True
    return operator.elementwise and operand.tensor.dim() == 0 and operand.name not in operator.written


def split(operator: Operator, operands: Sequence[Operand]) -> tuple[torch.device, list[Operand]]:
    """The device on which an operation runs, and the operands that take part there. Raises Mixed."""
    firm = [o for o in operands if o.place.firm]
    common = next((o.place.device for o in firm if is_accelerator(o.place.device)), None)
    if common is None:
        common = firm[0].place.device if firm else operands[0].place.device
    partners = [o for o in firm if o.place.device == common]
    apart = [o for o in firm if o.place.device != common and not excused(operator, o)]
    if apart:
        on_host = [o for o in apart if o.place.device == HOST]
        raise Mixed(_message(operator, firm, apart, common), operands, on_host or apart)
    return common, partners


def _message(
    operator: Operator, operands: Sequence[Operand], apart: Sequence[Operand], common: torch.device
) -> str:
    by_name = {o.name: o for o in reversed(operands)}
    if operator.indexing and any(o.name in ("self", "indices") for o in apart):
        return errors.mixed_indices(by_name["self"].place.device)
    if operator.name in ("convolution", "_convolution"):
        given, weight = by_name["input"], by_name["weight"]
        other = weight if weight.place.device != given.place.device else by_name.get("bias", weight)
        types = [errors.type_name(o.tensor.dtype, o.place.device) for o in (given, other)]
        return errors.mixed_convolution(types[0], other.name, types[1])
    if operator.elementwise or operator.columns:
        return errors.mixed_elementwise(common, apart[0].place.device)
    first = operands[0].place.device
    other = next(o for o in operands if o.place.device != first)
    return errors.mixed_argument(operator.name, operator.overload, other.name, other.place.device, first)
