"""DEV404: an autocast region holds what does not belong into it, or holds nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Autocast, Backward, UnsafeUnderAutocast
from torchlint.rule import Probe, Report, Rule


class AutocastScope(Rule):
    """An autocast region holds a backward pass, a loss it refuses, or nothing at all.

    What it does
        Finds `backward()` inside an autocast region, `binary_cross_entropy` and `BCELoss` there (unless the
        region is for the CPU), and `torch.autocast(...)` as a statement of its own, which does nothing.

    Why it matters
        Backward operations take the type that the forward ones had; under autocast some are cast again, which
        torch advises against. `binary_cross_entropy` raises under CUDA autocast: its gradient may overflow.

    Example
        import torch
        from torch.nn.functional import binary_cross_entropy


        def step(model, x, y, scaler):
            with torch.autocast("cuda"):
                loss = binary_cross_entropy(torch.sigmoid(model(x)), y)  # <-
                scaler.scale(loss).backward()  # <-

    Use instead
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits


        def step(model, x, y, scaler):
            with torch.autocast("cuda"):
                loss = binary_cross_entropy_with_logits(model(x), y)
            scaler.scale(loss).backward()

    Fix
        None. Which statements belong into the region is for the author to say.

    References
        https://docs.pytorch.org/docs/stable/amp.html#autocasting
        https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy
    """

    code = "DEV404"
    name = "autocast-scope"
    severity = Severity.WARNING
    probe = Probe("autocast")

    def on_backward(self, event: Backward) -> Iterator[Report]:
        if event.scene.autocast and not event.scene.is_test:
            message = "this backward pass runs under autocast; only the forward pass and the loss should"
            yield self.finding(event, message, confidence=Confidence.LIKELY, severity=Severity.INFO)

    def on_unsafe_under_autocast(self, event: UnsafeUnderAutocast) -> Iterator[Report]:
        message = f"`{event.api}` raises under CUDA autocast; take its sibling that is given logits"
        yield self.finding(event, message, confidence=Confidence.LIKELY, severity=Severity.ERROR)

    def on_autocast(self, event: Autocast) -> Iterator[Report]:
        if event.dropped:
            yield self.finding(
                event, "this autocast is dropped: it takes a `with` or a decorator to have an effect"
            )
