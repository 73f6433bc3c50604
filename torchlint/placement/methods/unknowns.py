"""Methods of receivers that nothing tells the kind of."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.events import (
    Backward,
    GradUse,
    Step,
)
from torchlint.placement.evidence.kinds import distinguishes_tensor, speaks_of_array
from torchlint.placement.hazards.graphs import keep, keeper_of
from torchlint.placement.hazards.syncs import may_wait
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.methods.containers import GROWING, mapping_method
from torchlint.placement.methods.modules import (
    EMBEDDINGS,
    GENERATION,
    module_method,
    scaler_method,
    switch_mode,
)
from torchlint.placement.methods.moves import CASTS
from torchlint.placement.methods.tensors import copied_before, read_tensor, tensor_method
from torchlint.placement.syntax import dotted
from torchlint.placement.timeline import read_pending
from torchlint.placement.values import (
    ARRAY,
    HOST,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    Where,
    sequence,
    tensor,
    with_rank,
)


def unknown_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    receiver = dotted(func.value) or ""
    last = receiver.rsplit(".", 1)[-1].lower()
    if name in ("parameters", "named_parameters", "modules", "children", "named_modules", "state_dict"):
        return module_method(
            run, node, func, name, value.but(kind=Kind.MODULE, certainty=Certainty.INFERRED), arguments, env
        )
    if name in ("eval", "train") and len(arguments.all()) <= (name == "train"):
        switch_mode(run, name, arguments)
        return value.but(kind=Kind.MODULE, certainty=min(value.certainty, Certainty.INFERRED))
    if name in EMBEDDINGS:
        return Value(Kind.MODULE, (), Certainty.INFERRED)
    if (
        name == "generate"
        and arguments.named.keys() & GENERATION
        and "return_dict_in_generate" not in arguments.named
    ):
        return tensor((), Certainty.INFERRED)
    wanted = arguments.value("return_tensors")
    if name == "encode" and wanted is not None and wanted.name == "pt":
        # A tokenizer's `encode` gives the ids alone, as a tensor on the CPU.
        return tensor((Alternative(HOST, 1, node),), Certainty.INFERRED)
    if name == "backward":
        if arguments.positional:
            run.emit(
                Backward(
                    node, run.scene, arguments.positional[0].value, owner=receiver, loss=node.args[0].value
                )
            )
        else:
            run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=func.value))
        return UNKNOWN
    if name == "scale" and len(arguments.positional) == 1 and not _is_scaler(run, receiver, last, name):
        # Where this goes backward, what scales is a GradScaler.
        given = arguments.positional[0].value
        return Value(Kind.UNKNOWN, given.places, Certainty.INFERRED, facts=given.facts | {"scaled"})
    if _is_scaler(run, receiver, last, name) or (name == "step" and _steps_optimizer(run, last, arguments)):
        # What an unknown call gave may follow a protocol of its own.
        sure = Certainty.GUESSED if "assumed" in value.facts else Certainty.INFERRED
        return scaler_method(
            run, node, func, name, value.but(kind=Kind.SCALER, certainty=sure), arguments, env
        )
    if name == "step" and _is_optimizer(run, receiver, last):
        run.emit(Step(node, run.scene, value.but(kind=Kind.OPTIMIZER, certainty=Certainty.INFERRED)))
        return UNKNOWN
    if name == "clip_grad_norm_":
        run.emit(GradUse(node, run.scene, name))
        return UNKNOWN
    if name in ("items", "values", "keys", "get"):
        inner = Value(Kind.UNKNOWN, value.places, value.certainty, facts=value.facts & {"assumed"})
        return mapping_method(run, node, func, name, Value(Kind.MAPPING, element=inner), arguments, env)
    if name in GROWING and arguments.positional:
        kept = arguments.positional[-1]
        if isinstance(kept.node, cst.BaseExpression):
            keep(run, node, kept.node, kept.value, name, keeper_of(func.value))
        return UNKNOWN
    if name in ("numpy", "item", "tolist", "detach"):
        copied_before(run, func.value)
        if name != "detach":
            read_pending(run, node, name, value)
    if name == "numpy":
        if value.places and all(p.place.where is Where.NAMED for p in value.places):
            # It was moved, and what has both `to` and `numpy` is a tensor.
            return tensor_method(run, node, func, name, _as_tensor(value), arguments, env)
        return ARRAY.at(value.places if value.on_host else ())
    in_module = bool(value.places) and all(p.place.where is Where.OF_MODULE for p in value.places)
    speaks = distinguishes_tensor(name) or (in_module and speaks_of_array(name))
    if speaks and not _refuted(run, receiver):
        return tensor_method(
            run, node, func, name, value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED), arguments, env
        )
    if name == "item" and len(arguments.positional) == 0 and not _refuted(run, receiver):
        # NumPy has it, too; but what NumPy gives is known as an array or a number.
        return read_tensor(run, node, name, value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))
    if name == "tolist" and may_wait(value):
        return read_tensor(run, node, name, value)
    if name in ("size", "dim", "numel", "item", "tolist"):
        return sequence(element=NUMBER) if name == "size" and not arguments.positional else NUMBER
    from torchlint.placement.calls.dispatch import unknown_call

    waited = run.timeline.waited
    result = unknown_call(run, UNKNOWN, node, arguments, env)
    if torch_api.is_method(name) and result.kind is Kind.UNKNOWN:
        run.timeline.waited = waited
        # Whatever it is, what comes of it is where it is.
        facts = value.facts - {"fresh"}
        if name in CASTS and "fresh" in value.facts and value.places:
            # It was moved, and what has both `to` and `long` is a tensor: a Module has no `long`.
            return Value(Kind.TENSOR, with_rank(value.places, None), Certainty.INFERRED, facts=_cast(name, facts))
        if name in _COMPUTING and value.facts & _OF_TENSORS and value.places and not value.on_host:
            facts |= {"computed"}
        return Value(
            Kind.UNKNOWN, tuple(p._replace(rank=None) for p in value.places), Certainty.INFERRED, facts=facts
        )
    return result


def _cast(name: str, facts: frozenset[str]) -> frozenset[str]:
    return facts | {"mask"} if name == "bool" else facts


#: Facts of what is a tensor if it computes: a model or a move gave it, or a gradient flows through it.
_OF_TENSORS = frozenset({"assumed", "grad", "output", "fresh"})


#: Methods that compute: what they are called on is a tensor or an array.
_COMPUTING = frozenset(
    "sum mean max min argmax argmin abs any all norm std var median prod sqrt exp log log2 log10 pow float long int"
    " double half eq ne gt lt ge le clamp softmax sigmoid tanh round add sub mul div squeeze view reshape"
    " flatten".split()
)


def _as_tensor(value: Value) -> Value:
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


def _refuted(run: Interpreter, receiver: str) -> bool:
    used = run.frame.usage.attributes.get(receiver)
    if not used:
        return False
    return not {a for a in used if not a.endswith(("()", "=", "]"))} <= torch_api.TENSOR_ATTRIBUTES


def _is_optimizer(run: Interpreter, receiver: str, last: str) -> bool:
    """Whether what steps is an optimizer, told by its name or by the gradients that it zeroes."""
    if "optim" in last or last in ("opt", "optimiser", "sgd", "adam"):
        return True
    return "zero_grad" in run.frame.usage.attributes.get(receiver, set())


def _steps_optimizer(run: Interpreter, last: str, arguments: Arguments) -> bool:
    """Whether an optimizer is what is stepped: nothing but scalers takes one."""
    if len(arguments.positional) != 1 or "sched" in last:
        return False
    operand = arguments.positional[0]
    if operand.value.kind is Kind.OPTIMIZER:
        return True
    name = dotted(operand.node)
    return (
        name is not None
        and operand.value.kind is Kind.UNKNOWN
        and _is_optimizer(run, name, name.rsplit(".", 1)[-1].lower())
    )


def _is_scaler(run: Interpreter, receiver: str, last: str, name: str) -> bool:
    if name not in ("scale", "unscale_", "step", "update", "get_scale"):
        return False
    if "scaler" in last or name == "get_scale":
        return True
    used = run.frame.usage.attributes.get(receiver, set())
    return "unscale_" in used or {"scale", "step"} <= used
