"""Functions of the project: calls of them, what they return and leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.placement.events.base import Event

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.events.base import Operand
    from torchlint.placement.values import Value


@dataclass(slots=True)
class Call(Event):
    """A function of the project is called. function: its Function with the summary; result: what comes back.

    dropped: the call is a statement of its own. name: what is called, in words. helper: what it hands back, if it is
    there to move only: `container`, `value` or `rebinds` (see placement.helpers). A library's helper has no `function`.
    """

    function: object
    result: Value
    arguments: tuple[Operand, ...] = ()
    dropped: bool = False
    name: str = ""
    helper: str = ""


@dataclass(slots=True)
class Filter(Event):
    """A comprehension moves its elements and leaves out those that can't be moved.

    how: `hasattr`, `isinstance` or `is_tensor`; `nested` where a call passes it containers, which it leaves as they
    are. by_position: what is left is taken apart by position.
    """

    how: str
    value: Value
    by_position: bool = False


@dataclass(slots=True)
class Return(Event):
    """A function returns. earlier: what its other exits returned before in program order."""

    value: Value
    earlier: tuple[tuple[cst.CSTNode, Value], ...] = ()
