"""DEV401: a loss from a float16 autocast region is trained on without a GradScaler."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Fault, Protocol
from torchlint.rule import Note, Probe, Report, Rule


class Fp16WithoutScaler(Rule):
    """A loss computed under float16 autocast is trained on without gradient scaling.

    What it does
        Follows the output of a float16 autocast region along the paths of a function, and reports the region
        where it reaches a plain `backward()` and a plain `optimizer.step()`. Silent where a scaler may be at
        work that is not seen: passed in, kept in an attribute, inside a helper, or a framework's.

    Why it matters
        Gradients in float16 underflow to zero below about 6e-8. Training runs, and learns worse or not at
        all. `bfloat16` has the range of `float32` and needs no scaler.

    Example
        import torch


        def train(model, loader, optimizer, criterion, device):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device.type, dtype=torch.float16):  # <-
                    loss = criterion(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()

    Use instead
        import torch


        def train(model, loader, optimizer, criterion, device):
            scaler = torch.amp.GradScaler(device.type)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device.type, dtype=torch.float16):
                    loss = criterion(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

    Fix
        None. The scaler has to outlive the epoch, and belongs into checkpoints.

    References
        https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "DEV401"
    name = "fp16-without-scaler"
    severity = Severity.WARNING
    probe = Probe("underflow")

    def on_protocol(self, event: Protocol) -> Iterator[Report]:
        if event.fault is not Fault.HALF_UNSCALED or event.scene.is_test:
            return
        message = "this loss is computed in float16, and nothing scales it before its gradients are applied"
        notes = [Note("context", node, words) for words, node in event.trace]
        yield self.finding(event, message, confidence=Confidence.LIKELY, notes=notes)
