"""The arguments of a call, evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import Operand
from torchlint.placement.hazards.helpers import note_positions
from torchlint.placement.values import Kind, Value, element_of

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter


@dataclass(slots=True)
class Arguments:
    """positional: in order, up to the first `*args`. named: by keyword.

    starred: a `*args` follows the positional ones, with these elements; unpacked: the values of `**kwargs`.
    """

    positional: list[Operand] = field(default_factory=list)
    named: dict[str, Operand] = field(default_factory=dict)
    starred: list[Operand] = field(default_factory=list)
    unpacked: list[Value] = field(default_factory=list)

    def find(self, name: str, position: int | None = None) -> Operand | None:
        """The argument for a parameter, by keyword or position, also through `**{"name": …}`."""
        found = self.named.get(name)
        if found is not None:
            return found
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def value(self, name: str, position: int | None = None) -> Value | None:
        found = self.find(name, position)
        if found is not None:
            return found.value
        for mapping in self.unpacked:
            if mapping.keys is not None and name in mapping.keys:
                return mapping.keys[name]
        return None

    def may_have(self, name: str) -> bool:
        """Whether a `**kwargs` whose keys are not known may pass it."""
        return any(m.keys is None for m in self.unpacked)

    def operands(self) -> list[Operand]:
        """The positional arguments."""
        return self.positional

    def values(self) -> dict[str, Value]:
        """The keyword arguments."""
        named = {name: operand.value for name, operand in self.named.items()}
        for mapping in self.unpacked:
            if mapping.keys:
                named = {**mapping.keys, **named}
        return named

    def all(self) -> list[Operand]:
        """Every argument that is passed by itself, positional first."""
        return [*self.positional, *self.starred, *self.named.values()]


def evaluate_arguments(run: Interpreter, node: cst.Call, env: Env) -> Arguments:
    """Evaluate the arguments of a call in order."""
    arguments = Arguments()
    for arg in node.args:
        value = run.evaluate(arg.value, env)
        if arg.keyword is not None:
            arguments.named[arg.keyword.value] = Operand(arg.value, value)
        elif not arg.star:
            (arguments.starred if arguments.starred else arguments.positional).append(Operand(arg.value, value))
        elif arg.star == "**":
            arguments.unpacked.append(value)
        else:
            note_positions(run, value)
            if value.items is not None and not arguments.starred:
                arguments.positional.extend(Operand(arg.value, item) for item in value.items)
            else:
                arguments.starred.append(Operand(arg.value, Value(Kind.SEQUENCE, element=element_of(value))))
    return arguments


def spread(node: cst.Call, arguments: Arguments) -> list[Operand]:
    """What a call gets by `**mapping`, one operand a mapping, where it is known what the mapping holds."""
    nodes = [a.value for a in node.args if a.star == "**"]
    # A batch that is unpacked is a mapping of tensors.
    held = [m if "batch" in m.facts and m.places else m.element for m in arguments.unpacked]
    return [Operand(n, value) for n, value in zip(nodes, held) if value is not None]
