"""What `value[index]` is."""

from __future__ import annotations

from typing import Any

import libcst as cst

from torchlint.placement.calls.operations import as_tensor_if_moved, check_index
from torchlint.placement.calls.owing import note_picked
from torchlint.placement.events import Operand
from torchlint.placement.evidence.flags import as_flag
from torchlint.placement.hazards.syncs import demand, demand_host, emit_sync
from torchlint.placement.interpreter import Env, Interpreter, expression, key_of
from torchlint.placement.syntax import dotted, integer, string, words
from torchlint.placement.values import (
    ARRAY,
    DOUBLES,
    NUMBER,
    UNKNOWN,
    Certainty,
    Kind,
    Value,
    element_of,
    narrowed,
    with_rank,
)


def is_symbolic(value: Value) -> bool:
    return bool(value.places) and not value.may_be_on_host


@expression(cst.Subscript)
def subscript(run: Interpreter, node: cst.Subscript, env: Env) -> Value:
    value = _subscript(run, node, env)
    index = node.slice[0].slice
    key = string(index.value) if type(index) is cst.Index else None
    return value if key is None else as_flag(value, key)


def _subscript(run: Interpreter, node: cst.Subscript, env: Env) -> Value:
    base = run.evaluate(node.value, env)
    key = key_of(node)
    if key is not None and key in env:
        return narrowed(env[key], run.scene.conditions)
    plain = [e.slice.value for e in node.slice if type(e.slice) is cst.Index]
    indices = [run.evaluate(i, env) for i in plain]
    for element in node.slice:
        if type(element.slice) is cst.Slice:
            for bound in (element.slice.lower, element.slice.upper):
                if bound is not None:
                    read = run.evaluate(bound, env)
                    demand(run, read)
                    demand_host(run, bound)
                    emit_sync(run, element.slice, "slice bound", read, hidden=True)
    for index in indices:
        if base.kind is not Kind.TENSOR:
            demand(run, index)
    if base.kind in (Kind.TENSOR, Kind.UNKNOWN) and any(i.kind in (Kind.UNKNOWN, Kind.TENSOR) for i in indices):
        run.timeline.picks()
    if _is_old_item(node, base):
        return NUMBER
    if base.kind is Kind.TENSOR:
        return _index_tensor(run, node, base, plain, indices)
    if _is_copied_to_host(base) and any(i.kind is Kind.TENSOR for i in indices):
        return _index_tensor(run, node, as_tensor_if_moved(base), plain, indices)
    single = len(node.slice) == 1 and len(plain) == 1
    if base.kind is Kind.MAPPING or base.keys:
        key = string(plain[0]) if single else None
        if key is not None and base.keys and key in base.keys:
            return base.keys[key]
        if base.element is not None:
            return base.element
        return Value(Kind.UNKNOWN, base.places, base.certainty)
    if base.kind is Kind.SEQUENCE:
        position = integer(plain[0]) if single else None
        if position is not None and base.items is not None and -len(base.items) <= position < len(base.items):
            return base.items[position]
        if not single:
            return base.but(items=None)
        return element_of(base)
    if base.kind is Kind.ARRAY:
        return DOUBLES if "float64" in base.facts else ARRAY
    if base.kind is Kind.DATASET:
        from torchlint.placement.knowledge.libraries import item_of

        return item_of(base)
    if base.kind is Kind.OWNED:
        return base.element if base.element is not None else Value(Kind.UNKNOWN, base.places, base.certainty)
    if base.kind is Kind.MODULE:
        return (
            base.element
            if base.element is not None
            else Value(Kind.UNKNOWN, base.places if is_symbolic(base) else ())
        )
    if base.kind is Kind.STRING:
        return Value(Kind.STRING)
    if base.kind is Kind.UNKNOWN:
        if "perhaps" in base.facts:  # a tensor, where it is one
            check_index(run, node, base, [Operand(n, v, "index") for n, v in zip(plain, indices)])
        note_picked(run, node, base, [Operand(n, v, "index") for n, v in zip(plain, indices)])
        places = base.places if "batch" in base.facts else with_rank(base.places, None)
        # What was moved and has several dimensions is a tensor.
        kind = Kind.TENSOR if len(node.slice) > 1 and "fresh" in base.facts and places else Kind.UNKNOWN
        facts = handed_on(base)
        if len(node.slice) > 1 and all(map(_takes_all, node.slice)):
            facts |= frozenset(f for f in base.facts if f.startswith("like:"))  # `lengths[:, None]`: all of it
        return Value(kind, places, min(base.certainty, Certainty.INFERRED), facts=facts)
    return UNKNOWN


def _is_old_item(node: cst.Subscript, base: Value) -> bool:
    """Whether `loss.data[0]` reads a scalar, which gave a number before torch 0.4, and raises since."""
    if type(node.value) is not cst.Attribute or node.value.attr.value != "data" or len(node.slice) != 1:
        return False
    index = node.slice[0].slice
    if type(index) is not cst.Index or integer(index.value) != 0:
        return False
    named = (dotted(node.value.value) or "").rpartition(".")[2].lower()
    scalar = base.kind is Kind.TENSOR and "loss" in base.facts
    return scalar or named.endswith(("loss", "cost")) or named.startswith(("loss", "cost"))


def _is_copied_to_host(value: Value) -> bool:
    """Whether something was sent to the host, so that what takes a tensor as its index is a tensor: no Module does."""
    return value.kind is Kind.UNKNOWN and value.on_host and "fresh" in value.facts


def _takes_all(element: cst.SubscriptElement) -> bool:
    """Whether a part of an index leaves out nothing that a place hangs on: a slice, or a new dimension."""
    return not isinstance(element.slice, cst.Index) or words(element.slice.value) == "None"


#: What makes a row of numbers.
_ROWS = ("linspace", "logspace", "arange")


def _as_batch(run: Interpreter, node: cst.BaseExpression, value: Value, base: Value) -> Value:
    """An index is a tensor where what it takes from a row of numbers is laid out along a batch, or is one-hot."""
    if value.kind is not Kind.UNKNOWN or type(node) is not cst.Name or not value.places or not base.on_host:
        return value
    origin = base.places[0].origin
    made = words(origin.func) if isinstance(origin, cst.Call) else ""
    spread = made.endswith(_ROWS) and "[batch]" in run.frame.usage.attributes.get(node.value, ())
    # The rows of an identity matrix, by the classes of a batch: a forward gets no single one.
    one_hot = made.endswith("eye") and run.scene.role in ("forward", "loss")
    if not spread and not one_hot:
        return value
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


_UNSURE = frozenset({"assumed", "perhaps", "given", "taken", "output"})


_GIVEN = frozenset({"given"})


def handed_on(base: Value) -> frozenset[str]:
    """The facts of a part of something: whether it is as a caller gave it, among others."""
    whole = any(fact.startswith("like:") for fact in base.facts)
    return base.facts & _UNSURE | (_GIVEN if whole else frozenset())


_ELEMENT = frozenset({"element"})


def _index_tensor(
    run: Interpreter, node: cst.Subscript, base: Value, plain: list[Any], indices: list[Value]
) -> Value:
    note_picked(run, node, base, [Operand(n, v, "index") for n, v in zip(plain, indices)])
    indices = [_as_batch(run, index, value, base) for index, value in zip(plain, indices)]
    tensors = [i for i in indices if i.kind is Kind.TENSOR]
    if tensors or any(i.kind is Kind.UNKNOWN for i in indices):
        check_index(run, node, base, [Operand(i, v, "index") for i, v in zip(plain, indices)])
    if tensors:
        for index, value in zip(plain, indices):
            if value.kind is Kind.TENSOR and ("mask" in value.facts or type(index) is cst.Comparison):
                # How much a mask of the host selects is known there.
                emit_sync(run, node, "boolean mask index", value, hidden=True)
    only_slices = all(type(e.slice) is cst.Slice for e in node.slice)
    # An attribute that is None to begin with is a number by the time it is an index.
    widened = any(type(index) is cst.Name and index.value == "None" for index in plain)
    if only_slices or widened:
        rank: int | None = 1  # what has no dimension can't be sliced
    elif (
        (tensors and all(p.rank == 1 for t in tensors for p in t.places) and all(t.places for t in tensors))
        or any(type(e.slice) is cst.Slice for e in node.slice)
        or (all(v.kind is Kind.SEQUENCE for v in indices) and indices)
    ):
        rank = 1
    else:
        rank = None
    facts = base.facts - {"leaf", "fresh", "parameter"} | (_ELEMENT if rank is None else frozenset())
    return base.but(places=with_rank(base.places, rank), facts=facts, items=None)
