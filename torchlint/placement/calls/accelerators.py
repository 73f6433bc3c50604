"""Two accelerators in one operation: tensors that the code itself puts on different ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

from torchlint.placement.events import Operand, Split
from torchlint.placement.syntax import without_comments
from torchlint.placement.values import Alternative, Certainty, Kind, Place, Value

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.interpreter import Interpreter

#: What makes another device than the first one the current one, for which `cuda` stands
#: (https://docs.pytorch.org/docs/stable/notes/cuda.html).
_SETS_CURRENT = re.compile(r"set_device|cuda\.device\(|device_index\(|set_default_device")

#: What moves its inputs by itself, or is placed by its library.
_PLACES_INPUTS = frozenset(["wrapped", "quantised", "assumed"])


def note_split(
    run: Interpreter, node: cst.CSTNode, api: str, tensors: Sequence[Operand], within: cst.CSTNode | None
) -> None:
    """Report operands that are on different accelerators for sure: not even a 0-dim one may join the others."""
    known = [t for t in tensors if _is_settled(run, t.value)]
    for one, other in combinations(known, 2):
        pair = apart(run, one.value, other.value)
        if pair is not None:
            first, second = pair
            run.emit(Split(node, run.scene, api, (one, first), (other, second), within))
            return


def _is_settled(run: Interpreter, value: Value) -> bool:
    """Whether the code says of every place of a value which accelerator it is."""
    if value.certainty is Certainty.GUESSED or value.facts & _PLACES_INPUTS or not value.places:
        return False
    if value.kind is Kind.MODULE and any(p.origin in run.moved_elsewhere for p in value.places):
        return False
    return all(p.place.accelerator for p in value.places)


def apart(run: Interpreter, one: Value, other: Value) -> tuple[Alternative, Alternative] | None:
    """Where two values are, if these are different accelerators whichever way the program went."""
    pairs = [(a, b) for a, b in product(one.places, other.places) if not a.excludes(b)]
    if not pairs or not all(_differ(run, a.place, b.place) for a, b in pairs):
        return None
    return pairs[0]


def _differ(run: Interpreter, one: Place, other: Place) -> bool:
    """Whether two accelerators are known to be different ones of a sort."""
    sort, _, number = one.accelerator.partition(":")
    other_sort, _, other_number = other.accelerator.partition(":")
    if not one.accelerator or not other.accelerator or (sort and other_sort and sort != other_sort):
        return False
    if number and other_number:
        return number != other_number
    return {number, other_number} not in ({""}, {"", "0"}) and _current_is_first(run)


def _current_is_first(run: Interpreter) -> bool:
    """Whether nothing in the file makes another device the current one, where it begins with the first."""
    return _SETS_CURRENT.search(without_comments(run.module)) is None
