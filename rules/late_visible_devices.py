"""DEV506: the visible CUDA devices are chosen after CUDA has started up."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Env
from torchlint.rule import Note, Report, Rule


class LateVisibleDevices(Rule):
    """`CUDA_VISIBLE_DEVICES` is set after CUDA has started up.

    What it does
        Finds assignments to `os.environ["CUDA_VISIBLE_DEVICES"]` that run after something has started CUDA:
        `torch.cuda.is_available()`, a move to a device, a question about one. Silent in files that start other
        processes, which read the variable anew.

    Why it matters
        The driver reads the variable when it starts, once. What is set later changes nothing: the program runs on
        the device that it was to leave alone.

    Example
        import os

        import torch

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # <-
        layer = torch.nn.Linear(2, 2).to(device)

    Use instead
        import os

        os.environ["CUDA_VISIBLE_DEVICES"] = "1"

        import torch

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        layer = torch.nn.Linear(2, 2).to(device)

    Fix
        None.

    References
        https://docs.pytorch.org/docs/stable/notes/cuda.html
        https://github.com/pytorch/pytorch/issues/23544
    """

    code = "DEV506"
    name = "late-visible-devices"
    severity = Severity.WARNING

    def on_env(self, env: Env) -> Iterator[Report]:
        if env.name not in _VARIABLES or env.started is None or env.inherited or env.scene.is_test:
            return
        notes = (Note("context", env.started, "this starts CUDA, which reads the variable"),)
        message = "CUDA has started and read this variable; set it before, best before torch is imported"
        yield self.finding(env, message, confidence=Confidence.LIKELY, notes=notes)


_VARIABLES = frozenset(["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"])
