"""What a file itself lets a device, or the name of one, be: whether it may be other than the CPU and CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.devices import looks_like_device
from torchlint.placement.evidence.demands import asks_availability
from torchlint.placement.syntax import descendants, dotted, string
from torchlint.placement.values import VENDORS, Kind

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def may_be_of_others(run: Interpreter, asked: cst.BaseExpression) -> bool:
    """Whether what is compared with "cpu" tells a device of any kind.

    A mode of the program tells none; and no other is left where the file sets what is asked to the CPU, or chooses it,
    by whether CUDA is available.
    """
    if type(asked) is cst.Call and len(asked.args) == 1 and dotted(asked.func) == "str":
        asked = asked.args[0].value
    held = run.held(dotted(asked) or "", {})
    told = held is not None and (held.kind is Kind.DEVICE or "device type" in held.facts)
    return (told or looks_like_device(asked) or _is_type(asked)) and not _is_cpu_or_cuda(run, asked)


def _is_type(asked: cst.BaseExpression) -> bool:
    """`x.device.type`."""
    return type(asked) is cst.Attribute and asked.attr.value == "type" and looks_like_device(asked.value)


def _is_cpu_or_cuda(run: Interpreter, asked: cst.BaseExpression) -> bool:
    """Whether the file binds what is asked by a test of CUDA alone, and knows no other accelerator."""
    name = dotted(asked)
    if name is not None and name.endswith(".type"):
        name = name.removesuffix(".type")
    if name is None or not any(bound == name for bound in _bound_by_test(run.module)):
        return False
    texts = (string(node) for node in descendants(run.module) if type(node) is cst.SimpleString)
    return not any(text is not None and text.partition(":")[0] in VENDORS - {"cuda"} for text in texts)


def _bound_by_test(module: cst.Module) -> Iterator[str]:
    """The names that are bound under a test of availability, or to what hangs on one."""
    for node in descendants(module):
        if type(node) is cst.If and asks_availability(node.test):
            for inner in descendants(node):
                if type(inner) is cst.Assign:
                    yield from _targets(inner)
        elif type(node) is cst.Assign and asks_availability(node.value):
            yield from _targets(node)


def _targets(node: cst.Assign) -> Iterator[str]:
    for target in node.targets:
        name = dotted(target.target)
        if name is not None:
            yield name
