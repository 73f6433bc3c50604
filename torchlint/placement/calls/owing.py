"""What a function joins with a tensor of the host without saying what it is: a call of it tells, and settles that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Function, Owed, Picked
from torchlint.placement.events import Mix, Operand
from torchlint.placement.syntax import descendants, dotted
from torchlint.placement.values import UNKNOWN, Certainty, Kind, Place, Value, Where

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Operations of one function that are kept.
_MOST = 10


def note_owed(run: Interpreter, node: cst.CSTNode, api: str, operands: Sequence[Operand]) -> None:
    """Remember that a tensor of the host joins a parameter of which nothing tells the kind."""
    function = run.frame.function
    if function is None or len(function.owed) >= _MOST or run.scene.only_host:
        return
    named = [(o, parameter_of(o.value) or _computed_from(o, function)) for o in operands]
    unknown = [(o, name) for o, name in named if name is not None]
    if not unknown:
        return
    for operand in operands:
        value = operand.value
        if value.kind is not Kind.TENSOR or not value.on_host or value.certainty is Certainty.GUESSED:
            continue
        host = value.places[0]
        if host.rank != 1 or len(value.places) > 1 or (host.through is not None and function.in_module):
            continue
        for other, name in unknown:
            if not any(o.node is node and o.parameter == name for o in function.owed):
                function.owed.append(Owed(node, api, operand, host, other.node, name, run.scene))


def note_picked(run: Interpreter, node: cst.Subscript, table: Value, indices: Sequence[Operand]) -> None:
    """Remember that a function takes what a parameter says out of another one."""
    function, base = run.frame.function, parameter_of(table, _PICKED)
    if function is None or base is None or len(function.picked) >= _MOST or run.scene.only_host:
        return
    for operand in indices:
        name = parameter_of(operand.value, _PICKED)
        if name is not None and name != base and not any(p.node is node for p in function.picked):
            function.picked.append(Picked(node, (node.value, base), (operand.node, name), run.scene))


def settle_picked(run: Interpreter, function: Function, bound: dict[str, Value]) -> Iterator[Owed]:
    """What a call owes that gives a table of the host; where both come from its own caller, that one is told."""
    for picked in function.picked:
        table = bound.get(picked.table[1])
        if table is None:
            continue
        if table.kind is Kind.TENSOR and table.on_host and table.certainty is not Certainty.GUESSED:
            host, operand = table.places[0], Operand(picked.table[0], table)
            if host.rank == 1 and len(table.places) == 1:
                yield Owed(picked.node, "index", operand, host, *picked.which, picked.scene)
            continue
        base, index = parameter_of(table, _PICKED), parameter_of(bound.get(picked.which[1], UNKNOWN), _PICKED)
        caller = run.frame.function
        if base is None or index is None or caller is None or caller is function or caller.run is not function.run:
            continue
        if len(caller.picked) < _MOST and not any(p.node is picked.node for p in caller.picked):
            nodes = picked.table[0], picked.which[0]
            caller.picked.append(picked._replace(table=(nodes[0], base), which=(nodes[1], index)))


def _computed_from(operand: Operand, function: Function) -> str | None:
    """The first of the parameters that operators join to a value of unknown kind: it is a tensor where they are."""
    node, value = operand.node, operand.value
    if value.kind is not Kind.UNKNOWN or type(_called_on(node)) is not cst.BinaryOperation:
        return None
    places = {p.place for p in value.places}
    if not places or not all(p.where is Where.OF_CALLER for p in places):
        return None
    usage = function.run.usage.of(function.node)
    parts = [_called_on(node)]
    while parts:
        part = parts.pop()
        if type(part) is cst.BinaryOperation:
            parts += [_called_on(part.left), _called_on(part.right)]
        elif type(part) is cst.Name:
            if part.value not in function.parameters or usage.assigned.get(part.value):
                return None
        elif type(part) is not cst.Integer and type(part) is not cst.Float:
            return None
    return value.places[0].place.name


def _called_on(node: cst.CSTNode) -> cst.CSTNode:
    """What a chain of methods starts from that compute another tensor of a tensor, where it is."""
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in _MAPPING:
        node = node.func.value
    return node


#: Methods that compute another tensor of a tensor, where it is.
_MAPPING = frozenset(
    "sum mean abs norm std var prod sqrt exp log pow float double half clamp sigmoid tanh squeeze unsqueeze view"
    " reshape flatten transpose permute t contiguous".split()
)

#: What a table, or an index, may be as far as a function says that is given it.
_PICKED = (Kind.UNKNOWN, Kind.TENSOR)


def parameter_of(value: Value, kinds: tuple[Kind, ...] = (Kind.UNKNOWN,)) -> str | None:
    """The parameter that a value of unknown kind is, or was derived from by methods."""
    if value.kind not in kinds or len(value.places) != 1 or "assumed" in value.facts:
        return None
    place = value.places[0].place
    if place.where is not Where.OF_CALLER or f"like:{place.name}" not in value.facts:
        return None
    return place.name


def settle_owed(run: Interpreter, function: Function, node: cst.Call, bound: dict[str, Value]) -> None:
    """A call of a function passes a tensor that is elsewhere, or what the caller's own caller has to tell."""
    for owed in [*function.owed, *settle_picked(run, function, bound)]:
        value = bound.get(owed.parameter)
        if value is None:
            continue
        name = parameter_of(value)
        caller = run.frame.function
        if name is not None and caller is not None and caller is not function and caller.run is function.run:
            if len(caller.owed) < _MOST:
                caller.owed.append(owed._replace(parameter=name))
            if run.scene.role in ("forward", "loss") and _has_dimensions(function, owed) and not _moves(run, node):
                # Wherever it is, the mask that is made of it meets what the layer computes.
                there = tuple(p._replace(place=Place(Where.OF_CALLER, owed.parameter)) for p in value.places)
                _emit(run, owed, Value(Kind.TENSOR, there, Certainty.INFERRED, facts=value.facts))
        elif function.run is run and _is_elsewhere(moved := _as_moved(value)):
            _emit(run, owed, moved)


def _emit(run: Interpreter, owed: Owed, value: Value) -> None:
    """The operation joins its tensor of the host with `value`, which is elsewhere."""
    witness = Operand(owed.other, value)
    aware = run.scene.device_aware or run.scene.hot or owed.scene.device_aware
    scene = owed.scene._replace(device_aware=aware)
    if run.scene.role in _COMPUTING and (owed.host.through is not None or parameter_of(value, _PICKED) is not None):
        scene = scene._replace(role=run.scene.role)  # it computes for the layer that calls it
    mixed = Mix(
        owed.node, scene, owed.api, (owed.operand, witness), (owed.operand, owed.host), (witness, value.places[0])
    )
    function = run.frame.function
    mixed.asked = function is not None and (id(function.node), value.places[0].place) in run.asked
    run.emit(mixed, owed.host.origin)


#: Roles of callers whose helpers compute as they do.
_COMPUTING = ("forward", "loss")


def _has_dimensions(function: Function, owed: Owed) -> bool:
    """Whether a function takes its parameter apart along several dimensions, as no number and no list can be."""
    return "[,]" in function.run.usage.of(function.node).attributes.get(owed.parameter, ())


def _moves(run: Interpreter, node: cst.Call) -> bool:
    """Whether what a call gives is sent to a device, where it stands or by the name that it gets."""
    statement = run.statement
    if statement is None:
        return True
    for below in descendants(statement):
        if type(below) is cst.Attribute and below.attr.value in _SENDING and node in descendants(below.value):
            return True
    names = [dotted(t.target) for t in statement.targets] if type(statement) is cst.Assign else []
    return any(name is None or run.frame.usage.attributes.get(name, set()) & _SENDING for name in names)


#: Methods that send a tensor somewhere.
_SENDING = frozenset(["to", "cuda", "type_as", "cpu"])


def _as_moved(value: Value) -> Value:
    """What was sent to a device, and is joined with a tensor, is one."""
    if value.kind is Kind.UNKNOWN and "fresh" in value.facts and all(p.place.is_named for p in value.places):
        return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    return value


def _is_elsewhere(value: Value) -> bool:
    if value.kind is not Kind.TENSOR or value.certainty is Certainty.GUESSED or not value.places:
        return False
    if value.facts & {"assumed", "element"} or any(p.rank == 0 or p.through is not None for p in value.places):
        return False
    return all(p.place.where not in (Where.HOST, Where.UNKNOWN) for p in value.places)
