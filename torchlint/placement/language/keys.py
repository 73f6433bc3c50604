"""Going through a container: what each round gives, an element or a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.syntax import assigned_names, descendants, dotted
from torchlint.placement.values import Kind, Value, element_of

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def round_of(
    run: Interpreter, source: cst.BaseExpression, target: cst.CSTNode, value: Value, *bodies: cst.CSTNode
) -> Value:
    """What going through `value` gives each time: keys, where the bodies look things up in it by them.

    `{key: features[key] for key in features}`
    """
    name = dotted(source)
    if value.kind is not Kind.UNKNOWN or name is None or name not in run.frame.usage.indexed:
        return element_of(value)
    bound = set(assigned_names(target))
    for body in bodies:
        for node in descendants(body):
            if type(node) is cst.Subscript and dotted(node.value) == name and _names_in(node.slice) & bound:
                return Value(Kind.STRING)
    return element_of(value)


def _names_in(index: Sequence[cst.CSTNode]) -> set[str]:
    return {n.value for part in index for n in descendants(part) if type(n) is cst.Name}
