"""DEV110: a function has a parameter for the device and does not read it."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import IgnoredDevice
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule


class IgnoredDeviceParameter(Rule):
    """A function has a parameter for the device, and does not read it where it places tensors.

    What it does
        Finds functions whose `device` parameter nothing reads, although they create tensors on the CPU, call
        `.cuda()`, or move to `self.device`. Silent where the signature is imposed (overrides, abstract methods).
        Also finds moves to `self.device` where the parameter is read and `device = device or self.…` says that it
        comes first, a `device` that is given to `torch.Tensor` or `torch.FloatTensor`, and functions that return the
        accelerator at hand before they ask whether their caller wants the CPU.

    Why it matters
        The caller says where the tensors shall be, and is not heard.

    Example
        import torch


        def positions(count, device):
            return torch.arange(count)  # <-

    Use instead
        import torch


        def positions(count, device):
            return torch.arange(count, device=device)

    Fix
        Unsafe. Passes the parameter on where a tensor is created.

    References
        https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device
    """

    code = "DEV110"
    name = "ignored-device"
    severity = Severity.WARNING
    probe = Probe("ignored-device")

    def on_ignored_device(self, event: IgnoredDevice) -> Iterator[Report]:
        if event.scene.is_test or event.scene.role in ("data", "test"):
            return
        fix = None
        if event.how == "created":
            edit = NodeEdit(event.node, "argument", f"device={event.name}")
            fix = NodeFix(f"create it on `{event.name}`", Safety.UNSAFE, (edit,))
        if event.how == "legacy":
            message = "this constructor raises for any device but the CPU; `torch.tensor` and `torch.empty` take one"
            yield self.finding(event, message, confidence=Confidence.LIKELY, severity=Severity.ERROR)
            return
        if event.how == "first":
            message = f"this is returned wherever it is available, before `{event.name}` is asked for the CPU"
            notes = (Note("context", event.parameter, "the caller's choice"),)
            yield self.finding(event, message, confidence=Confidence.LIKELY, notes=notes, cause=event.parameter)
            return
        what = {
            "created": "is created on the CPU",
            "cuda()": "goes to CUDA",
            "own device": "goes to `self.device`",
            "chosen": "is the device that is available",
        }
        reason, note = f"nothing reads the parameter `{event.name}`", f"`{event.name}` is not read"
        if event.overrides:
            reason = f"the parameter `{event.name}` is what decides where there is one"
            note = f"`{event.name}` falls back on the object's own device"
        yield self.finding(
            event,
            f"this {what[event.how]}, and {reason}",
            confidence=Confidence.LIKELY,
            notes=(Note("context", event.parameter, note),),
            fix=fix,
            cause=event.parameter,
        )
