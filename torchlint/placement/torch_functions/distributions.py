"""Distributions of torch: they sample where their parameters are, and compare with what is there.

Source: torch/distributions (`rsample` and `log_prob` compute with `loc`, `scale`, `probs`, … as they were given).
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.operations import as_tensor_if_moved, mix
from torchlint.placement.events import Operand
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    DISTRIBUTION,
    HOST,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    tensor,
    union,
    with_rank,
)

PREFIX = "torch.distributions."
#: Distributions over another one.
_AROUND = frozenset(["Independent", "TransformedDistribution"])
_ATTRIBUTES = frozenset(
    "mean mode variance stddev loc scale probs logits rate concentration low high covariance_matrix scale_tril".split()
)
#: Methods that draw as many values as they are told.
_SAMPLING = frozenset(["sample", "rsample", "sample_n"])
#: Methods that compute with a tensor of the caller's.
_COMPARING = frozenset(["log_prob", "cdf", "icdf"])


def make_distribution(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    """A distribution over its parameters; numbers become tensors of the CPU."""
    last = name.rpartition(".")[2]
    given = arguments.all()
    if last in _AROUND:
        inner = given[0].value if given else UNKNOWN
        return inner if last == "Independent" else UNKNOWN
    if not last[:1].isupper() or last.endswith(("Transform", "Constraint")) or not given or arguments.unpacked:
        return UNKNOWN
    parameters = [as_tensor_if_moved(o.value) for o in given if o.value.kind is not Kind.NONE]
    if any(v.kind not in (Kind.TENSOR, Kind.NUMBER) for v in parameters):
        return UNKNOWN
    tensors = [v for v in parameters if v.kind is Kind.TENSOR]
    if not tensors:
        return Value(Kind.OBJECT, (Alternative(HOST, 0, node),), name=DISTRIBUTION)
    certainty = min(v.certainty for v in tensors)
    if len({v.on_host for v in tensors}) > 1 or any(not v.places for v in tensors):
        return Value(Kind.OBJECT, (), certainty, name=DISTRIBUTION)
    places: tuple[Alternative, ...] = ()
    for value in tensors:
        places = union(places, value.places)
    facts = frozenset.union(*(v.facts for v in tensors)) & {"grad", "assumed", "filled", "doubtful"}
    return Value(Kind.OBJECT, places, certainty, name=DISTRIBUTION, facts=facts)


def distribution_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments
) -> Value:
    """`normal.sample((3,))`, `categorical.log_prob(action)`, `posterior.entropy()`."""
    own = Operand(func.value, _parameters(value))
    if name in _SAMPLING:
        sizes = any(o.value.items != () for o in arguments.all())
        facts = own.value.facts if name == "rsample" else own.value.facts - {"grad"} | {"cut"}
        places = with_rank(value.places, 1) if sizes else value.places
        return tensor(places, value.certainty, facts)
    if name in _COMPARING:
        given = [replace(o, value=_compared(o.value)) for o in arguments.positional]
        return mix(run, node, name, [own, *given]).but(facts=own.value.facts)
    if name in ("entropy", "perplexity", "enumerate_support"):
        return tensor(with_rank(value.places, None), value.certainty, own.value.facts)
    if name == "expand":
        return value.at(with_rank(value.places, 1))
    return UNKNOWN


def _compared(value: Value) -> Value:
    """What a distribution is asked about is a tensor."""
    if value.kind is not Kind.UNKNOWN or not value.places or "assumed" in value.facts:
        return value
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


def distribution_attribute(value: Value, name: str) -> Value:
    """`posterior.mean`."""
    return _parameters(value) if name in _ATTRIBUTES else UNKNOWN


@api("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence")
def _divergence(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: object) -> Value | None:
    """It computes with the parameters of both."""
    both = arguments.positional
    if len(both) != 2 or any(o.value.name != DISTRIBUTION for o in both):
        return UNKNOWN
    return mix(run, node, "kl_divergence", [Operand(o.node, _parameters(o.value)) for o in both])


def _parameters(value: Value) -> Value:
    return tensor(value.places, min(value.certainty, Certainty.INFERRED), value.facts)


__all__ = ["PREFIX", "distribution_attribute", "distribution_method", "make_distribution"]
