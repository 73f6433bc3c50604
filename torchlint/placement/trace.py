"""What interpretation found line by line: where each bound value lives, what moves, what is mixed, what waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from torchlint.placement.events import Create, Mix, Move, Sync
from torchlint.placement.observer import Observation
from torchlint.placement.syntax import dotted, words
from torchlint.placement.values import Alternative, Kind, Value, Where
from torchlint.positions import ranges

#: Values of these kinds live somewhere.
_PLACED = (Kind.TENSOR, Kind.MODULE, Kind.UNKNOWN, Kind.DEVICE, Kind.SEQUENCE, Kind.LOADER, Kind.OWNED)


@dataclass(frozen=True)
class Spot:
    """One thing to say about a line.

    what: `value` (a name is bound), `create`, `move`, `mix` (operands in different places), `sync`.
    device: `cpu`, `accelerator`, `follows` (wherever a parameter or the module is), `mixed` (it depends) or `unknown`;
    of a move, where it goes. place: the same in words. source: for a move, the device and words of where it came from.
    columns: first and last column of the construct on its line, from 1.
    """

    what: str
    name: str
    device: str
    place: str
    line: int
    columns: tuple[int, int]
    source: tuple[str, str] | None = None


def device_of(places: Iterable[Alternative]) -> str:
    """The colour of a set of places, see `Spot`."""
    kinds = {_kind(p) for p in places}
    if not kinds:
        return "unknown"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _kind(alternative: Alternative) -> str:
    where = alternative.place.where
    if where is Where.HOST:
        return "cpu"
    if where in (Where.NAMED, Where.DEFAULT):
        return "accelerator"
    return "follows" if where in (Where.OF_CALLER, Where.OF_MODULE) else "unknown"


def place_in_words(places: Iterable[Alternative]) -> str:
    """`cpu`, `cuda`, `device`, `like x`, `with the module`; alternatives joined by `or`."""
    texts = list(dict.fromkeys(_words(p) for p in places))
    return " or ".join(texts) if texts else "unknown"


def _words(alternative: Alternative) -> str:
    place = alternative.place
    if place.where is Where.HOST:
        return "cpu"
    if place.where is Where.NAMED:
        return place.name
    if place.where is Where.OF_CALLER:
        return f"like {place.name}"
    if place.where is Where.OF_MODULE:
        return "with the module"
    return "default device" if place.where is Where.DEFAULT else "unknown"


def trace(module: cst.Module, observation: Observation) -> dict[int, list[Spot]]:
    """The spots of each line that has any, in the order of their columns."""
    raw: list[tuple[cst.CSTNode, str, str, tuple[Alternative, ...], tuple[str, str] | None]] = []
    for target, value in observation.bound.items():
        if value.kind in _PLACED:
            raw.append((target, "value", dotted(target) or words(target), _places(value), None))
    for event in observation.events:
        if isinstance(event, Move) and event.moves_device:
            before = event.value.places
            came_from = (device_of(before), place_in_words(before))
            raw.append((event.node, "move", words(event.receiver), event.target, came_from))
        elif isinstance(event, Create):
            raw.append((event.node, "create", event.api, event.value.places, None))
        elif isinstance(event, Mix):
            texts = (_words(event.host[1]), _words(event.other[1]))
            raw.append((event.node, "mix", event.api, (event.host[1], event.other[1]), texts))
        elif isinstance(event, Sync):
            raw.append(
                (event.node, "sync", event.api, event.value.places if event.value is not None else (), None)
            )
    where = ranges(module, [node for node, *_ in raw])
    lines: dict[int, list[Spot]] = {}
    for node, what, name, places, source in raw:
        span = where.get(id(node))
        if span is None:
            continue
        last = span.end.column - 1 if span.end.line == span.start.line else span.start.column
        device = "mixed" if what == "mix" else device_of(places)
        spot = Spot(
            what, name, device, place_in_words(places), span.start.line, (span.start.column, last), source
        )
        lines.setdefault(span.start.line, []).append(spot)
    return {line: sorted(spots, key=lambda s: (s.columns, s.what)) for line, spots in sorted(lines.items())}


def _places(value: Value) -> tuple[Alternative, ...]:
    if value.places or value.element is None:
        return value.places
    return value.element.places
