"""Scalers that are made anew in every epoch or step, so that they never learn the scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import Build, Call, Fault, Protocol, Scaler
from torchlint.placement.syntax import descendants, dotted
from torchlint.placement.values import Certainty

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def made_anew(run: Interpreter) -> Iterator[Protocol]:
    """A `Protocol` for each scaler that a loop makes anew while it goes on with the same optimizer."""
    scalers = [e for e in run.events.values() if isinstance(e, Scaler)]
    for made in scalers:
        if made.op != "new" or "off" in made.value.facts:
            continue
        used = [e for e in scalers if e.op == "step" and e.scene.function is made.scene.function]
        if not used or _is_restored(run, made):
            continue
        loop = _renewing_loop(run, made, used)
        if loop is not None:
            trace = (("this loop goes on with the same optimizer", loop),)
            yield Protocol(made.node, made.scene, Fault.MADE_ANEW, True, trace, certainty=Certainty.INFERRED)


def _renewing_loop(run: Interpreter, made: Scaler, used: list[Scaler]) -> cst.CSTNode | None:
    """The loop, in the function itself or around its calls, in every round of which the scaler is new."""
    if made.scene.loops:
        loop = made.scene.loops[-1]
        inside = [e for e in used if loop in e.scene.loops]
        return loop if inside and not _builds_optimizer(run, loop) else None
    function = made.scene.function
    if function is None or function.name.value == "__init__" or not any(e.scene.loops for e in used):
        return None
    if not _is_bound_locally(function, made.node):
        return None
    optimizers = {_root(e.node.args[0].value) for e in used if isinstance(e.node, cst.Call) and e.node.args}
    parameters = {p.name.value for p in (*function.params.params, *function.params.kwonly_params)}
    if not optimizers or not optimizers <= parameters:
        return None
    for event in run.events.values():
        if isinstance(event, Call) and event.scene.loops:
            called = run.called.get(event.node)
            if called is not None and called.node is function:
                loop = event.scene.loops[-1]
                if not _builds_optimizer(run, loop):
                    return loop
    return None


def _root(node: cst.BaseExpression) -> str:
    return (dotted(node) or "").partition(".")[0]


def _is_bound_locally(function: cst.FunctionDef, made: cst.CSTNode) -> bool:
    """Whether what is made is bound to a plain name by an assignment of its own."""
    for node in descendants(function.body):
        if isinstance(node, cst.Assign) and node.value is made:
            return all(isinstance(t.target, cst.Name) for t in node.targets)
    return False


def _builds_optimizer(run: Interpreter, loop: cst.CSTNode) -> bool:
    """Whether a loop makes its optimizers anew, too, as loops over folds and settings do."""
    for event in run.events.values():
        if isinstance(event, Build) and event.what == "optimizer" and loop in event.scene.loops:
            return True
    for node in descendants(loop):
        if isinstance(node, cst.Assign):
            names = {dotted(t.target) or "" for t in node.targets}
            if any("optim" in n.lower() for n in names) and isinstance(node.value, cst.Call):
                return True
    return False


def _is_restored(run: Interpreter, made: Scaler) -> bool:
    """Whether the state of an earlier scaler is loaded into one in this function."""
    usage = run.usage.of(made.scene.function)
    return any(
        "scaler" in name.lower() and "load_state_dict" in used for name, used in usage.attributes.items()
    )
