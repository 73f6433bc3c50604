"""Clipping, and calls of `torch.autograd`."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import mix
from torchlint.placement.events import (
    Backward,
    GradUse,
)
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.torch_functions.contexts import node_of
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    UNKNOWN,
    Certainty,
    Kind,
    Value,
    element_of,
    sequence,
    with_rank,
)


@api(
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.get_total_norm",
)
def _clip(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    run.emit(GradUse(node, run.scene, name.rsplit(".", 1)[-1]))
    if "value" in name:
        return UNKNOWN
    given = arguments.value("parameters", 0) or UNKNOWN
    inner = element_of(given) if given.kind is Kind.SEQUENCE else given
    return Value(Kind.TENSOR, with_rank(inner.places, 0), Certainty.KNOWN, facts=frozenset({"loss", "of grad"}))


@api("torch.autograd.backward")
def _backward(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("tensors", 0)
    value = given.value if given is not None else UNKNOWN
    run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=node_of(given)))
    return UNKNOWN


@api("torch.autograd.grad")
def _grad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = [arguments.find("outputs", 0), arguments.find("grad_outputs", 2)]
    if all(operand is not None for operand in given):
        # A gradient has to be where its output is (torch/csrc/autograd/engine.cpp, `validate_outputs`).
        mix(run, node, "grad", [operand for operand in given if operand is not None])
    inputs = arguments.value("inputs", 1) or UNKNOWN
    inner = element_of(inputs) if inputs.kind is Kind.SEQUENCE else inputs
    # What hangs on one graph is in one place.
    places = inner.places or tuple(
        p._replace(rank=None) for p in (arguments.value("outputs", 0) or UNKNOWN).places if p.place.is_named
    )
    return sequence(element=Value(Kind.TENSOR, places, Certainty.INFERRED))
