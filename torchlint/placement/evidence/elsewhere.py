"""What shows that code is meant to run without CUDA, too, so that naming CUDA there is a slip and no decision."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import DeviceName
from torchlint.placement.evidence.demands import BUILT_FOR_CUDA
from torchlint.placement.syntax import descendants, dotted, string

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Attributes that ask what a machine has.
_ASKING = frozenset("is_available device_count current_accelerator".split())
#: What is called a device by a function that is given one.
_GIVEN = frozenset("device dev device_type device_name use_cuda use_gpu no_cuda".split())
def mark_names(run: Interpreter) -> None:
    """Tell each name of a device that nothing guards what shows that its code is meant to run elsewhere, too."""
    _forget_overwritten(run)
    named = [event for event in run.events.values() if isinstance(event, DeviceName)]
    open_ = [event for event in named if not event.guarded and not event.chosen and event.what != "choice"]
    if not open_:
        return
    shown = "file" if _chooses(named) or _speaks(run) else ""
    around = ""
    if run.project is not None and os.path.isfile(run.path):
        around = run.project.surroundings.elsewhere(run.path)
        if around != "kernels" and run.project.surroundings.needs(run.path, BUILT_FOR_CUDA):
            around = "kernels"
    if around != "kernels" and _needs_cuda(run):
        around = "kernels"
    lazy = _called_once_started(run)
    here: dict[int, str] = {}
    for event in open_:
        event.shown = shown
        event.around = around
        function = event.scene.function
        if event.what != "api" or function is None:
            continue
        if function.name.value in lazy or _speaks_of_nccl(function):
            event.guarded = True
        elif shown and event.raises:
            if id(function) not in here:
                here[id(function)] = shown if _offers_choice(function, event.scene.owner) else "elsewhere"
            event.shown = here[id(function)]


#: Packages that NVIDIA's devices alone run, from their own pages: cupy, nvcomp, flash_attn, and what is in `nvidia`.
_OF_NVIDIA = frozenset(["nvidia", "nvcomp", "cupy", "flash_attn"])
#: How extensions that a build made are called where autograd Functions take them from (mmcv's `load_ext`; `_ext`).
_EXTENSIONS = frozenset(["load_ext", "_ext"])


def _needs_cuda(run: Interpreter) -> bool:
    """Whether a file takes what is NVIDIA's, calls kernels that a build made, or has its Trainer run on GPUs alone."""
    if run.usage.libraries & _OF_NVIDIA:
        return True
    loaded = set().union(*(usage.loads.keys() for usage in run.usage.scopes.values()))
    if not _EXTENSIONS.isdisjoint(loaded | run.usage.mentions | run.globals.keys()):
        if any(name.rpartition(".")[2] == "Function" for cls in run.classes for name in cls.kind_names):
            return True
    wanted = {"cuda", "gpu"} if any("FSDP" in name for name in loaded) else {"gpu"}
    trains = any("FSDP" in name or name.endswith("Trainer") for name in loaded)
    return trains and any(_accelerator(node) in wanted for node in descendants(run.module))


def _accelerator(node: cst.CSTNode) -> str | None:
    """What `accelerator="gpu"` names, as a Trainer or Fabric gets it."""
    if type(node) is not cst.Arg or node.keyword is None or node.keyword.value != "accelerator":
        return None
    return string(node.value)


def _called_once_started(run: Interpreter) -> set[str]:
    """The functions that torch calls once CUDA is up: what `torch.cuda._lazy_call` is given."""
    return {
        dotted(node.args[0].value) or ""
        for node in descendants(run.module)
        if type(node) is cst.Call and (dotted(node.func) or "").endswith("_lazy_call") and node.args
    }


def _speaks_of_nccl(function: cst.FunctionDef) -> bool:
    return any(
        type(node) in (cst.Name, cst.SimpleString) and "nccl" in node.value.lower()  # type: ignore[attr-defined]
        for node in descendants(function)
    )


def _offers_choice(function: cst.FunctionDef, owner: object) -> bool:
    """Whether a function, or the class that it is a method of, shows a device that may be another than CUDA."""
    node = getattr(owner, "node", None)
    within: cst.CSTNode = node if isinstance(node, cst.ClassDef) else function
    return any(map(_is_choice, descendants(within)))


def _is_choice(node: cst.CSTNode) -> bool:
    """A device that is a parameter, or is read of something; a question for what there is; the CPU by its name."""
    kind = type(node)
    if kind is cst.Attribute:
        attr, base = node.attr.value, dotted(node.value) or ""  # type: ignore[attr-defined]
        return attr in _ASKING or (attr in _READ and base.partition(".")[0] not in ("torch", "th", "cuda"))
    if kind is cst.Param:
        return node.name.value in _GIVEN  # type: ignore[attr-defined]
    if kind is cst.Arg:
        return type(node.value) is cst.Name and node.value.value in _GIVEN  # type: ignore[attr-defined]
    return kind is cst.SimpleString and string(node) == "cpu"


#: Attributes that tell where something is.
_READ = frozenset("device is_cuda use_cuda no_cuda cuda_enabled device_type".split())


def _forget_overwritten(run: Interpreter) -> None:
    """A device that nothing is put on, because all branches that follow bind its name anew, is none."""
    made = {e.node for e in run.events.values() if isinstance(e, DeviceName) and e.api == "torch.device"}
    if not made:
        return
    for block in descendants(run.module):
        for line, after in pairwise(block.body) if type(block) is cst.IndentedBlock else ():
            name = _bound_in(line)
            if name and type(after) is cst.If and _binds_always(after, name):
                for node in made & set(descendants(line)):
                    run.events.pop((DeviceName, node), None)


def _bound_in(line: cst.CSTNode) -> str:
    """The name that a line binds, if that is all it does."""
    small = line.body[0] if type(line) is cst.SimpleStatementLine and len(line.body) == 1 else None
    if type(small) is not cst.Assign or len(small.targets) != 1:
        return ""
    target = small.targets[0].target
    return target.value if type(target) is cst.Name else ""


def _binds_always(branches: cst.If, name: str) -> bool:
    """Whether each branch binds a name, and no test reads it."""
    if any(type(n) is cst.Name and n.value == name for n in (branches.test, *descendants(branches.test))):
        return False
    if not any(_bound_in(line) == name for line in branches.body.body):
        return False
    rest = branches.orelse
    if type(rest) is cst.If:
        return _binds_always(rest, name)
    return type(rest) is cst.Else and any(_bound_in(line) == name for line in rest.body.body)


def _chooses(named: Iterable[DeviceName]) -> bool:
    """Whether the file chooses between CUDA and the CPU somewhere, or asks before it names CUDA."""
    return any(
        event.what == "choice" or event.scene.accelerator_is_tested or bool(event.scene.tests & {"flag", "-flag"})
        for event in named
    )


def _speaks(run: Interpreter) -> bool:
    """Whether a file asks what there is, names the CPU, or has functions that are given a device."""
    if not run.usage.mentions.isdisjoint(_ASKING):
        return True
    scopes = run.usage.scopes.values()
    if any(not usage.parameters.isdisjoint(_GIVEN) for usage in scopes):
        return True
    texts = (string(node) for node in descendants(run.module) if type(node) is cst.SimpleString)
    return any(text == "cpu" for text in texts)
