"""What the whole of a function or file says of a GradScaler: that nothing updates it, or that it can't unscale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Class
from torchlint.placement.events import Build, Event, Fault, Move, Protocol, Scaler
from torchlint.placement.syntax import descendants, dotted, words
from torchlint.placement.values import Certainty, Kind

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

_HALF = frozenset(["half", "float16"])


def never_updated(run: Interpreter) -> Iterator[Protocol]:
    """A `Protocol` for the step of a scaler that is an attribute of a class, and that nothing in the file updates."""
    scalers = [e for e in run.events.values() if isinstance(e, Scaler) and "off" not in e.value.facts]
    if any(e.op == "update" for e in scalers) or not any(e.op == "new" for e in scalers):
        return
    for event in scalers:
        scaler = _receiver(event.node)
        owner = event.scene.owner
        if event.op != "step" or not isinstance(owner, Class) or not scaler.startswith("self."):
            continue
        name = scaler.removeprefix("self.")
        if "." in name or owner.has_unknown_base or _is_handed_on(run, scaler) or _is_updated(run, name):
            continue
        family = {id(c) for c in run.classes if owner in c.lineage() or c in owner.lineage()}
        if not any("__init__" in c.assigned_in.get(name, ()) for c in run.classes if id(c) in family):
            continue
        # Another file may do it, at most.
        sure = min(event.value.certainty, Certainty.INFERRED)
        yield Protocol(event.node, event.scene, Fault.NO_UPDATE, True, (), scaler, certainty=sure)


def _receiver(node: cst.CSTNode) -> str:
    func = node.func if isinstance(node, cst.Call) else None
    return (dotted(func.value) or "") if isinstance(func, cst.Attribute) else ""


def _is_handed_on(run: Interpreter, scaler: str) -> bool:
    """Whether some scope passes the scaler to a call, which may update it."""
    return any(scaler in usage.call_arguments for usage in run.usage.scopes.values())


def _is_updated(run: Interpreter, name: str) -> bool:
    """Whether the file reads `update` of anything that ends in the scaler's name."""
    return any(
        "update" in used and read.rpartition(".")[2] == name
        for usage in run.usage.scopes.values()
        for read, used in usage.attributes.items()
    )


def half_parameters(run: Interpreter) -> Iterator[Protocol]:
    """A `Protocol` for a scaler that has float16 parameters to unscale, which it refuses.

    The Module is cast in the function that builds the optimizer over its parameters, under no condition.
    """
    events = list(run.events.values())
    for position, build in enumerate(events):
        if not isinstance(build, Build) or build.what != "optimizer" or not build.arguments:
            continue
        module = words(build.arguments[0].node).removesuffix(".parameters()")
        if f"{module}.parameters()" != words(build.arguments[0].node):
            continue
        cast = _cast(run, events[:position], build, module)
        optimizer = None if cast is None else _bound_to(build)
        if cast is None or not optimizer:
            continue
        for event in events[position:]:
            if (
                isinstance(event, Scaler)
                and event.op in ("step", "unscale_")
                and event.scene.function is build.scene.function
                and "off" not in event.value.facts
                and isinstance(event.node, cst.Call)
                and dotted(event.node.args[0].value) == optimizer
            ):
                trace = (("the parameters are float16 since here", cast),)
                yield Protocol(
                    event.node, event.scene, Fault.HALF_PARAMETERS, True, trace, _receiver(event.node), optimizer,
                    event.value.certainty,
                )  # fmt: skip
                break


def _cast(run: Interpreter, before: Sequence[Event], build: Build, module: str) -> cst.CSTNode | None:
    """Where a Module became float16 for good, among the events before its optimizer was built."""
    found: cst.CSTNode | None = None
    for event in before:
        if not isinstance(event, Move) or event.scene.function is not build.scene.function:
            continue
        if event.value.kind is not Kind.MODULE:
            continue
        if _root(event.receiver) != module and event.node not in _chains(build.scene.function, module):
            continue
        if event.dtype in _HALF and event.scene.conditions <= build.scene.conditions:
            found = event.node
        elif event.dtype is not None:
            found = None
    usage = run.usage.of(build.scene.function)
    # Parameters that are added or cast apart may be float32 again.
    changed = {"float", "add_adapter", "named_parameters", "modules", "named_modules", "apply"}
    return None if changed & usage.attributes.get(module, set()) else found


def _root(node: cst.BaseExpression) -> str:
    """The name at the beginning of a chain of moves: `model` of `model.half().cuda()`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        node = node.func.value
    return dotted(node) or ""


def _chains(function: cst.FunctionDef | None, name: str) -> set[cst.CSTNode]:
    """The calls in chains such as `nn.Linear(2, 2).to(device).half()` that a name is bound to."""
    found: set[cst.CSTNode] = set()
    for node in descendants(function.body) if function is not None else ():
        if isinstance(node, cst.Assign) and any(dotted(t.target) == name for t in node.targets):
            call: cst.CSTNode = node.value
            while isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
                found.add(call)
                call = call.func.value
    return found


def _bound_to(build: Build) -> str | None:
    """The name that an optimizer is bound to where it is built."""
    function = build.scene.function
    if function is None:
        return None
    for node in descendants(function.body):
        if isinstance(node, cst.Assign) and node.value is build.node and len(node.targets) == 1:
            return dotted(node.targets[0].target)
    return None
