"""When CUDA starts up, and what is set too late for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.events import Env as EnvironmentEvent
from torchlint.placement.syntax import string

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


class Start(NamedTuple):
    """What starts CUDA up, and what has to hold for it to run."""

    node: cst.CSTNode
    conditions: frozenset[tuple[str, bool]]


def note_start(run: Interpreter, node: cst.CSTNode) -> None:
    """Something runs that starts the CUDA driver, which reads its environment then and never again.

    Work on a device does, and so does `torch.cuda.is_available` (torch/cuda/__init__.py), but not the count of
    devices, which asks NVML.
    """
    if not run.scene.caught and not run.silent:
        scope = 0 if run.scene.function is None else id(run.scene.function)
        run.started.setdefault(scope, Start(node, run.scene.conditions))


def note_variable(run: Interpreter, node: cst.CSTNode, key: cst.CSTNode) -> None:
    """An environment variable is set whose name is written out."""
    text = string(key)
    if text is not None:
        emit_variable(run, node, text)


def emit_variable(run: Interpreter, node: cst.CSTNode, name: str) -> None:
    """An environment variable is set: before or after torch is imported, and CUDA started up."""
    event = EnvironmentEvent(node, run.scene, name, run.torch_imported, _started(run))
    run.emit(event, name)


def _started(run: Interpreter) -> cst.CSTNode | None:
    """What has started CUDA up, for certain, before the statement at hand."""
    function = run.scene.function
    own = run.started.get(0 if function is None else id(function))
    if own is not None and own.conditions <= run.scene.conditions:
        return own.node
    whole = run.started.get(0)
    return whole.node if whole is not None and not whole.conditions else None
