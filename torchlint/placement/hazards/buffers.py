"""Buffers whose names are computed: what `getattr` gives of them, as long as the Module is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Class
from torchlint.placement.values import Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def note_computed_buffer(run: Interpreter, owner: Class, name: cst.CSTNode, value: Value) -> None:
    """`register_buffer(f"kernel_{i}", value)`."""
    if value.kind is Kind.TENSOR:
        run.computed_buffers.append((owner, name, value))


def computed_buffer(run: Interpreter, owner: Value, name: cst.CSTNode) -> Value | None:
    """What `getattr(self, f"kernel_{i}")` gives in the constructor that registers the buffer under this name.

    It is the tensor that `.to` will replace by another one: whoever keeps it has what stays on the host.
    """
    function = run.frame.function
    if function is None or function.name != "__init__" or owner.ref is not function.owner:
        return None
    for known, node, value in run.computed_buffers:
        if known is owner.ref and node.deep_equals(name):
            return value.but(facts=value.facts - {"buffer"})
    return None
