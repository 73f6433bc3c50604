"""What files are read by `torch.load`: where they stand, and what their contents go into."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.events import Load
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.syntax import words


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
