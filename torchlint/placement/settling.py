"""What only the end of a file knows: Modules that were moved after all, and what the callers of a function pass."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.placement.definitions import Function
from torchlint.placement.events import Event, Mix
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.values import Value, Where

#: Roles of functions that others than the file's own code call.
_CALLED_FROM_OUTSIDE = frozenset(["forward", "step", "loss"])


def settle(run: Interpreter) -> Iterator[Event]:
    """The events of a file in program order, without those that later code refutes."""
    functions = {id(function.node): function for function in run.functions}
    for event in run.events.values():
        if isinstance(event, Mix):
            if event.host[1].origin in run.moved_elsewhere:
                continue
            function = functions.get(id(event.scene.function))
            if function is not None:
                passed = _passed(function, event)
                if passed == "host" and event.scene.role not in _CALLED_FROM_OUTSIDE:
                    continue
                event.confirmed = passed == "away"
        yield event


def _passed(function: Function, mix: Mix) -> str:
    """Where the calls within the file have what the witness of a mix is: `host`, `away`, or empty where they differ."""
    place = mix.other[1].place
    if place.where is not Where.OF_CALLER:
        return ""
    found = {_where(call.get(place.name)) for call in function.calls}
    return found.pop() if len(found) == 1 else "away" if "away" in found else ""


def _where(value: Value | None) -> str:
    if value is None or not value.places:
        return ""
    if value.on_host:
        return "host"
    if value.may_be_on_host or any(p.place.where is Where.OF_CALLER for p in value.places):
        return ""
    return "away"
