"""Layers and buffers that a Module gets after it was moved: they stay where they are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import Event, Late, Move
from torchlint.placement.syntax import dotted
from torchlint.placement.values import Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def note_late(run: Interpreter, node: cst.CSTNode, holder: cst.BaseExpression, module: Value, given: Value) -> None:
    """`model.fc = nn.Linear(…)`, `model.register_buffer("scale", …)`: `model` is on a device, what it gets is not."""
    name = (dotted(holder) or "").partition(".")[0]
    if not name or run.scene.is_test or given.certainty is not Certainty.KNOWN or not given.on_host:
        return
    if module.kind is not Kind.MODULE or not module.places or not all(p.place.is_named for p in module.places):
        return
    held = given.kind is Kind.MODULE or (given.kind is Kind.TENSOR and bool(given.facts & {"parameter", "buffer"}))
    if held and name in run.frame.usage.called and not _is_handed_on(run, name):
        run.emit(Late(node, run.scene, name, module.origin))


def _is_handed_on(run: Interpreter, name: str) -> bool:
    """Whether something else gets the Module, and may move it."""
    usage = run.frame.usage
    return name in usage.given or name in usage.call_arguments or name in usage.torch_arguments


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
