"""What a device argument denotes, and the names of vendors' devices that code spells out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import DeviceName, Operand
from torchlint.placement.syntax import dotted, words
from torchlint.placement.values import HOST, Alternative, Kind, Place, Value, Where

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Device types of torch that name an accelerator (torch.device's own list).
VENDORS = frozenset(["cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla", "ipu", "privateuseone", "musa"])


def device_places(
    run: Interpreter, operand: Operand, node: cst.CSTNode, *, sure: bool = True
) -> tuple[Alternative, ...]:
    """The places that a device argument denotes; `node` is the call that puts a tensor there.

    sure: the argument can be nothing but a device (it may be a dtype or a tensor where `.to(x)` gets it by position).
    """
    value = operand.value
    if value.kind is Kind.STRING and value.name:
        return (named_place(value.name, node),)
    if value.kind is Kind.DEVICE and value.places:
        # A device that is the CPU since a tensor was there: that tensor is where it began.
        return tuple(Alternative(p.place, None, (p.origin or node) if p.place.is_host else node, p.guards) for p in value.places)
    if value.kind is Kind.TENSOR:
        return tuple(p._replace(rank=None, origin=node) for p in value.places)
    if value.kind is Kind.NONE:
        return (Alternative(HOST, None, node),)
    text = words(operand.node)
    if value.kind in (Kind.DEVICE, Kind.STRING, Kind.NUMBER) or sure or looks_like_device(operand.node):
        return (Alternative(Place(Where.NAMED, text), None, node),)
    return ()


def named_place(text: str, node: cst.CSTNode) -> Alternative:
    """The place that a device string denotes."""
    kind = text.split(":")[0]
    return Alternative(HOST if kind == "cpu" else Place(Where.NAMED, text), None, node)


def looks_like_device(node: cst.CSTNode) -> bool:
    """Whether an expression's last word speaks of a device; only used to tell a device from a dtype."""
    last = (dotted(node) or words(node)).rsplit(".", 1)[-1].lower()
    return any(w in last for w in ("device", "gpu", "cuda", "rank", "accelerator")) or last in ("dev", "d")


def name_device(run: Interpreter, node: cst.CSTNode, value: Value, what: str, api: str) -> None:
    """Note a device literal where it is used."""
    if value.kind is not Kind.STRING or not value.name:
        return
    kind = value.name.split(":")[0]
    if kind in VENDORS:
        run.emit(DeviceName(node, run.scene, kind, what, api, literal=value.name))
