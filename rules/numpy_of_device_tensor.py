"""DEV106: NumPy is handed a tensor that is not on the CPU, or one that requires grad."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import shown
from torchlint.placement.events import HostOnly
from torchlint.placement.values import Certainty, Where
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, confidence_of, weakest


class NumpyOfDeviceTensor(Rule):
    """NumPy is handed a tensor that is not on the CPU, or one that requires grad.

    What it does
        Finds `.numpy()` on tensors, and tensors as arguments of NumPy's functions, where the tensor was moved to
        a device or was computed by a module that is on one.

    Why it matters
        NumPy arrays share the tensor's memory, which must be the host's: on an accelerator `numpy()` raises
        TypeError. On a tensor that requires grad it raises RuntimeError.

    Example
        import torch


        def centre(points: torch.Tensor, device):
            points = points.to(device)
            return points.mean(0).numpy()  # <-

    Use instead
        import torch


        def centre(points: torch.Tensor, device):
            points = points.to(device)
            return points.mean(0).cpu().numpy()

    Fix
        Safe. Copies the tensor to the host first, with `.detach()` where it hangs on a graph.

    Verification
        Confirmed where the call raises; refuted where it returns an array.

    References
        https://pytorch.org/docs/stable/generated/torch.Tensor.numpy.html
        https://github.com/Atcold/NYU-DLSP20/issues/11
    """

    code = "DEV106"
    name = "numpy-of-device-tensor"
    severity = Severity.ERROR
    probe = Probe("numpy")

    def on_host_only(self, event: HostOnly) -> Iterator[Report]:
        if not event.api.startswith("numpy"):
            return
        value, away = event.operand.value, event.away
        source = shown(event.operand.node, self.context)
        if away is None:
            whole = f"each of `{source}`" if event.operand.role == "elements" else f"`{source}`"
            message = f"{whole} hangs on a graph, and `numpy()` refuses it: detach it first"
            # A function may be called where gradients are off; a program's own statements are not, nor is what trains.
            # A loss of what needs no gradients has no graph.
            here = event.scene.role == "script" and value.certainty is Certainty.KNOWN and "loss" not in value.facts
            trains = event.trains and {"loss", "grad"} <= value.facts
            sure = Confidence.LIKELY if (here or trains) and not event.scene.is_test else Confidence.POSSIBLE
            yield self.finding(event, message, confidence=sure, fix=self._fix(event, ".detach()"))
            return
        sure = confidence_of(value.certainty)
        # Gradients are where the training is.
        given = away.place.where is Where.OF_CALLER and "of grad" not in value.facts and not event.confirmed
        if given or "assumed" in value.facts:
            sure = Confidence.POSSIBLE
        elif event.scene.host_only and away.place.where in (Where.OF_MODULE, Where.OF_CALLER):
            sure = Confidence.POSSIBLE  # nothing around it moves a model or a batch
        elif "mixed" in value.facts:
            sure = Confidence.POSSIBLE  # what made it raises already, and how that is mended decides where it is
        elif away.place.where in (Where.OF_MODULE, Where.OF_CALLER):
            sure = weakest(sure, Confidence.LIKELY)
        if event.scene.is_test or event.scene.role in ("data", "test"):
            return
        if event.operand.role == "elements":
            source = f"each of `{source}`"
        else:
            source = f"`{source}`"
        where = "on a device in the calls of this file" if event.confirmed else away.place.describe()
        message = f"{source} is {where}, and NumPy takes tensors from the CPU alone"
        notes = [] if away.origin is None else [Note("origin", away.origin, f"it is put {away.place.describe()} here")]
        yield self.finding(event, message, confidence=sure, notes=notes, fix=self._fix(event, ".cpu()"))

    def _fix(self, event: HostOnly, text: str) -> NodeFix | None:
        if event.operand.role == "elements":
            return None
        if text == ".cpu()" and "grad" in event.operand.value.facts and not event.scene.no_grad:
            text = ".detach().cpu()"
        return NodeFix(f"add `{text}`", Safety.SAFE, (NodeEdit(event.operand.node, "after", text),))
