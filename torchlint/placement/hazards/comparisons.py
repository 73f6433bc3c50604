"""Tests that can't say what they are meant to: devices compared with strings, availability asked for by name only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.devices import is_vendor
from torchlint.placement.events import Compare, DeviceName
from torchlint.placement.knowledge import torch_api
from torchlint.placement.values import VENDORS, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

_EQUAL = (cst.Equal, cst.NotEqual)
_IS = (cst.Is, cst.IsNot)
_IN = (cst.In, cst.NotIn)


def compare_devices(
    run: Interpreter, node: cst.Comparison, left: Value, right: Value, operator: type[cst.BaseCompOp]
) -> None:
    """Note a comparison of a device with what it is never equal to."""
    text = next((v for v in (left, right) if v.kind is Kind.STRING), None)
    device = next((v for v in (left, right) if v.kind is Kind.DEVICE), None)
    if operator in _IS and text is not None and text.name and is_device_text(text.name):
        run.emit(Compare(node, run.scene, "device is str", left, right))
    elif text is not None and device is not None and "torch.device" in device.facts:
        if operator in _EQUAL and not is_device_of_text(text):
            run.emit(Compare(node, run.scene, "device == str", left, right))
        elif operator in _IN and text is left:
            run.emit(Compare(node, run.scene, "str in device", left, right))
    elif operator in _IN and device is left and "torch.device" in left.facts and _are_devices(right):
        run.emit(Compare(node, run.scene, "device in texts", left, right))
    elif operator in _EQUAL and "text of tensor's device" in left.facts | right.facts:
        if {left.name, right.name} & VENDORS:
            run.emit(Compare(node, run.scene, "text == unindexed", left, right))
    elif operator in _EQUAL and are_never_equal(left, right):
        run.emit(Compare(node, run.scene, "tensor's device == unindexed", left, right))


def are_never_equal(left: Value, right: Value) -> bool:
    """Whether one is a tensor's device, which has a number on an accelerator, and the other one without."""
    sorts = {"of tensor", "unindexed"}
    return sorts <= left.facts | right.facts and not sorts & left.facts & right.facts


def _are_devices(value: Value) -> bool:
    """Whether a value is a display of strings that name devices."""
    return bool(value.items) and all(
        v.kind is Kind.STRING and is_device_text(v.name or "") for v in value.items or ()
    )


def is_device_text(text: str) -> bool:
    """Whether a string is one that torch.device takes."""
    return text == "cpu" or text.startswith("cpu:") or is_vendor(text)


def is_device_of_text(text: Value) -> bool:
    """Whether a string was made of a device (`str(device)`, `device.type`)."""
    return bool(text.facts & {"device type", "device text"})


def note_uncalled(run: Interpreter, node: cst.BaseExpression, value: Value) -> None:
    """A function that asks whether a device is there is tested itself: it is always true."""
    if value.kind is not Kind.API or value.name is None:
        return
    name = torch_api.canonical(value.name)
    if name.startswith("torch.") and name.rsplit(".", 1)[-1] in _ASKING:
        run.emit(Compare(node, run.scene, "uncalled", value))


_ASKING = frozenset(
    ["is_available", "is_built", "is_initialized", "is_bf16_supported", "device_count", "is_nccl_available"]
)


def mark_compared(run: Interpreter, side: cst.BaseExpression) -> None:
    """A device that is made to be compared with is not one that the code uses: `x.device == torch.device("cuda")`."""
    made = side.value if type(side) is cst.Attribute else side
    if type(made) is cst.Call:
        for arg in made.args:
            event = run.events.get((DeviceName, arg.value))
            if isinstance(event, DeviceName) and event.api == "torch.device":
                event.what = "compared"


def sort_of_device(text: str | None, has_index: bool) -> frozenset[str]:
    """What is known of a `torch.device(text)`: `unindexed` where it names an accelerator without a number.

    The device of a tensor on an accelerator always has its number, so that the two are never equal.
    """
    if text is not None and not has_index and text in VENDORS:
        return frozenset({"torch.device", "unindexed"})
    return frozenset({"torch.device"})


def device_of(base: Value) -> frozenset[str]:
    """What is known of the `device` of a value: that of a tensor is a torch.device, with a number if it has any."""
    if base.kind is Kind.TENSOR and base.certainty is not Certainty.GUESSED:
        return frozenset({"torch.device", "of tensor"})
    return frozenset()
