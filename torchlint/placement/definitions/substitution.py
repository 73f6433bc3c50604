"""A function's summary in terms of one call: arguments bound, and what its parameters decide decided."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.syntax import words
from torchlint.placement.values import (
    HOST,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    Where,
    place_named,
    sequence,
    union,
)

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Function

#: How deep containers are followed.
_DEEPEST = 3
_IS_NONE = " Is None"
#: What guards begin with that a call left open: whether they hold, the function alone could tell.
_OPEN = "in call "
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
#: A question whether a parameter is a tensor, as code writes it.
_IS_TENSOR = re.compile(r"isinstance\((\w+), (?:(?:torch|th)\.)?Tensor\)\Z|(?:(?:torch|th)\.)?is_tensor\((\w+)\)\Z")
#: Kinds that are no tensors, whatever else is known of them.
_NO_TENSORS = frozenset([Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.NONE, Kind.SEQUENCE, Kind.MAPPING, Kind.MODULE])

#: None for a parameter that the function binds anew, as in `if device is None: device = …`.
_REPLACED = Value(Kind.NONE, facts=frozenset({"replaced"}))


def bind_arguments(
    function: Function, positional: Iterable[Value], keywords: dict[str, Value], *, complete: bool = True
) -> dict[str, Value]:
    """Which value each parameter gets.

    complete: the call passes nothing else, so that a parameter it leaves out has its default.
    """
    bound = dict(zip(function.parameters, positional))
    for name, value in keywords.items():
        if name in function.parameters:
            bound[name] = value
    if complete:
        for name, value in function.defaults.items():
            bound.setdefault(name, value)
    rebound = function.run.usage.of(function.node).assigned
    for name, value in bound.items():
        if value.kind is Kind.NONE and rebound.get(name):
            bound[name] = _REPLACED
    return bound


def substitute(value: Value, bound: dict[str, Value], call: object = None, depth: int = 0) -> Value:
    """A summary's value in terms of a call: what belongs to a parameter is where its argument is.

    call: the call's node; conditions inside of the function that stay open are told apart by it.
    """
    if depth > _DEEPEST or value is UNKNOWN or _is_settled(value):
        return value
    places: tuple[Alternative, ...] = ()
    facts = value.facts
    for alternative in value.places:
        guards = _decided(alternative.guards, bound, call)
        if guards is None:
            continue
        found, more = _placed(alternative._replace(guards=guards), value, bound)
        places = union(places, found)
        facts |= more
    if "joint" in facts and any(not p.place.is_host for p in places):
        # What was joined is in one place; that the operands were not, the call was judged for.
        if any(p.place.is_host and p.rank != 0 for p in places) and any(p.place.is_named for p in places):
            facts |= {"mixed"}
        places = tuple(p for p in places if not p.place.is_host)
    kind = value.kind
    like = [f[5:] for f in facts if f.startswith("like:")]
    if like:
        argument = bound.get(like[0])
        facts = frozenset(f for f in facts if not f.startswith("like:"))
        if argument is not None and kind is Kind.UNKNOWN:
            kind = argument.kind
            facts |= frozenset(f for f in argument.facts if f.startswith("like:"))
            if kind in (Kind.SEQUENCE, Kind.MAPPING, Kind.MODULE, Kind.OBJECT):
                return argument if not places else argument.but(places=places)
    items, element = value.items, value.element
    if items is not None:
        items = tuple(substitute(i, bound, call, depth + 1) for i in items)
        element = sequence(items).element
    elif element is not None:
        element = substitute(element, bound, call, depth + 1)
    keys = {k: substitute(v, bound, call, depth + 1) for k, v in value.keys.items()} if value.keys else None
    return value.but(kind=kind, places=places, facts=facts, items=items, element=element, keys=keys)


def _is_settled(value: Value) -> bool:
    """Whether a value holds no other, and no argument can say more of it."""
    if value.places or value.items is not None or value.element is not None or value.keys:
        return False
    return not value.facts or not any(fact.startswith("like:") for fact in value.facts)


def _placed(
    alternative: Alternative, value: Value, bound: dict[str, Value]
) -> tuple[tuple[Alternative, ...], frozenset[str]]:
    """Where an alternative of the summary is for this call, and what that brings along."""
    where, name, _ = alternative.place
    nothing: frozenset[str] = frozenset()
    argument = bound.get(name) if where in (Where.OF_CALLER, Where.NAMED) else None
    if where is Where.OF_CALLER:
        if argument is None:
            return (), nothing
        own = f"like:{name}" in value.facts
        found = tuple(
            p._replace(
                rank=alternative.rank if alternative.rank is not None else p.rank if own else None,
                guards=p.guards | alternative.guards,
            )
            for p in argument.places
        )
        return found, argument.facts & {"assumed", "filled"}
    if argument is None:
        # The device of something that only the function knows says nothing here.
        local = where is Where.NAMED and name.endswith(".device") and not name.startswith("self.")
        return ((), nothing) if local else ((alternative,), nothing)
    if argument.kind is Kind.NONE:
        if "replaced" in argument.facts:
            return (alternative,), nothing  # it is a device that the function chooses itself
        # device=None: wherever new tensors are by default; `to(None)` moves nothing.
        moved = isinstance(alternative.origin, cst.Call) and words(alternative.origin.func).endswith((".to", ".cuda"))
        return () if moved else (alternative._replace(place=HOST),), nothing
    if argument.kind is Kind.STRING and argument.name:
        return (alternative._replace(place=place_named(argument.name)),), nothing
    named = tuple(
        p._replace(rank=alternative.rank, origin=p.origin or alternative.origin, guards=p.guards | alternative.guards)
        for p in argument.places
    )
    return named or (alternative,), nothing


def _decided(
    guards: frozenset[tuple[str, bool]], bound: dict[str, Value], call: object
) -> frozenset[tuple[str, bool]] | None:
    """The guards that the arguments leave open, made this call's own; None where an argument excludes them."""
    if not guards:
        return guards
    left = set()
    for condition, truth in guards:
        if condition.endswith(_IS_NONE) and "optional" in bound.get(condition[: -len(_IS_NONE)], UNKNOWN).facts:
            continue  # both happen
        known = truth_of(condition, bound)
        if known is None:
            left.add((f"{_OPEN}{id(call)}: {condition}", truth))
        elif known is not truth:
            return None
    return frozenset(left)


def is_open(alternative: Alternative) -> bool:
    """Whether an alternative hangs on a condition within a function that was called."""
    return any(condition.startswith(_OPEN) for condition, _ in alternative.guards)


def truth_of(condition: str, bound: dict[str, Value]) -> bool | None:
    """Whether a condition on a parameter holds for the values given; None where they do not say."""
    if condition.endswith(_IS_NONE):
        value = bound.get(condition[: -len(_IS_NONE)])
        return None if value is None or value.kind is Kind.UNKNOWN else value.kind is Kind.NONE
    asked = _IS_TENSOR.match(condition)
    if asked is not None:
        return _is_tensor(bound.get(asked[1] or asked[2], UNKNOWN))
    if not _NAME.match(condition):
        return None
    value = bound.get(condition)
    if value is None:
        return None
    if value.kind is Kind.NONE:
        return False
    if value.kind is Kind.NUMBER and value.name in ("True", "False"):
        return value.name == "True"
    return True if value.kind in (Kind.DEVICE, Kind.MODULE, Kind.DTYPE, Kind.GENERATOR) else None


__all__ = ["bind_arguments", "is_open", "substitute", "truth_of"]


def _is_tensor(value: Value) -> bool | None:
    if value.certainty is Certainty.GUESSED or "optional" in value.facts:
        return None
    return True if value.kind is Kind.TENSOR else False if value.kind in _NO_TENSORS else None
