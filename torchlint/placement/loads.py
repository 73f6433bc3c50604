"""What files are read by `torch.load`: where they stand, and what their contents go into."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.placement.events import Load
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.syntax import dotted, words
from torchlint.placement.values import Certainty, Kind, Value

#: What a scheduler of the learning rate and a GradScaler keep are numbers (torch/optim/lr_scheduler.py,
#: torch/amp/grad_scaler.py: `state_dict`).
_KEEPS_NUMBERS = re.compile(r"(?:sched(?:uler)?s?|scaler)$", re.IGNORECASE)


def path_of(node: cst.CSTNode) -> str:
    """A path in words; of a sum, what it starts with."""
    return path_of(node.left) + "…" if type(node) is cst.BinaryOperation else words(node)


def note_loaded(run: Interpreter, node: cst.CSTNode, into: str) -> None:
    """What is read, or a part of it, goes into what `into` names."""
    while type(node) is cst.Subscript or type(node) is cst.Attribute:
        node = node.value
    if type(node) is cst.Call:
        event = run.events.get((Load, node))
        if isinstance(event, Load):
            event.into = into


def note_restored(run: Interpreter, receiver: Value, holder: cst.BaseExpression, state: cst.CSTNode) -> None:
    """`holder.load_state_dict(state)`: where a scheduler or a scaler takes all that was read, it was numbers alone."""
    named = _KEEPS_NUMBERS.search(dotted(holder) or "") is not None
    unsure = receiver.kind not in (Kind.MODULE, Kind.OPTIMIZER) or receiver.certainty is not Certainty.KNOWN
    if receiver.kind not in (Kind.SCHEDULER, Kind.SCALER) and not (named and unsure):
        return
    event = run.events.get((Load, state))
    if event is None and (name := dotted(state)) is not None:
        function = run.scene.function
        read = [e for e in run.events.values() if isinstance(e, Load) and e.scene.function is function]
        event = next((e for e in reversed(read) if e.into == name), None)
    if isinstance(event, Load):
        event.numbers = True
