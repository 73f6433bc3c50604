"""Parameters for a device that a function never reads although it decides where tensors go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.devices import is_vendor
from torchlint.placement.events import Create, IgnoredDevice, Move
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import (
    condition,
    descendants,
    dotted,
    parameters,
    statements,
    string,
    words,
)
from torchlint.placement.values import Kind, Where

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Class, Function
    from torchlint.placement.interpreter import Interpreter

_NAMES = ("device", "dev")


def note_ignored_device(run: Interpreter, function: Function) -> None:
    """Emit an `IgnoredDevice` for the places of a function that its unread `device` should have decided."""
    usage = run.usage.of(function.node)
    declared = parameters(function.node)
    _note_decided_first(run, function, declared)
    parameter = next((p for p in declared if p.name.value in _NAMES), None)
    if parameter is None or {"locals", "vars"} & usage.called:
        return
    name = parameter.name.value
    if usage.loads[name] > 1 and _falls_back(function, name):
        _note(run, function, name, parameter, frozenset({"own device"}), overrides=True)
    owner: Class | None = function.owner
    if usage.loads[name] == 1 and function.name == "__init__" and owner is not None and not owner.bases:
        _note_chosen(run, function, name, parameter)
    if usage.loads[name] > 1 or _is_imposed(function):  # its own name among the parameters counts as one
        return
    within = (n for n in descendants(function.node.body) if type(n) is cst.FunctionDef)
    if any(run.usage.of(inner).loads.get(name) for inner in within):
        return
    _note(run, function, name, parameter, frozenset({"created", "cuda()", "own device"}))


def _note_chosen(run: Interpreter, function: Function, name: str, parameter: cst.Param) -> None:
    """A function puts the device that the machine has into the attribute of the name of its unread parameter."""
    for statement in statements(function.node.body):
        small = statement.body[0] if type(statement) is cst.SimpleStatementLine else None
        if type(small) is not cst.Assign or dotted(small.targets[0].target) != f"self.{name}":
            continue
        if any(type(n) is cst.Attribute and n.attr.value == "is_available" for n in descendants(small.value)):
            run.emit(IgnoredDevice(small.value, run.scene, name, parameter, "chosen"))
            return


def _note_decided_first(run: Interpreter, function: Function, parameters: tuple[cst.Param, ...]) -> None:
    """A function returns the device that is there before it looks at the parameter by which its caller may choose."""
    body = statements(function.node.body)
    returned = ((i, c) for i, s in enumerate(body) if (c := _returned_if_available(s)) is not None)
    first, chosen = next(returned, (0, None))
    if chosen is None:
        return
    for parameter in parameters:
        name = parameter.name.value
        asked = next((i for i, s in enumerate(body) if _reads(s, name)), len(body))
        if first < asked and any(_is_compared_with_cpu(s, name) for s in body[asked:]):
            run.emit(IgnoredDevice(chosen, run.scene, name, parameter, "first"))
            return


def _reads(code: cst.CSTNode, name: str) -> bool:
    return any(type(n) is cst.Name and n.value == name for n in descendants(code))


def _is_compared_with_cpu(code: cst.CSTNode, name: str) -> bool:
    """Whether code asks whether a parameter says "cpu"."""
    for node in descendants(code):
        if type(node) is cst.Comparison and len(node.comparisons) == 1:
            sides = (node.left, node.comparisons[0].comparator)
            if any(string(side) == "cpu" for side in sides) and any(_reads(side, name) for side in sides):
                return True
    return False


def _returned_if_available(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """The accelerator that `if torch.cuda.is_available(): return torch.device("cuda")` returns."""
    if type(statement) is not cst.If or type(statement.test) is not cst.Call:
        return None
    inner = statements(statement.body)
    last = inner[0].body[0] if type(inner[0]) is cst.SimpleStatementLine else inner[0]
    if not (dotted(statement.test.func) or "").endswith(".is_available") or type(last) is not cst.Return:
        return None
    value = last.value
    texts = [string(n) for n in descendants(value)] if value is not None else []
    return value if any(text is not None and is_vendor(text) for text in texts) else None


def _note(
    run: Interpreter,
    function: Function,
    name: str,
    parameter: cst.Param,
    hows: frozenset[str],
    *,
    overrides: bool = False,
) -> None:
    for event in list(run.events.values()):
        if event.scene.function is not function.node or event.scene.accelerator_is_tested:
            continue
        how = _how(event)
        if how not in hows:
            continue
        own = _own_device(event.node)
        if own is not None or not overrides:
            run.emit(IgnoredDevice(event.node if own is None else own, event.scene, name, parameter, how, overrides))


def _own_device(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Where a move names the object's own device, and not that of a part of it."""
    given = node.args if isinstance(node, cst.Call) else ()
    return next((a.value for a in given if words(a.value) == "self.device"), None)


def _falls_back(function: Function, name: str) -> bool:
    """Whether a function takes its object's device only where it gets none: `device = device or self.device`."""
    for statement in statements(function.node.body):
        small = statement.body[0] if type(statement) is cst.SimpleStatementLine else None
        if type(small) is cst.Assign and dotted(small.targets[0].target) == name:
            value = small.value
            if type(value) is cst.BooleanOperation and type(value.operator) is cst.Or and dotted(value.left) == name:
                return (dotted(value.right) or "").startswith("self.")
            if type(value) is cst.IfExp and condition(value.test) in ((f"{name} Is None", False), (name, True)):
                return dotted(value.body) == name and (dotted(value.orelse) or "").startswith("self.")
        if type(statement) is cst.If and condition(statement.test) == (f"{name} Is None", True):
            bound = statements(statement.body)
            inner = bound[0].body[0] if type(bound[0]) is cst.SimpleStatementLine else bound[0]
            if type(inner) is cst.Assign and dotted(inner.targets[0].target) == name:
                return (dotted(inner.value) or "").startswith("self.")
    return False


def _how(event: object) -> str:
    """What an event decides without the parameter; empty where it decides nothing."""
    if isinstance(event, Create) and event.why == "default" and event.value.on_host:
        return "created"
    if (
        isinstance(event, Move)
        and event.moves_device
        and event.value.kind in (Kind.TENSOR, Kind.MODULE, Kind.UNKNOWN, Kind.OWNED)
    ):
        if event.api == "cuda":
            return "cuda()"
        places = [p.place for p in event.target]
        own = event.value.kind is Kind.OWNED or (
            len(places) == 1 and places[0].where in (Where.NAMED, Where.OF_MODULE)
        )
        if own:
            shown = [words(a.value) for a in event.node.args] if isinstance(event.node, cst.Call) else []
            return "own device" if any(s.endswith(".device") and s.startswith("self.") for s in shown) else ""
    return ""


def _is_imposed(function: Function) -> bool:
    """Whether the signature is one that others ask for: an override, an abstract method, a stub, a decorated one."""
    if function.decorators and not all(d.rsplit(".", 1)[-1] in _HARMLESS for d in function.decorators):
        return True
    owner: Class | None = function.owner
    if owner is None:
        return False
    if owner.has_unknown_base or function.name in torch_api.MODULE_ATTRIBUTES:
        return True
    if any(function.name in base.methods for base in owner.lineage()[1:]):
        return True
    return any(not name.startswith(("torch.nn", "builtins.object", "abc.")) for name in owner.kind_names)


_HARMLESS = frozenset(["staticmethod", "classmethod", "no_grad", "inference_mode", "property", "enable_grad"])
