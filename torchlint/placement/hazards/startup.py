"""When CUDA starts up, and what is set too late for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.events import DeviceName, DeviceText, Move
from torchlint.placement.events import Env as EnvironmentEvent
from torchlint.placement.syntax import string
from torchlint.placement.values import Kind

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter
    from torchlint.placement.scene import Scene
    from torchlint.placement.values import Value


#: Packages, modules and functions that start processes.
_PROCESSES = frozenset(
    "subprocess multiprocessing ray submitit joblib mp system Popen spawn ProcessPoolExecutor Process Pool".split()
)


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


def note_variable(run: Interpreter, node: cst.CSTNode, key: cst.CSTNode, value: Value | None = None) -> None:
    """An environment variable is set whose name is written out."""
    text = string(key)
    if text is not None:
        emit_variable(run, node, text, value)


def emit_variable(run: Interpreter, node: cst.CSTNode, name: str, value: Value | None = None) -> None:
    """An environment variable is set: before or after torch is imported, and CUDA started up."""
    text = value.name if value is not None and value.kind is Kind.STRING else None
    event = EnvironmentEvent(node, run.scene, name, run.torch_imported, _started(run), text, _starts_processes(run))
    run.emit(event, name)


def _starts_processes(run: Interpreter) -> bool:
    usage = run.usage
    return not _PROCESSES.isdisjoint(usage.libraries | usage.mentions | run.globals.keys())


def past_visible(run: Interpreter) -> list[DeviceText]:
    """The CUDA devices that a file names by numbers past those that it makes visible itself, once and for all."""
    found = [e for e in run.events.values() if isinstance(e, EnvironmentEvent) and e.name == "CUDA_VISIBLE_DEVICES"]
    if len(found) != 1 or found[0].started is not None or found[0].scene.conditions or found[0].text is None:
        return []
    numbers = [number.strip() for number in found[0].text.split(",")]
    if not all(number.isdigit() for number in numbers):
        return []
    named: list[tuple[cst.CSTNode, Scene, str]] = []
    for event in run.events.values():
        if isinstance(event, DeviceName) and event.literal.startswith("cuda:") and not event.chosen:
            named.append((event.node, event.scene, event.literal))
        elif isinstance(event, Move) and event.api == "cuda":
            named += [(event.node, event.scene, p.place.accelerator) for p in event.target]
    past = [(n, s, t) for n, s, t in named if t[5:].isdigit() and int(t[5:]) >= len(numbers)]
    return [DeviceText(n, s, t, default=found[0].node, what="ordinal") for n, s, t in past]


def _started(run: Interpreter) -> cst.CSTNode | None:
    """What has started CUDA up, for certain, before the statement at hand."""
    function = run.scene.function
    own = run.started.get(0 if function is None else id(function))
    if own is not None and own.conditions <= run.scene.conditions:
        return own.node
    whole = run.started.get(0)
    return whole.node if whole is not None and not whole.conditions else None
