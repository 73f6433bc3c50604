"""DEV501: the code names one vendor's device without asking whether it is there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Backward, DeviceName
from torchlint.placement.values import Certainty, Place, Where
from torchlint.portability import CHOICE, DeviceNames, hangs_on_unassigned
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, RuleContext

#: Code of a function (None: the file's own) that runs under the same conditions.
_Branch = tuple[cst.FunctionDef | None, frozenset[tuple[str, bool]]]


class HardcodedDevice(DeviceNames):
    """The code names one vendor's device without asking whether it is there.

    What it does
        Finds `.cuda()`, `"cuda"` and `torch.cuda.FloatTensor` where no test, flag or `try` around them asks for
        the device; `y.cuda()` where a test of `x.is_cuda` means the device of `x`, and `x.device.type` where
        a device is asked for, which both lose the index; `x.get_device()`, which is -1 on the CPU; a default
        `device="cuda"` of a function that is given a tensor to compute with; `x.cuda()` in a method of a Module
        wherever CUDA is available; models that a hub's library is told to load to CUDA. All of a file are one
        finding. Silent: tests, files that need CUDA as a whole (they import Triton or belong to a package of CUDA
        kernels, raise without CUDA, or run on NCCL), and functions and files that say so in their name. Possible
        only where neither the code nor its project shows that it is meant to run elsewhere, and where the project
        builds CUDA kernels. A generator and an autocast take a type.

    Why it matters
        The code fails on every machine without that vendor's device, and moves what it is given to the first
        device even where its caller chose another one.

    Example
        import torch


        def mask_of(scores: torch.Tensor):
            mask = torch.zeros(scores.shape, device="cuda")  # <-
            return mask + scores

    Use instead
        import torch


        def mask_of(scores: torch.Tensor):
            mask = torch.zeros(scores.shape, device=scores.device)
            return mask + scores

    Fix
        Unsafe. Takes the device that is at hand (a parameter, a tensor's, the object's own), else the settings'
        `device-expression`, else CUDA if it is available and the CPU if not.

    References
        https://github.com/xinntao/ESRGAN/issues/88
    """

    code = "DEV501"
    name = "hardcoded-device"
    severity = Severity.WARNING
    probe = Probe("hardcoded")
    judged = frozenset(
        [
            "literal",
            "cuda()",
            "tensor type",
            "autocast",
            "autocast decorator",
            "default",
            "compared",
            "beside",
        ]
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        #: Where a test of one tensor moves what is with it and what is not: all of that is together afterwards.
        self._together: set[_Branch] = set()

    def finish(self) -> Iterator[Report]:
        found = list(self.unexcused())
        self._together = _moved_together(found)
        using = {named.scene.function for named in found if named.what != "compared"}
        for named in found:
            if named.scene.function is not None and named.scene.function in self._driving:
                continue
            if named.what == "compared" and named.scene.function not in using:
                continue
            yield self.finding(
                named,
                self._message(named),
                confidence=self._confidence(named),
                fix=self._fix(named),
                cause=self.context.module,
            )

    def on_backward(self, backward: Backward) -> None:
        self._is_program, self._only_reads_itself = True, False

    def _message(self, named: DeviceName) -> str:
        if named.api == "get_device":
            return f"`{self.context.code(named.node)}` is -1 on the CPU, and no device has that index"
        if named.api == "available":
            return f"this autocast is for what is available, which need not be where `{named.at_hand}` is"
        if named.what == "beside":
            shown = self.context.code(named.node) if type(named.node) is not cst.Call else ".cuda()"
            return f"`{shown}` is the current device, which need not be `{named.at_hand}`"
        shown = {
            "literal": f'"{named.literal}" is named',
            "compared": f'"{named.literal}" is compared with',
            "default": f'"{named.literal}" is the default of `{named.api}`',
            "autocast decorator": f'autocast is for "{named.literal}" alone',
            "autocast": f'autocast is for "{named.literal}" alone',
            "cuda()": "`.cuda()` moves to CUDA",
            "tensor type": f"`{named.api}` is a type of CUDA",
        }[named.what]
        return f"{shown}, and nothing asks whether it is available"

    def _confidence(self, named: DeviceName) -> Confidence:
        if hangs_on_unassigned(named.scene):
            return Confidence.POSSIBLE
        if not self._is_meant_elsewhere(named):
            return Confidence.POSSIBLE
        if named.what == "default":
            # A default says what the author has, and who calls may say otherwise; but not where a tensor is given
            # along that is to meet what is made there.
            return Confidence.LIKELY if named.at_hand else Confidence.POSSIBLE
        if named.scene.function is None and self.context.path.endswith(".ipynb") and _is_plain_tensor(named):
            return Confidence.POSSIBLE  # a page that shows what a tensor on CUDA is
        of_device = named.at_hand.split(".")[0] in ("device", "dev", "self")
        if named.what.startswith("autocast") and not of_device:
            # It warns and does nothing elsewhere; a slip where the code has a device to ask for its type.
            if self._is_program or not (named.at_hand or named.what == "autocast decorator"):
                return Confidence.POSSIBLE
        return Confidence.LIKELY

    def _is_meant_elsewhere(self, named: DeviceName) -> bool:
        """Whether something shows that the code is to run on other devices than the one that it names."""
        if named.what == "beside":
            if _branch_of(named) in self._together or (named.api == "get_device" and named.around == "kernels"):
                return False
            # A program that only ever uses the current device has no other one.
            return not self._is_program or self._only_reads_itself or named.api in ("get_device", "available")
        if named.around == "kernels":
            return False
        return bool(named.shown or named.at_hand) or named.around != "alone"

    def _fix(self, named: DeviceName) -> NodeFix | None:
        node = named.node
        device = named.at_hand or self.context.device_expression or CHOICE
        edits: tuple[NodeEdit, ...] = ()
        if named.what == "literal" and isinstance(node, cst.BaseString) and not named.api.endswith("index)"):
            edits = (NodeEdit(node, "replace", device),)
        elif (
            named.what == "autocast"
            and isinstance(node, cst.BaseString)
            and named.at_hand.endswith(".device")
        ):
            edits = (NodeEdit(node, "replace", f"{device}.type"),)
        elif named.api == "get_device" or (
            named.what == "beside" and type(node) is cst.Attribute and named.at_hand
        ):
            edits = (NodeEdit(node, "replace", device),)
        elif (
            named.what in ("cuda()", "beside") and type(node) is cst.Call and type(node.func) is cst.Attribute
        ):
            edits = (NodeEdit(node.func.attr, "replace", "to"), *_first_argument(node, device))
        if len(edits) == 1 and type(node) is cst.Call and named.api != "get_device":
            return None
        return NodeFix(f"use `{device}`", Safety.UNSAFE, edits) if edits else None


def _moved_together(found: list[DeviceName]) -> set[_Branch]:
    """The branches that move a tensor which is with the one that is asked, and one that is not."""
    with_it: dict[_Branch, set[bool]] = {}
    for named in found:
        asks = any(".is_cuda" in text for text, _ in named.scene.conditions)
        if named.what == "beside" and named.receiver is not None and asks:
            asked = Place(Where.OF_CALLER, named.at_hand.removesuffix(".device"))
            known = any(alternative.place == asked for alternative in named.receiver.places)
            with_it.setdefault(_branch_of(named), set()).add(known)
    return {branch for branch, known in with_it.items() if len(known) > 1}


def _branch_of(named: DeviceName) -> _Branch:
    return named.scene.function, named.scene.conditions


def _is_plain_tensor(named: DeviceName) -> bool:
    """Whether what is put on the device is a tensor that is made on the spot, out of nothing."""
    moved = named.receiver
    if moved is not None:
        return moved.is_tensor and moved.on_host and moved.certainty is Certainty.KNOWN
    return named.what == "tensor type" or (named.what == "literal" and named.api in _FACTORIES)


#: What makes a tensor of numbers alone.
_FACTORIES = frozenset(
    f"torch.{name}" for name in "tensor rand randn zeros ones empty full arange eye linspace randint".split()
)


def _first_argument(call: cst.Call, device: str) -> tuple[NodeEdit, ...]:
    """Edits that make `device` the first argument of what was `.cuda(…)`."""
    if not call.args:
        return (NodeEdit(call, "argument", device),)
    first = call.args[0]
    if first.keyword is None and not first.star:
        return (NodeEdit(first.value, "replace", device),)
    return (
        (NodeEdit(first, "before", f"{device}, "),)
        if first.keyword is not None and first.keyword.value != "device"
        else ()
    )
