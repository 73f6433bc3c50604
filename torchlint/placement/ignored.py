"""Parameters for a device that a function never reads although it decides where tensors go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement import torch_api
from torchlint.placement.events import Create, IgnoredDevice, Move
from torchlint.placement.syntax import descendants, words
from torchlint.placement.values import Kind, Where

if TYPE_CHECKING:
    from torchlint.placement.definitions import Class, Function
    from torchlint.placement.interpreter import Interpreter

_NAMES = ("device", "dev")


def note_ignored_device(run: Interpreter, function: Function) -> None:
    """Emit an `IgnoredDevice` for the places of a function that its unread `device` should have decided."""
    usage = run.usage.of(function.node)
    parameters = (
        *function.node.params.posonly_params,
        *function.node.params.params,
        *function.node.params.kwonly_params,
    )
    parameter = next((p for p in parameters if p.name.value in _NAMES), None)
    if parameter is None or _is_imposed(function) or {"locals", "vars"} & usage.called:
        return
    name = parameter.name.value
    if usage.loads[name] > 1:  # its own name among the parameters counts as one
        return
    within = (n for n in descendants(function.node.body) if type(n) is cst.FunctionDef)
    if any(run.usage.of(inner).loads.get(name) for inner in within):
        return
    for event in list(run.events.values()):
        if event.scene.function is not function.node or event.scene.accelerator_is_tested:
            continue
        how = _how(event)
        if how:
            run.emit(IgnoredDevice(event.node, event.scene, name, parameter, how))


def _how(event: object) -> str:
    """What an event decides without the parameter; empty where it decides nothing."""
    if isinstance(event, Create) and event.why == "default" and event.value.on_host:
        return "created"
    if (
        isinstance(event, Move)
        and event.moves_device
        and event.value.kind in (Kind.TENSOR, Kind.MODULE, Kind.UNKNOWN)
    ):
        if event.api == "cuda":
            return "cuda()"
        places = [p.place for p in event.target]
        if len(places) == 1 and places[0].where in (Where.NAMED, Where.OF_MODULE):
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
