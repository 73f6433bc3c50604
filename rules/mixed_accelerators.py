"""DEV112: one operation joins tensors that live on different accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.mixes import shown
from torchlint.placement.events import Split
from torchlint.rule import Note, Probe, Report, Rule, confidence_of, weakest


class MixedAccelerators(Rule):
    """One operation joins tensors on two different accelerators.

    What it does
        Follows values to the operations that join them, and reports two that the code itself puts on different
        accelerators: `cuda:0` and `cuda:1`, or the current device (`cuda`, where nothing sets another one) and
        `cuda:1`.

    Why it matters
        The operation raises `RuntimeError: Expected all tensors to be on the same device`, for single numbers as
        well. On a machine with one accelerator the code fails earlier, on the CPU it may pass.

    Example
        import torch
        from torch import nn


        class Halves(nn.Module):
            def __init__(self):
                super().__init__()
                assert torch.cuda.device_count() > 1
                self.lower = nn.Linear(16, 16).to("cuda:0")
                self.upper = nn.Linear(16, 4).to("cuda:1")

            def forward(self, x: torch.Tensor):
                x = self.lower(x.to("cuda:0"))
                return self.upper(x)  # <-

    Use instead
        import torch
        from torch import nn


        class Halves(nn.Module):
            def __init__(self):
                super().__init__()
                assert torch.cuda.device_count() > 1
                self.lower = nn.Linear(16, 16).to("cuda:0")
                self.upper = nn.Linear(16, 4).to("cuda:1")

            def forward(self, x: torch.Tensor):
                x = self.lower(x.to("cuda:0"))
                return self.upper(x.to("cuda:1"))

    Fix
        None. Which of the two has to move, only the author knows.

    Verification
        Replayed on a simulated machine with as many accelerators; confirmed where the operation raises for its
        devices.

    References
        https://docs.pytorch.org/docs/stable/notes/cuda.html
        https://docs.pytorch.org/tutorials/intermediate/model_parallel_tutorial.html
    """

    code = "DEV112"
    name = "mixed-accelerators"
    severity = Severity.ERROR
    probe = Probe("mix", {"origins": False, "numbered": True})

    def on_split(self, split: Split) -> Iterator[Report]:
        if split.scene.is_test:
            return
        (one, first), (other, second) = split.one, split.other
        parts = [f"`{shown(o.node, self.context)}`" for o in (one, other)]
        places = [f"`{p.place.accelerator.removeprefix(':')}`" for p in (first, second)]
        message = f"{parts[0]} is on {places[0]} and joins {parts[1]}, which is on {places[1]}"
        notes = [
            Note("origin", alternative.origin, f"{part} is put on {place} here")
            for part, place, alternative in zip(parts, places, (first, second))
            if alternative.origin is not None
        ]
        if split.within is not None:
            notes.append(Note("context", split.within, "this call and this operation bring them together"))
        sure = weakest(*(confidence_of(o.value.certainty) for o in (one, other)))
        yield self.finding(split, message, confidence=weakest(sure, Confidence.LIKELY), notes=notes)
