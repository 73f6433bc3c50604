"""DEV116: DataParallel wraps a model that it can't copy to its devices."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Parallel
from torchlint.rule import Note, Report, Rule


class DataParallelDevice(Rule):
    """A model that DataParallel wraps is not on its first device, or keeps submodules in a plain list.

    What it does
        Finds `nn.DataParallel` over a model that the code put on another device than the first of `device_ids`
        (by default that is 0), and over a Module of the file whose `forward` reads its submodules from a list that
        is no `nn.ModuleList`.

    Why it matters
        Each forward copies the model from the first device to the others, and raises if it is not there. What a
        plain list holds is not copied: every replica uses the layers of the original, on the first device.

    Example
        from torch import nn


        class Heads(nn.Module):
            def __init__(self, width, count):
                super().__init__()
                self.heads = [nn.Linear(width, 1) for _ in range(count)]
                for i, head in enumerate(self.heads):
                    self.add_module(f"head_{i}", head)

            def forward(self, x):
                return [head(x) for head in self.heads]  # <-


        def build(device):
            return nn.DataParallel(Heads(8, 3).to(device))

    Use instead
        from torch import nn


        class Heads(nn.Module):
            def __init__(self, width, count):
                super().__init__()
                self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(count))

            def forward(self, x):
                return [head(x) for head in self.heads]


        def build(device):
            return nn.DataParallel(Heads(8, 3).to(device))

    Fix
        None.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
        https://github.com/pytorch/pytorch/issues/3174
    """

    code = "DEV116"
    name = "data-parallel-device"
    severity = Severity.ERROR

    def on_parallel(self, parallel: Parallel) -> Iterator[Report]:
        if parallel.how == "list" and parallel.read is not None:
            message = "replicas share this list with the original: they use its layers, on the first device"
            notes = (Note("context", parallel.node, "the model is wrapped here"),)
            yield self.finding(parallel.read, message, confidence=Confidence.LIKELY, notes=notes)
        elif parallel.how == "elsewhere":
            message = f"the model is on cuda:{parallel.at}, and DataParallel wants it on cuda:{parallel.first}"
            moved = parallel.origin
            notes = () if moved is None else (Note("origin", moved, "it is moved here"),)
            yield self.finding(parallel, message, confidence=Confidence.LIKELY, notes=notes)
