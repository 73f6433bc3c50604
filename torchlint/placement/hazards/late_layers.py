"""Layers and buffers that a Module gets after it was moved: they stay where they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.events import Event, Late, Move
from torchlint.placement.syntax import (
    descendants,
    dotted,
    parameters,
)
from torchlint.placement.values import Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.evidence.scopes import Usage
    from torchlint.placement.interpreter import Interpreter


def note_late(run: Interpreter, node: cst.CSTNode, holder: cst.BaseExpression, module: Value, given: Value) -> None:
    """`model.fc = nn.Linear(…)`, `model.register_buffer("scale", …)`: `model` is on a device, what it gets is not."""
    name = (dotted(holder) or "").partition(".")[0]
    if not name or run.scene.is_test or given.certainty is not Certainty.KNOWN or not given.on_host:
        return
    if module.kind is not Kind.MODULE or not any(p.place.is_named for p in module.places):
        return
    if not all(p.place.is_named or p.place.is_host for p in module.places):
        return
    held = given.kind is Kind.MODULE or (given.kind is Kind.TENSOR and bool(given.facts & {"parameter", "buffer"}))
    if held and _is_run_as_it_is(run, node, name):
        moved = next(p.origin for p in module.places if p.place.is_named)
        run.emit(Late(node, run.scene, name, moved))


#: How many of the file's own functions hand a Module on to the next one.
_DEPTH = 4
_MOVING = frozenset(["to", "cuda", "cpu", "to_empty", "half"])


def _is_run_as_it_is(run: Interpreter, node: cst.CSTNode, name: str) -> bool:
    """Whether a Module is called, here or in a function of the file that gets it later, and none of those moves it."""
    function = run.frame.function
    runs = name in run.frame.usage.called
    for getting in _getting(run, function.node.body if function is not None else run.module, name, _DEPTH, node):
        if getting is None:
            return False
        usage, parameter = getting
        if not usage.attributes.get(parameter, frozenset()).isdisjoint(_MOVING):
            return False
        runs |= parameter in usage.called
    return runs


def _getting(
    run: Interpreter, body: cst.CSTNode, name: str, depth: int, after: cst.CSTNode | None = None
) -> Iterator[tuple[Usage, str] | None]:
    """The functions of the file that get what a name holds, each with its parameter; None for what is not seen."""
    reached = after is None
    for node in descendants(body):
        reached = reached or node is after
        given = _position(node, name) if reached and type(node) is cst.Call else None
        if given is None or type(node) is not cst.Call:
            continue
        value = run.globals.get(dotted(node.func) or "")
        function = value.ref if value is not None and value.kind is Kind.FUNCTION else None
        if not isinstance(function, Function) or function.run is not run:
            yield None
            continue
        names = [p.name.value for p in parameters(function.node)]
        parameter = given if isinstance(given, str) else next(iter(names[given:]), "")
        if parameter not in names:
            yield None
        elif depth:
            yield run.usage.of(function.node), parameter
            yield from _getting(run, function.node.body, parameter, depth - 1)


def _position(call: cst.Call, name: str) -> int | str | None:
    """At which position, or by which keyword, a call gets what a name holds."""
    for position, arg in enumerate(call.args):
        if type(arg.value) is cst.Name and arg.value.value == name:
            return arg.keyword.value if arg.keyword is not None else position
    return None


def is_moved_again(late: Late, events: Iterable[Event]) -> bool:
    """Whether the Module, or a part of it, is moved after it got what is late."""
    after = False
    for event in events:
        if event is late:
            after = True
        elif after and isinstance(event, Move) and event.moves_device and event.scene.function is late.scene.function:
            if (dotted(event.receiver) or "").partition(".")[0] == late.name:
                return True
    return False
