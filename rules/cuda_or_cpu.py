"""DEV503: a choice of the device knows CUDA and the CPU alone."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import DeviceName
from torchlint.rule import Probe, Report, Rule


class CudaOrCpu(Rule):
    """What is not the CPU is taken for CUDA.

    What it does
        Finds choices such as `"cpu" if device == "cpu" else "cuda"`. With `--confidence possible` also those that
        ask for CUDA alone: `"cuda" if torch.cuda.is_available() else "cpu"`.

    Why it matters
        On machines with MPS, XPU or another accelerator the first fails or computes in the wrong place, and the
        second leaves the accelerator idle.

    Example
        import torch


        def region(device):
            kind = "cpu" if device == "cpu" else "cuda"  # <-
            return torch.autocast(kind)

    Use instead
        import torch


        def region(device):
            kind = torch.device(device).type
            return torch.autocast(kind)

    Fix
        None.

    References
        https://github.com/Lightning-AI/pytorch-lightning/pull/20876
    """

    code = "DEV503"
    name = "cuda-or-cpu"
    severity = Severity.INFO
    probe = Probe("hardcoded")

    def on_device_name(self, named: DeviceName) -> Iterator[Report]:
        if named.what != "choice" or named.device != "cuda" or named.scene.is_test:
            return
        if named.api == "not cpu":
            message = f'what is not the CPU is taken for "{named.literal}"; other accelerators exist'
            yield self.finding(named, message, confidence=Confidence.LIKELY)
        else:
            message = f'the choice is between "{named.literal}" and the CPU; other accelerators are left idle'
            yield self.finding(named, message, confidence=Confidence.POSSIBLE)
