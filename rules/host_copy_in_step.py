"""DEV302: a tensor is copied to the host in every training step."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Sync
from torchlint.placement.syntax import words
from torchlint.rule import Probe, weakest
from torchlint.waits import WaitRule


class HostCopyInStep(WaitRule):
    """A tensor is copied to the host in every training step.

    What it does
        Finds `.cpu()`, `.to("cpu")` and `.numpy(force=True)` of a tensor that may be on an accelerator, in code
        that runs for every batch. Silent where the copy is made now and then, after the loop, or in evaluation.

    Why it matters
        The copy waits until the device has computed everything before it; meanwhile nothing new is queued.

    Example
        def train(model, loader, optimizer, criterion, device):
            outputs = []
            for x, y in loader:
                output = model(x.to(device))
                loss = criterion(output, y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                outputs.append(output.detach().cpu())  # <-
            return outputs

    Use instead
        def train(model, loader, optimizer, criterion, device):
            outputs = []
            for x, y in loader:
                output = model(x.to(device))
                loss = criterion(output, y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                outputs.append(output.detach())
            return [output.cpu() for output in outputs]

    Fix
        None. Keep the values on the device and copy them once, or compute there what is computed from them.

    Verification
        Confirmed where the line copies a value that is on the accelerator.

    References
        https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code = "DEV302"
    name = "host-copy-in-step"
    severity = Severity.WARNING
    # One wait in a statement is enough to speak of.
    explains = ("DEV303",)
    probe = Probe("sync")

    def concerns(self, sync: Sync) -> bool:
        return sync.api in ("cpu", "numpy")

    def confidence(self, sync: Sync) -> Confidence:
        sure = super().confidence(sync)
        if _collects_for_evaluation(sync):
            return weakest(sure, Confidence.POSSIBLE)
        # What a layer reads in so many words it mostly needs: a size, a decision.
        return weakest(sure, Confidence.POSSIBLE) if sync.scene.role in ("forward", "loss") else sure

    def message(self, sync: Sync) -> str:
        return f"`{self.context.code(sync.node)}` copies to the host in every step, and waits for the device"


_EVALUATION = re.compile(r"(?:\b|_)(?:eval|evaluation|val|valid|validation|test)(?:_|\b)", re.IGNORECASE)


def _collects_for_evaluation(sync: Sync) -> bool:
    """Whether a loop over data for evaluation, whatever it needs gradients for, takes what a model gave to the host."""
    loop = sync.scene.step_loop
    if not isinstance(loop, cst.For) or isinstance(sync.statement, cst.AugAssign):
        return False
    return _EVALUATION.search(words(loop.iter)) is not None
