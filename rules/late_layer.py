"""DEV118: a Module that has been moved gets a layer that stays on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Late
from torchlint.rule import Note, Report, Rule


class LateLayer(Rule):
    """A Module that has been moved gets a layer, a parameter or a buffer that stays on the CPU.

    What it does
        Finds `model.fc = nn.Linear(…)` and `model.register_buffer(…)` after `model` was moved to a device, where the
        function calls the model and moves it no more.

    Why it matters
        A move takes along what the Module has by then. What it gets later is on the CPU, and the next forward joins
        it with tensors on the device.

    Example
        from torch import nn


        def scores(x, device):
            model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)
            model.head = nn.Linear(8, 2)  # <-
            return model(x.to(device))

    Use instead
        from torch import nn


        def scores(x, device):
            model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            model.head = nn.Linear(8, 2)
            model = model.to(device)
            return model(x.to(device))

    Fix
        None. Move the model once it is complete.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to
    """

    code = "DEV118"
    name = "late-layer"
    severity = Severity.ERROR

    def on_late(self, late: Late) -> Iterator[Report]:
        if late.scene.expects_error or late.scene.only_host:
            return
        message = f"`{late.name}` is on a device already, and what it gets here stays on the CPU"
        notes = () if late.moved is None else (Note("origin", late.moved, "it is moved here"),)
        yield self.finding(late, message, confidence=Confidence.LIKELY, notes=notes)
