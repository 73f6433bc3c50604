"""Methods of tensors, by the facts of `torch_api`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import emit_host_only, mix
from torchlint.placement.devices import device_places, name_device
from torchlint.placement.events import (
    Backward,
    GradUse,
    Move,
    Operand,
    Pin,
    Sync,
    Use,
)
from torchlint.placement.hazards.syncs import emit_sync, number_read, spare
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import dotted
from torchlint.placement.timeline import read_pending
from torchlint.placement.torch_functions.operations import (
    WITHOUT_GRADIENT,
    bound_operands,
    is_strict,
    keeps_dimensions,
    result_of,
    waits,
)
from torchlint.placement.values import (
    ARRAY,
    NUMBER,
    UNKNOWN,
    Certainty,
    Kind,
    Value,
    Where,
    sequence,
    tensor,
    with_rank,
)

if TYPE_CHECKING:
    from torchlint.placement.knowledge.torch_api import Binding
from torchlint.placement.methods.moves import CASTS, LOSSY, all_host, is_non_blocking


def copied_before(run: Interpreter, node: cst.CSTNode) -> None:
    """`x.cpu().numpy()`: what comes after tells that a tensor was copied, though `x` itself is not known."""
    event = run.events.get((Move, node))
    if (
        isinstance(event, Move)
        and event.value.kind is Kind.UNKNOWN
        and all_host(event.target)
        and not event.non_blocking
    ):
        emit_sync(run, node, "cpu", event.value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))


_OF_A_GRAPH = frozenset({"grad", "leaf", "parameter", "fresh", "moved leaf", "copied leaf"})


def tensor_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if name not in _VIEWING:
        read_pending(run, node, name, value)
        if "pending" in value.facts:
            value = value.but(facts=value.facts - {"pending"})
    if name in ("item", "tolist"):
        return read_tensor(run, node, name, value)
    if name == "numpy":
        if "force" in arguments.named or arguments.positional:
            emit_sync(run, node, "numpy", value)
        else:
            # It raises for a tensor on an accelerator, so that it never waits for one.
            emit_host_only(run, node, "numpy", Operand(func.value, value))
        return ARRAY.at(value.places if value.on_host else ())
    if name == "backward":
        gradient = arguments.find("gradient", 0)
        if gradient is not None:  # it has to be where the tensor is
            mix(run, node, name, [Operand(func.value, value), gradient])
        run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=func.value))
        return NUMBER
    if name in ("detach", "detach_"):
        return value.but(facts=value.facts - _OF_A_GRAPH | {"cut"})
    if name == "retain_grad":
        run.emit(GradUse(node, run.scene, name, value))
        return UNKNOWN
    if name == "requires_grad_":
        return value.but(facts=value.facts | {"grad", "leaf"})
    if name == "pin_memory":
        run.emit(Pin(node, run.scene, value))
        return value.but(facts=value.facts | {"pinned"})
    if name in torch_api.RETURNS_HOST:
        if name in torch_api.HIDDEN_SYNC_METHODS:
            emit_sync(run, node, name, value, hidden=True)
        return sequence(element=NUMBER) if name in ("size", "stride") and not arguments.positional else NUMBER
    if name in torch_api.FOLLOWS_RECEIVER:
        device = arguments.find("device")
        if device is not None:
            name_device(run, device.node, device.value, "literal", name)
            return tensor(with_rank(device_places(run, device, node), 1))
        return tensor(tuple(p._replace(rank=1) for p in value.places), value.certainty)
    return _general_method(run, node, func, name, value, arguments, env)


def _copied_into(
    run: Interpreter, node: cst.Call, func: cst.Attribute, value: Value, source: Value, env: Env
) -> Value:
    """`buffer.copy_(t, non_blocking=True)`: what the buffer on the host holds arrives later."""
    key = dotted(func.value)
    if source.on_host or key is None:
        return value
    run.timeline.copies(node)
    places = tuple(p._replace(origin=node) for p in value.places)
    env[key] = value.but(places=places, facts=value.facts | {"pending"})
    return env[key]


#: Beginnings of the in-place methods that write pieces of other data.
_WRITING = ("copy_", "scatter_", "index_", "masked_", "put_", "fill_diagonal_")


#: Methods that bound what they are called on.
def _may_be_layer(value: Value) -> bool:
    """Whether an attribute of a Module is called a tensor for the name of its method alone, which a layer may have."""
    if value.certainty is Certainty.KNOWN or value.facts or not value.places:
        return False
    return all(p.place.where is Where.OF_MODULE for p in value.places)


_CLIPPING = frozenset(["clamp_", "clip_", "clamp_min_", "clamp_max_"])


#: Methods that take a 0-dim tensor wherever they take a number.
_TAKING_NUMBERS = frozenset(
    "add sub mul div true_divide masked_fill eq ne gt lt ge le clamp clamp_min clamp_max".split()
)


#: Methods that read no element.
_VIEWING = frozenset(
    "view reshape detach squeeze unsqueeze permute transpose t flatten size dim numel expand unbind chunk split"
    " is_contiguous record_stream stride type_as to cuda pin_memory is_pinned data_ptr".split()
)


def read_tensor(run: Interpreter, node: cst.Call, name: str, value: Value) -> Value:
    """`t.item()`, `t.tolist()`: the host waits for the tensor's value."""
    emit_sync(run, node, name, value)
    event = run.events.get((Sync, node))
    copied = run.events.get((Sync, node.func.value)) if type(node.func) is cst.Attribute else None
    if isinstance(copied, Sync) and name == "item":
        copied.spared = True  # `t.cpu().item()` reads a number, too
    if isinstance(event, Sync) and type(node.func) is cst.Attribute:
        event.each = name == "item" and _is_one_of_many(run, node.func.value, value)
    number = number_read(node)
    return number if name == "item" else sequence(element=number)


def _is_one_of_many(run: Interpreter, receiver: cst.BaseExpression, value: Value) -> bool:
    """Whether a read is one of a loop over the rows of a tensor, or over the gradients of a model."""
    if "row" in value.facts:
        return type(receiver) is cst.Name
    loops = run.scene.loops
    return "of grad" in value.facts and bool(loops) and id(loops[-1]) in run.usage.parts_loops


def _general_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if not torch_api.is_method(name):
        return UNKNOWN
    if name in CASTS and run.move_uses.get(node) is Use.DROPPED:
        run.emit(
            Move(
                node,
                run.scene,
                name,
                func.value,
                value,
                value,
                False,
                dtype=name,
                use=Use.DROPPED,
                row=run.rows.get(node),
            )
        )
    if name.rstrip("_") in _TAKING_NUMBERS:
        for operand in arguments.positional:
            spare(run, operand.value)
    overloads = torch_api.method_overloads(name)
    operands, scalars, binding = bound_operands(run, name, overloads, arguments)
    for operand in () if _may_be_layer(value) else scalars:
        emit_sync(run, operand.node, f"{name}({operand.role}=tensor)", operand.value, hidden=True)
    if name in torch_api.HIDDEN_SYNC_METHODS:
        unless = torch_api.SYNC_UNLESS.get(name)
        if (unless is None or unless not in arguments.named) and waits(name, arguments.all()):
            emit_sync(run, node, name, value, hidden=True)
    in_place = name.endswith("_") and not name.startswith("_")
    if name in _CLIPPING and "of grad" in value.facts:
        run.emit(GradUse(node, run.scene, "clip"))
    receiver = Operand(func.value, value, "in place" if in_place else "operand")
    if in_place and run.frame.function is not None and "fresh" not in value.facts:
        run.frame.function.changes |= any(p.place.where is not Where.HOST for p in value.places)
    if in_place and name.startswith(_WRITING):
        _note_filled(func.value, value, env)
    if name == "copy_":
        source = arguments.value("src", 0)
        if value.on_host and source is not None and is_non_blocking(name, arguments):
            return _copied_into(run, node, func, value, source, env)
        if (
            source is not None
            and source.kind is Kind.TENSOR
            and value.on_host
            and source.places
            and not source.may_be_on_host
        ):
            emit_sync(run, node, "copy_", source, hidden=True)
        return value
    if name in ("expand_as", "view_as", "reshape_as"):
        # What is expanded loses no dimension.
        kept = 1 if name == "expand_as" and value.places and all(p.rank == 1 for p in value.places) else None
        return value.but(places=with_rank(value.places, kept), facts=value.facts - LOSSY)
    strict = is_strict(name, binding)
    mixed = (
        mix(run, node, name, [receiver, *operands], in_place=in_place, strict=strict) if operands else value
    )
    if in_place:
        return value if value.places else mixed
    rank = _method_rank(name, value, mixed, arguments, binding)
    places = with_rank(mixed.places if operands else value.places, rank)
    facts = frozenset(f for f in (mixed.facts | value.facts) - LOSSY if not f.startswith("like:"))
    if name in ("mean", "sum") and not arguments.positional and not arguments.named:
        facts |= {"loss"}
    if name in (
        "bool",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "logical_and",
        "logical_or",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
    ):
        facts |= {"mask"}
    if name in WITHOUT_GRADIENT:
        facts = facts - {"grad"} | {"cut"}
    plain = Value(Kind.TENSOR, places, value.certainty, facts=facts)
    return result_of(binding, plain)


#: Methods whose result has at least one dimension whatever they are given.
_SPREADING = frozenset("unsqueeze flatten ravel repeat nonzero unfold tile expand_as masked_select".split())


_SHAPED = frozenset(["view", "reshape", "expand"])


def _method_rank(
    name: str, value: Value, mixed: Value, arguments: Arguments, binding: Binding | None
) -> int | None:
    if name in _SPREADING:
        return 1
    if name in _SHAPED and arguments.positional:
        only = arguments.positional[0].value
        if len(arguments.positional) == 1 and only.kind is Kind.SEQUENCE and only.items == ():
            return 0
        return 1
    if name in _SHAPED and arguments.starred and any(p.rank == 1 for p in value.places):
        return 1  # `view(*x.shape)`: what has dimensions is laid out like what has some
    known = binding.rank if binding is not None else None
    if known is torch_api.Rank.ZERO:
        return None if keeps_dimensions(arguments, 0) else 0
    if known is torch_api.Rank.SOME:
        return 1
    source = (
        {torch_api.Rank.FIRST: value, torch_api.Rank.SAME: mixed}.get(known) if known is not None else None
    )
    if source is None:
        return None
    ranks = {p.rank for p in source.places}
    return ranks.pop() if len(ranks) == 1 else None


def _note_filled(written: cst.BaseExpression, value: Value, env: Env) -> None:
    """`x.copy_(…)`, `x[i].copy_(…)`: a tensor is written, or a piece of it."""
    whole = written
    while type(whole) is cst.Subscript:
        whole = whole.value
    key = dotted(whole)
    held = value if whole is written else env.get(key) if key is not None else None
    if key is not None and held is not None and held.kind is Kind.TENSOR:
        env[key] = held.but(facts=held.facts | {"filled"})
