"""Observe one module: interpret it, and hand out the events in program order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from torchlint.placement.calls import dispatch  # noqa: F401  (these two lines register what they handle)
from torchlint.placement.definitions.classes import analyse
from torchlint.placement.definitions.functions import summarise
from torchlint.placement.events import Event
from torchlint.placement.evidence.demands import note_home
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.language import (  # noqa: F401
    arithmetic,
    displays,
    expressions,
    iteration,
    statements,
    subscripts,
)
from torchlint.placement.project import Project
from torchlint.placement.protocols import observe_protocols
from torchlint.placement.settling import settle
from torchlint.placement.values import Kind, Value


@dataclass
class Observation:
    """What interpreting a module gave.

    events: in the order in which they were met. failures: places that could not be followed, with a reason.
    bound: the values that names were bound to, by the target's node.
    """

    events: list[Event]
    failures: list[tuple[cst.CSTNode, str]] = field(default_factory=list)
    bound: dict[cst.CSTNode, Value] = field(default_factory=dict)
    run: Interpreter | None = None

    def release(self) -> None:
        """Take the interpretation apart, once nothing is asked of it any more.

        Functions, classes and environments refer to each other, and to the tree: without this, its memory, many
        times that of the text, would be free for the next file's only when garbage is collected.
        """
        if self.run is not None:
            self.run.release()


def observe(module: cst.Module, path: str, project: Project | None = None) -> Observation:
    """Interpret a module: its body, then every class, then every function that nothing asked for.

    project: resolves imports of first-party code, relative to `path`; None keeps to the file alone.
    """
    if project is not None:
        project.trim()
    run = Interpreter(module, path, project)
    if run.scene.is_test:
        # Hardly a rule speaks of tests, and what they import is the whole library.
        run.project = None
    note_home(run)
    interpret(run)
    observe_protocols(run)
    if not run.torch_imported and _is_of_another_library(run):
        return Observation([], run.failures, run.bound, run)
    return Observation(list(settle(run)), run.failures, run.bound, run)


#: Libraries whose arrays have methods of the same names, and other rules.
_OTHERS = frozenset(
    [
        "mxnet",
        "tensorflow",
        "paddle",
        "jax",
        "flax",
        "chainer",
        "cupy",
        "mindspore",
        "tinygrad",
        "keras",
        "oneflow",
    ]
)


def _is_of_another_library(run: Interpreter) -> bool:
    """Whether a module that does not import torch imports another library of its kind."""
    roots = {(v.name or "").split(".")[0] for v in run.globals.values() if v.kind is Kind.API}
    return bool(roots & _OTHERS) and not roots & {"lightning", "pytorch_lightning", "accelerate", "torchvision"}


def interpret(run: Interpreter) -> None:
    """Run a module's statements and what they define. A fault in one definition leaves the others."""
    for statement in run.module.body:
        _guarded(run, statement, partial(run.block, [statement], run.globals, goes_on=True), goes_on=True)
    seen = 0
    while seen < len(run.functions) or any(c.state == "new" for c in run.classes):
        for cls in list(run.classes):
            _guarded(run, cls.node, partial(analyse, cls))
        found = run.functions[seen:]
        seen += len(found)
        # What others of the file call is summarised where they do, after what they did before.
        for function in sorted(found, key=lambda f: f.owner is None and not f.outer and run.usage.is_called(f.node)):
            _guarded(run, function.node, partial(summarise, function))


def _guarded(run: Interpreter, node: cst.CSTNode, step: Callable[[], object], *, goes_on: bool = False) -> None:
    frame, scene, places, depth = run.frame, run.scene, run.context_places, run.depth
    try:
        step()
    except RecursionError:
        run.failures.append((node, "nested too deeply to follow"))
    except Exception as error:
        run.failures.append((node, f"{type(error).__name__}: {error}"))
    finally:
        run.frame, run.context_places, run.depth = frame, places, depth
        if not goes_on:
            run.scene = scene
