"""What all events of placement have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.scene import Scene
    from torchlint.placement.values import Value


@dataclass(slots=True)
class Event:
    """Something that happens to values at a node, in a scene."""

    node: cst.CSTNode
    scene: Scene


@dataclass(slots=True)
class Operand:
    """One operand of an operation. role: `operand`, `index`, `in place`, `argument`, `weight`, `input`, `slice`,
    `elements` (of a list: the value is that of each)."""

    node: cst.CSTNode
    value: Value
    role: str = "operand"
