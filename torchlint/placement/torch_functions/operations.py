"""Operations on tensors, by the facts of `torch_api`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import is_given, mix, tensor_operands
from torchlint.placement.events import (
    Operand,
    UnsafeUnderAutocast,
)
from torchlint.placement.hazards.syncs import demand_host, emit_sync
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.values import (
    NUMBER,
    UNKNOWN,
    Certainty,
    Kind,
    Value,
    sequence,
)

if TYPE_CHECKING:
    from torchlint.placement.knowledge.torch_api import Binding, Overload, Parameter


def bound_operands(
    run: Interpreter, name: str, overloads: Sequence[Overload], arguments: Arguments
) -> tuple[list[Operand], list[Operand], Binding | None]:
    """The arguments that are tensor operands, the tensors given for numbers, and how the call binds."""
    flags = [_is_tensor(o.value) for o in arguments.positional]
    named = {k: _is_tensor(o.value) for k, o in arguments.named.items()}
    binding = None
    if overloads and any(is_given(o.value) for o in arguments.positional):
        surely = [replace(o, value=element_tensor(o.value)) if is_given(o.value) else o for o in arguments.positional]
        binding = _bind(name, tuple([_is_tensor(o.value) for o in surely]), tuple(named.items()))
        if binding is not None:
            arguments = replace(arguments, positional=surely)
    if binding is None:
        binding = _bind(name, tuple(flags), tuple(named.items())) if overloads else None
    if binding is None and "out" in named:
        rest = Arguments(arguments.positional, {k: o for k, o in arguments.named.items() if k != "out"})
        given = bound_operands(run, name, overloads, rest)
        return [*given[0], arguments.named["out"]], given[1], given[2]
    if binding is None:
        return (
            [o for o in arguments.positional if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
            if not overloads
            else [],
            [],
            None,
        )
    exempt = {*torch_api.ON_CPU.get(name, ()), *torch_api.CPU_ALLOWED.get(name, ())}
    operands: list[Operand] = []
    scalars: list[Operand] = []
    pairs = [
        *zip(binding.positional, arguments.positional),
        *((binding.keywords[k], o) for k, o in arguments.named.items()),
    ]
    for parameter, operand in pairs:
        if parameter.kind.is_tensor:
            operand = _surely_tensor(name, parameter, operand)
            if parameter.name in exempt:
                if parameter.name in torch_api.ON_CPU.get(name, ()):
                    demand_host(run, operand.node)
                continue
            if parameter.name != "out" or operand.value.kind in (Kind.TENSOR, Kind.SEQUENCE):
                operands.append(Operand(operand.node, operand.value, parameter.name))
        elif operand.value.kind is Kind.TENSOR and _reads(parameter):
            scalars.append(Operand(operand.node, operand.value, parameter.name))
    return operands, scalars, binding


#: Parameters for numbers that are no sizes: what reads them on the host could take them from a kernel instead.
_FACTORS = frozenset(
    "value alpha beta p eps margin threshold lambd negative_slope label_smoothing delta".split()
)


def _reads(parameter: Parameter) -> bool:
    """Whether an operation unwraps a tensor that it gets for a parameter, which waits for the tensor's device."""
    kind = parameter.kind
    return kind is torch_api.Kind.SCALAR or (kind is torch_api.Kind.NUMBER and parameter.name in _FACTORS)


@lru_cache(maxsize=8192)  # the same calls over and over
def _bind(
    name: str, positional: tuple[bool | None, ...], named: tuple[tuple[str, bool | None], ...]
) -> Binding | None:
    """How a call of a function of torch binds, or one of a method of Tensor, which goes by its bare name."""
    overloads = torch_api.overloads(name) if "." in name else torch_api.method_overloads(name)
    return torch_api.bind(overloads, positional, dict(named))


#: Parameters that take no number, whatever the function (`value` of `fill_` and `masked_fill` may be one).
_TENSORS_ONLY = frozenset(
    "input weight mask index mat2 tensors target tensor1 tensor2 vec vec2 batch2 query key".split()
)


#: Functions that take a number for their first operand, too.
_NUMBERS_FIRST = frozenset(
    "torch.pow torch.float_power torch.where torch.xlogy torch.special.xlogy torch.result_type".split()
)


#: The facts of what a loop over batches gives.
_OF_BATCHES = frozenset({"taken", "collated"})


def _surely_tensor(name: str, parameter: Parameter, operand: Operand) -> Operand:
    """An operand that is a tensor since this function takes nothing else there."""
    value = operand.value
    if value.kind is Kind.UNKNOWN and value.facts & _OF_BATCHES and parameter.kind is torch_api.Kind.TENSOR:
        pass  # a part of a batch is no number
    elif parameter.name not in _TENSORS_ONLY or name in _NUMBERS_FIRST:
        return operand
    if value.kind is Kind.UNKNOWN and value.places and parameter.kind is torch_api.Kind.TENSOR:
        value = value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    elif value.kind is Kind.SEQUENCE and parameter.kind is torch_api.Kind.TENSORS:
        value = value.but(
            items=None if value.items is None else tuple(map(element_tensor, value.items)),
            element=None if value.element is None else element_tensor(value.element),
        )
    return Operand(operand.node, value, operand.role)


def element_tensor(value: Value) -> Value:
    if value.kind is not Kind.UNKNOWN or not value.places:
        return value
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


def _is_tensor(value: Value) -> bool | None:
    if value.kind is Kind.TENSOR:
        return True
    return None if value.kind is Kind.UNKNOWN else (value.kind is Kind.SEQUENCE and None) or False


def refused_by_autocast(run: Interpreter, name: str, node: cst.Call) -> None:
    """`binary_cross_entropy` raises under CUDA autocast (https://docs.pytorch.org/docs/stable/amp.html)."""
    if run.scene.autocast and run.scene.autocast != "cpu":
        run.emit(UnsafeUnderAutocast(node, run.scene, name))


def operation(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    if name == "torch.nn.functional.binary_cross_entropy":
        refused_by_autocast(run, name, node)
    overloads = torch_api.overloads(name)
    operands, scalars, binding = bound_operands(run, name, overloads, arguments)
    for operand in scalars:
        emit_sync(run, operand.node, f"{operand.role}=tensor", operand.value, hidden=True)
    last = name.rsplit(".", 1)[-1]
    if name in torch_api.SYNCS:
        _hidden_sync(run, name, last, node, arguments, operands)
    if not overloads:
        if name.startswith(("torch.nn.init.", "torch.nn.functional.")) and arguments.positional:
            return arguments.positional[0].value
        return UNKNOWN
    if binding is None and not operands:
        operands = [o for o in arguments.positional if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
    if binding is not None and binding.overload.result is torch_api.Result.HOST:
        mix(run, node, last, operands)
        return NUMBER
    in_place = last.endswith("_") and bool(operands)
    unknown = any(o.value.kind is Kind.UNKNOWN for o in operands)
    strict = is_strict(last, binding)
    rank = _rank_of_operation(name, operands, binding)
    if rank == 0 and keeps_dimensions(arguments, 1):
        rank = None
    result = mix(run, node, last, operands, in_place=in_place, strict=strict, rank=rank)
    if unknown and result.on_host:
        # The other operand may be a tensor elsewhere.
        result = result.at(())
    if not any(o.value.places for o in tensor_operands(operands)):
        result = result.at(())
    facts = result.facts
    if binding is not None and binding.rank is torch_api.Rank.ZERO:
        facts |= {"loss"}
    if "loss" in last or last in (
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
    ):
        facts |= {"loss", "grad"}
    if last in (
        "isnan",
        "isinf",
        "isfinite",
        "logical_and",
        "logical_or",
        "logical_not",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "isin",
    ):
        facts |= {"mask"}
    if last in WITHOUT_GRADIENT:
        facts = facts - {"grad", "loss"} | {"cut"}
    return result_of(binding, result.but(facts=facts))


#: Operations whose result no gradient flows through.
WITHOUT_GRADIENT = frozenset(
    "argmax argmin argsort eq ne gt lt ge le long int short bool any all nonzero isnan isinf isfinite bincount"
    " count_nonzero unique histc searchsorted logical_not logical_and logical_or round sign floor ceil isin".split()
)


_JOINING = frozenset(
    [
        "torch.cat",
        "torch.stack",
        "torch.concat",
        "torch.concatenate",
        "torch.vstack",
        "torch.hstack",
        "torch.dstack",
    ]
)


#: Operations whose kernels take no tensor from elsewhere, not even a 0-dim one from the host
#: (aten/src/ATen/native/cuda: they check that all tensors are on one device rather than go through TensorIterator).
_STRICT = frozenset(
    "matmul mm bmm addmm addmv mv dot vdot inner outer ger baddbmm addbmm einsum tensordot linear bilinear embedding"
    " embedding_bag conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d index_select gather scatter"
    " scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add index_add_ index_copy index_copy_ take"
    " take_along_dim cdist layer_norm batch_norm group_norm instance_norm scaled_dot_product_attention grid_sample"
    " cross_entropy nll_loss multi_margin_loss bucketize searchsorted isin bincount pack_padded_sequence".split()
)


def is_strict(last: str, binding: Binding | None) -> bool:
    """Whether an operation takes no tensor from elsewhere, not even a 0-dim one from the host."""
    return last in _STRICT


def keeps_dimensions(arguments: Arguments, position: int) -> bool:
    """Whether `argmax` and its like are told along which dimension, so that the others stay."""
    given = arguments.find("dim", position)
    return given is not None and given.value.kind is not Kind.NONE


#: What gives as many numbers as it finds or draws, in a dimension of their own.
_LISTING = frozenset(f"torch.{name}" for name in ("multinomial", "nonzero", "bincount", "unique", "atleast_1d"))


def _rank_of_operation(name: str, operands: Sequence[Operand], binding: Binding | None) -> int | str | None:
    if name in _JOINING or name in _LISTING:
        return 1
    known = binding.rank if binding is not None else None
    if known is torch_api.Rank.ZERO:
        return 0
    if known is torch_api.Rank.SOME:
        return 1
    if known is torch_api.Rank.SAME:
        return "elementwise"
    if known is torch_api.Rank.FIRST and operands and operands[0].value.places:
        ranks = {p.rank for p in operands[0].value.places}
        return ranks.pop() if len(ranks) == 1 else None
    return None


def _hidden_sync(
    run: Interpreter, name: str, last: str, node: cst.Call, arguments: Arguments, operands: Sequence[Operand]
) -> None:
    unless = torch_api.SYNC_UNLESS.get(name)
    if unless is not None and (
        unless in arguments.named or (name == "torch.where" and len(arguments.positional) > 1)
    ):
        return
    if name == "torch.nn.functional.one_hot" and len(arguments.positional) > 1:
        return
    if not waits(last, [*arguments.positional[1:], *(o for k, o in arguments.named.items() if k != "input")]):
        return
    first = next((o for o in operands if o.value.kind is Kind.TENSOR), None)
    if first is not None:
        emit_sync(run, node, last, first.value, hidden=True)


#: Operations that read no value of what they work on, only of a tensor that says how often, where or how far.
_READ_AN_ARGUMENT = frozenset(["repeat_interleave", "narrow", "tensor_split", "cov", "corrcoef"])


def waits(name: str, others: Sequence[Operand]) -> bool:
    """Whether an operation that may wait does, given its arguments beside the tensor that it works on."""
    return name not in _READ_AN_ARGUMENT or any(o.value.kind is Kind.TENSOR for o in others)


def result_of(binding: Binding | None, value: Value) -> Value:
    """A tensor as the kind of result that the overload gives: itself, several, a number, an array."""
    if binding is None:
        return value
    result = binding.overload.result
    if result is torch_api.Result.TENSORS:
        arity = binding.overload.arity
        return sequence((value,) * arity) if arity is not None else sequence(element=value)
    if result is torch_api.Result.HOST:
        return NUMBER
    if result in (torch_api.Result.NOTHING, torch_api.Result.MODULE):
        return UNKNOWN
    if result is torch_api.Result.ARRAY:
        return Value(Kind.ARRAY)
    return (
        value
        if result is torch_api.Result.TENSOR
        else value.but(certainty=min(value.certainty, Certainty.INFERRED))
    )
