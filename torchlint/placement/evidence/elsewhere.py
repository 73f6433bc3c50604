"""What shows that code is meant to run without CUDA, too, so that naming CUDA there is a slip and no decision."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import DeviceName
from torchlint.placement.syntax import descendants, dotted, string

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Attributes that ask what a machine has.
_ASKING = frozenset("is_available device_count current_accelerator".split())
#: What is called a device by a function that is given one.
_GIVEN = frozenset("device dev device_type device_name use_cuda use_gpu no_cuda".split())
#: What a file has in it that chooses between CUDA and other devices, in words.
_CHOOSING = re.compile(
    rb"""is_available\(\)\s*(?:and[^\n:]*)?\s(?:else|and)\b|["']cpu["']|no[_-]cuda|use[_-]cuda|--(?:device|cpu)\b"""
)
#: What builds CUDA kernels, or says that a file of them is built.
_BUILDING = re.compile(
    rb"""\bCUDAExtension\(\s*(?:\w+\s*[=,]|["'][\w.]+["']|\*)|=\s*CUDAExtension\b|\bcuda_sources\s*=|["'][^"'\n]*[\w*]\.cu["']"""
)
#: What stands in all of that, which is faster to look for.
_OF_KERNELS = (b"CUDAExtension", b"cuda_sources", b'.cu"', b".cu'")


def mark_names(run: Interpreter) -> None:
    """Tell each name of a device that nothing guards what shows that its code is meant to run elsewhere, too."""
    _forget_overwritten(run)
    named = [event for event in run.events.values() if isinstance(event, DeviceName)]
    open_ = [event for event in named if not event.guarded and not event.chosen and event.what != "choice"]
    if not open_:
        return
    shown = "file" if _chooses(named) or _speaks(run) else ""
    around = run.project.elsewhere(run.path) if run.project is not None and os.path.isfile(run.path) else ""
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


#: A file that needs CUDA: it calls kernels that a build made, has its Trainer shard on GPUs, or takes what is NVIDIA's.
_NEEDS = re.compile(
    r"\bload_ext\(.*\(\s*(?:[\w.]+\.)?Function\s*\)\s*:"
    r"|\bimport\s+(?:\w+\s*,\s*)*_ext\b.*\(\s*(?:[\w.]+\.)?Function\s*\)\s*:"
    r"|^\s*(?:import|from)\s+(?:nvidia|nvcomp|cupy|flash_attn)\b",
    re.DOTALL | re.MULTILINE,
)
_SHARDS = re.compile(r"""\baccelerator\s*=\s*["'](?:cuda|gpu)["']""")


def _needs_cuda(run: Interpreter) -> bool:
    code = run.module.code
    return _NEEDS.search(code) is not None or ("FSDP" in code and _SHARDS.search(code) is not None)


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


def speaks_elsewhere(texts: Iterable[bytes]) -> str:
    """What the files of a project are for: `kernels` of CUDA, machines of `others`, too, or CUDA `alone`."""
    others = False
    for text in texts:
        if any(word in text for word in _OF_KERNELS) and _BUILDING.search(text) is not None:
            return "kernels"
        others = others or _CHOOSING.search(text) is not None
    return "others" if others else "alone"
