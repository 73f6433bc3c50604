"""What loops, comprehensions and `map` go through: parts of a batch, names in a row, values of a mapping."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.syntax import assigned_names, dotted, integer, words

if TYPE_CHECKING:
    from torchlint.placement.evidence.scopes import Usage

#: What a loop goes through that hands out pairs of other things than the parts of a batch.
_PAIRS = re.compile(
    r"\b(zip|items|named_\w+|range|product|combinations|pairwise|walk|split|listdir|readlines|groupby)\("
)


def note_batch(loop: cst.For, scope: Usage) -> None:
    """Note the names of a batch's parts in a loop: `for x, y in loader`, `for i, (x, y) in enumerate(…)`."""
    if _PAIRS.search(words(loop.iter)):
        return
    target = loop.target
    if type(loop.iter) is cst.Call and dotted(loop.iter.func) == "enumerate" and type(target) is cst.Tuple:
        if len(target.elements) != 2:
            return
        target = target.elements[1].value  # type: ignore[assignment]
    if type(target) is cst.Tuple:
        scope.batch_parts.update(assigned_names(target))
    elif type(target) is cst.Name:
        scope.elements.add(target.value)


def note_through(clause: cst.For | cst.CompFor, scope: Usage) -> None:
    """Note what a loop or a comprehension goes through, where both have names."""
    target: cst.CSTNode = clause.target
    source = clause.iter
    if type(source) is cst.Call and dotted(source.func) == "enumerate" and type(target) is cst.Tuple and source.args:
        target, source = target.elements[-1].value, source.args[0].value
    if type(source) is cst.Call and type(source.func) is cst.Attribute and not source.args:
        whole = dotted(source.func.value)
        if source.func.attr.value == "items" and type(target) is cst.Tuple:
            target = target.elements[-1].value
        elif source.func.attr.value != "values":
            return
        if type(target) is cst.Name and whole is not None:
            scope.entries[target.value] = whole
    elif type(target) is cst.Name and type(source) is cst.Name:
        scope.through[target.value] = source.value
    elif type(target) is cst.Name and type(source) in (cst.Tuple, cst.List):
        names = [dotted(e.value) for e in source.elements]  # type: ignore[attr-defined]
        scope.displays[target.value] = tuple(n for n in names if n is not None) if all(names) else ()


def note_map(call: cst.Call, scope: Usage) -> None:
    """`map(lambda t: …, tensors)` goes through `tensors`."""
    function = call.args[0].value if len(call.args) == 2 else None
    if type(function) is cst.Lambda and len(function.params.params) == 1 and type(call.args[1].value) is cst.Name:
        scope.through[function.params.params[0].name.value] = call.args[1].value.value


def is_small(iterable: cst.BaseExpression) -> bool:
    """Whether a loop goes over a few things at hand: a literal, the items of a mapping, `range(2)`."""
    kind = type(iterable)
    if kind in (cst.Tuple, cst.List, cst.Set):
        return True
    if kind is not cst.Call:
        return False
    name = (dotted(iterable.func) or "").rsplit(".", 1)[-1]  # type: ignore[attr-defined]
    given = [a.value for a in iterable.args]  # type: ignore[attr-defined]
    if name in ("items", "values", "keys"):
        return not given
    if name in ("enumerate", "sorted", "list", "reversed", "zip"):
        return any(is_small(g) for g in given)
    if name == "range":
        bound = given[-1] if given else None
        small = integer(bound) if bound is not None else None
        return (small is not None and small <= 16) or (bound is not None and _is_size(bound))
    return False


def _is_size(node: cst.BaseExpression) -> bool:
    """`len(losses)`, `x.size(0)`, `x.shape[0]`, of what is no loader."""
    text = words(node)
    if "loader" in text or "dataset" in text:
        return False
    return text.startswith("len(") or ".size(" in text or ".shape[" in text


def counts(iterable: cst.BaseExpression) -> bool:
    """Whether the first thing that a loop binds is a count."""
    name = words(iterable).split("(")[0].rsplit(".", 1)[-1]
    return type(iterable) is cst.Call and name in ("enumerate", "range", "trange", "count")
