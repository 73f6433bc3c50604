"""DEV405: mixed precision by the names that torch has deprecated."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Severity
from torchlint.placement.events import Autocast, Scaler
from torchlint.rule import Probe, Report, Rule


class DeprecatedCudaAmp(Rule):
    """`torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler` are deprecated.

    What it does
        Finds the names of `torch.cuda.amp` and `torch.cpu.amp`, which warn since torch 2.4.

    Why it matters
        They work on one device type each. `torch.autocast` (torch 1.10) and `torch.amp.GradScaler` (2.3) take
        the type as an argument. Off by default: nothing is wrong yet.

    Example
        import torch

        scaler = torch.cuda.amp.GradScaler()  # <-

    Use instead
        import torch

        scaler = torch.amp.GradScaler("cuda")

    Fix
        None.

    References
        https://docs.pytorch.org/docs/stable/amp.html
    """

    code = "DEV405"
    name = "deprecated-cuda-amp"
    severity = Severity.INFO
    probe = Probe("warning")
    default = False

    def on_autocast(self, autocast: Autocast) -> Iterator[Report]:
        yield from self._judge(autocast, autocast.api, "torch.amp.autocast")

    def on_scaler(self, scaler: Scaler) -> Iterator[Report]:
        if scaler.op == "new":
            yield from self._judge(scaler, scaler.value.name or "", "torch.amp.GradScaler")

    def _judge(self, event: Autocast | Scaler, name: str, instead: str) -> Iterator[Report]:
        if name.startswith(("torch.cuda.amp.", "torch.cpu.amp.")):
            device = name.split(".")[1]
            yield self.finding(event, f'`{name}` is deprecated; `{instead}("{device}", …)` does the same')
