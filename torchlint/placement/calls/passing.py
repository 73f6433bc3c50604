"""What a call hands to the operations within the function: what they join may turn out to live in different places."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.accelerators import apart
from torchlint.placement.calls.operations import mix, note_parameters
from torchlint.placement.definitions.records import Function, Joined
from torchlint.placement.definitions.substitution import truth_of
from torchlint.placement.events import Operand
from torchlint.placement.syntax import argument, dotted, mentions
from torchlint.placement.values import (
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    place_named,
    with_rank,
)

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: What holds tensors: what is said of it is said of them.
_HOLDERS = frozenset([Kind.LOADER, Kind.SEQUENCE, Kind.MAPPING, Kind.OWNED])
_BATCH = frozenset(["batch", "collated"])


def judge_call(
    run: Interpreter, function: Function, node: cst.Call, bound: dict[str, Value], me: Value | None
) -> None:
    """An operation inside joins two parameters, or one with the Module's state or with what is on a device that the
    function names: this call may give it a tensor, a batch or a Module that is on the host."""
    if me is None:
        me = _same_instance(run, function)
    for (first, second), (where, *inner, conditions) in function.mixes.items():
        if not _holds(conditions, function, bound):
            continue
        a, b = _given(function, first, bound, me), _given(function, second, bound, me)
        if a is None or b is None:
            continue
        own = function.run is run
        nodes = [_argument(node, function, name) for name in (first, second)]
        handed = [Operand(n or (i if own else node), v) for n, i, v in zip(nodes, inner, (a, b))]
        for accused, witness, name in ((a, b, first), (b, a, second)):
            if not _judges(accused, witness):
                continue
            if (not accused.may_be_on_host or witness.may_be_on_host) and apart(run, accused, witness) is None:
                continue
            if own and _is_collection(name, bound):
                # It is the function that takes it apart and has to move its parts.
                mix(run, where, function.name, [Operand(n, v) for n, v in zip(inner, (a, b))], within=node)
            else:
                mix(run, node, function.name, handed, within=where if own else None)
            break
        else:
            note_parameters(run, node, handed)


#: Conditions on these decide where things are; what they are about, the call does not say.
_OF_DEVICES = re.compile(r"device|cuda|gpu|cpu|mps", re.IGNORECASE)


def _holds(conditions: frozenset[tuple[str, bool]], function: Function, bound: dict[str, Value]) -> bool:
    """Whether an operation runs in this call, as far as its conditions depend on the arguments."""
    for condition, truth in conditions:
        known = truth_of(condition, bound)
        if known is None:
            if mentions(condition, function.parameters) or _OF_DEVICES.search(condition):
                return False
        elif known is not truth:
            return False
    return True


def _same_instance(run: Interpreter, function: Function) -> Value | None:
    """The Module whose method calls another one of its own."""
    caller = run.frame.function
    if caller is None or caller.owner is None or function.owner is None or not caller.owner.is_module:
        return None
    if function.owner not in caller.owner.lineage():
        return None
    home = Place(Where.OF_MODULE, caller.owner.name)
    certainty = Certainty.KNOWN if caller.owner.is_known_module else Certainty.INFERRED
    return Value(Kind.MODULE, (Alternative(home),), certainty, ref=caller.owner)


def _judges(accused: Value, witness: Value) -> bool:
    """Whether two arguments are tensors or Modules that can't be joined as they are."""
    if Kind.UNKNOWN in (accused.kind, witness.kind):
        return False
    if "handed" in witness.facts and not all(p.place.is_named for p in witness.places):
        return False  # nothing but its use says what it is, and nobody knows where
    return not any(v.kind is Kind.MODULE and v.facts & {"wrapped", "quantised"} for v in (accused, witness))


def _is_collection(name: Joined, bound: dict[str, Value]) -> bool:
    value = bound.get(name) if isinstance(name, str) else None
    return value is not None and value.kind is Kind.LOADER


def _given(function: Function, name: Joined, bound: dict[str, Value], me: Value | None) -> Value | None:
    """What a call gives an operation, as far as it is a tensor, a Module, or perhaps one."""
    if isinstance(name, Place):
        return _at(name, bound)
    if name == "":
        return me
    value = bound.get(name)
    held = value is not None and value.kind in _HOLDERS
    value = _leaf(value)
    if value is None or value.kind not in (Kind.TENSOR, Kind.MODULE, Kind.UNKNOWN):
        return None
    if value.kind is Kind.UNKNOWN and "perhaps" in value.facts:
        return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    if value.kind is Kind.UNKNOWN and value.places and "assumed" not in value.facts:
        wanted = function.kinds.get(name, Kind.UNKNOWN)
        if wanted not in (Kind.TENSOR, Kind.MODULE) and value.on_host and value.facts & _BATCH:
            wanted = Kind.TENSOR
        if wanted in (Kind.TENSOR, Kind.MODULE) and not (held and wanted is Kind.MODULE):
            facts = value.facts | {"handed"}
            return value.but(kind=wanted, certainty=min(value.certainty, Certainty.INFERRED), facts=facts)
    return value


def _leaf(value: Value | None, depth: int = 0) -> Value | None:
    """The tensor, or what may be one, that a collection holds; None where its items differ in place."""
    if value is None or value.kind not in _HOLDERS or depth > 3:
        return value
    if value.items:
        leaves = [_leaf(item, depth + 1) for item in value.items]
        known = [leaf for leaf in leaves if leaf is not None and leaf.kind in (Kind.TENSOR, Kind.UNKNOWN)]
        alike = {leaf.on_host for leaf in known}
        return known[0] if len(alike) == 1 else None
    return _leaf(value.element, depth + 1)


def _at(place: Place, bound: dict[str, Value]) -> Value | None:
    """A tensor on the device that the function names, in terms of the call; None where that may be the host."""
    places: tuple[Alternative, ...] = (Alternative(place, 1),)
    device = bound.get(place.name)
    if device is not None:
        if device.kind is Kind.STRING and device.name:
            places = (Alternative(place_named(device.name), 1),)
        elif device.kind is Kind.DEVICE and device.places:
            places = with_rank(device.places, 1)
        else:
            return None
    elif place.name.endswith(".device") and not place.name.startswith("self."):
        return None
    return None if any(p.place.is_host for p in places) else Value(Kind.TENSOR, places, Certainty.INFERRED)


def _argument(node: cst.Call, function: Function, name: Joined) -> cst.BaseExpression | None:
    """The argument of a call that a parameter gets."""
    if name not in function.parameters:
        if name != "":
            return None
        return node.args[0].value if _handed_over(node, function) else node.func
    return argument(node, str(name), function.parameters.index(str(name)) + _handed_over(node, function))


def _handed_over(node: cst.Call, function: Function) -> bool:
    """Whether the call hands the function to what calls it: `checkpoint(self.block, x)`."""
    given = dotted(node.args[0].value) if node.args else None
    named = (dotted(node.func) or "").rpartition(".")[2] == function.name
    return not named and given is not None and given.rpartition(".")[2] == function.name
