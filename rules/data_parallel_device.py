"""DEV116: DataParallel or DistributedDataParallel wraps a model that it can't compute with."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Parallel
from torchlint.rule import Note, Report, Rule


class DataParallelDevice(Rule):
    """A model that DataParallel wraps is elsewhere than it wants it, or can't be copied as it is.

    What it does
        Finds `nn.DataParallel` over a model that the code put on another device than the first of `device_ids`
        (by default that is 0) or never moves where it moves tensors, and over a Module of the file whose `forward`
        reads its submodules from a list that is no `nn.ModuleList`, or asks `next(self.parameters())`. Also
        `DistributedDataParallel` with `device_ids` over a model that is still on the CPU, or with more than one of
        them.

    Why it matters
        Each forward copies the model from the first device to the others, and raises if it is not there. What a
        plain list holds is not copied: every replica uses the layers of the original, on the first device. Replicas
        have no `parameters()`, so that `next` raises StopIteration. `DistributedDataParallel` raises ValueError.

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
        elif parallel.how == "parameters" and parallel.read is not None:
            message = "the replicas of DataParallel have no `parameters()`, and this raises StopIteration in them"
            notes = (Note("context", parallel.node, "the model is wrapped here"),)
            yield self.finding(parallel.read, message, confidence=Confidence.LIKELY, notes=notes)
        elif parallel.how == "unmoved":
            message = "the model is still on the CPU, and DataParallel wants it on the first of its devices"
            made = parallel.origin
            notes = () if made is None else (Note("origin", made, "it is made here"),)
            yield self.finding(parallel, message, confidence=Confidence.LIKELY, notes=notes)
        elif parallel.how == "several":
            message = "DistributedDataParallel takes one device a process, and raises for more"
            yield self.finding(parallel, message, confidence=Confidence.LIKELY)
        elif parallel.how == "unplaced":
            message = "the model is still on the CPU, and DistributedDataParallel refuses `device_ids` for that"
            made = parallel.origin
            notes = () if made is None else (Note("origin", made, "it is made here"),)
            yield self.finding(parallel, message, confidence=Confidence.LIKELY, notes=notes)
        elif parallel.how == "elsewhere":
            message = f"the model is on cuda:{parallel.at}, and DataParallel wants it on cuda:{parallel.first}"
            moved = parallel.origin
            notes = () if moved is None else (Note("origin", moved, "it is moved here"),)
            yield self.finding(parallel, message, confidence=Confidence.LIKELY, notes=notes)
