"""DEV402: a GradScaler is used against its protocol."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Fault, Protocol
from torchlint.placement.values import Certainty
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule

_ERRORS = frozenset(
    [
        Fault.PLAIN_STEP,
        Fault.NO_UPDATE,
        Fault.UNSCALED_LATE,
        Fault.NEVER_SCALED,
        Fault.UPDATE_ALONE,
        Fault.HALF_PARAMETERS,
    ]
)
_MESSAGES = {
    Fault.NEVER_SCALED: "the loss is never scaled, yet `{scaler}.step` divides its gradients by the scale",
    Fault.PLAIN_STEP: "the gradients are still multiplied by the loss scale when the optimizer applies them",
    Fault.SECOND_STEP: "`{scaler}.step` has applied these gradients; this step applies them again, unchecked",
    Fault.SCALED_CLIP: "the gradients are clipped while they are still multiplied by the loss scale",
    Fault.NO_UPDATE: "`{scaler}.step` comes again before `{scaler}.update()`, and raises then",
    Fault.UPDATE_SKIPPED: "`{scaler}.update()` is skipped after `unscale_`: the next `unscale_` raises",
    Fault.UNSCALED_TWICE: "`unscale_` comes again before `{scaler}.update()`, and raises then",
    Fault.UNSCALED_LATE: "`unscale_` comes after `{scaler}.step`, which has unscaled already, and raises",
    Fault.UPDATE_ALONE: "`{scaler}.update()` comes before any `{scaler}.step`, and raises",
    Fault.MADE_ANEW: "this GradScaler is made anew in every round, so that its scale never settles",
    Fault.HALF_PARAMETERS: "the parameters are float16, whose gradients `{scaler}` refuses to unscale",
    Fault.OWNED: "the framework scales, unscales and updates by itself; these calls of its scaler break that",
}


class ScalerProtocol(Rule):
    """A GradScaler is called out of order, or a step of its protocol is missing.

    What it does
        Follows `scale`, `backward`, `unscale_`, clipping, `step` and `update` along all paths of a function,
        loops and early exits included, and into the helpers that it calls. Reports a plain `optimizer.step()`
        after a scaled backward or beside `scaler.step`, a plain backward before `scaler.step`, clipping that
        is not preceded by `unscale_`, a missing or skipped `update`, `unscale_` more than once before `update`,
        an `update` with no step, a scaler made anew in each epoch, parameters in float16, and calls of a scaler
        that a framework owns.

    Why it matters
        Some of these raise in the second iteration; the others train on gradients that are tens of thousands
        of times too large or too small, without a word.

    Example
        import torch


        def train(model, loader, optimizer, scaler, device):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device.type, dtype=torch.float16):
                    loss = model(x.to(device), y.to(device))
                scaler.scale(loss).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-
                scaler.step(optimizer)
                scaler.update()

    Use instead
        import torch


        def train(model, loader, optimizer, scaler, device):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device.type, dtype=torch.float16):
                    loss = model(x.to(device), y.to(device))
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()

    Fix
        Unsafe. Adds `unscale_` before clipping, scales the loss, or deletes a second step: training changes.

    References
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html
        https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
    """

    code = "DEV402"
    name = "scaler-protocol"
    severity = Severity.WARNING
    probe = Probe("scaler")

    def on_protocol(self, event: Protocol) -> Iterator[Report]:
        message = _MESSAGES.get(event.fault)
        if message is None:
            return
        confidence = (
            Confidence.CERTAIN if event.every and event.certainty is Certainty.KNOWN else Confidence.LIKELY
        )
        if event.certainty is Certainty.GUESSED or event.scene.is_test:
            confidence = Confidence.POSSIBLE
        yield self.finding(
            event,
            message.format(scaler=event.scaler or "scaler"),
            confidence=confidence,
            severity=Severity.ERROR if event.fault in _ERRORS else None,
            notes=[
                Note("also" if event.fault is Fault.OWNED and "beside" in words else "context", node, words)
                for words, node in event.trace
            ],
            fix=self._fix(event),
        )

    def _fix(self, event: Protocol) -> NodeFix | None:
        if event.fault is Fault.SECOND_STEP:
            edit = NodeEdit(event.node, "delete-statement")
            return NodeFix("leave the step to the scaler", Safety.UNSAFE, (edit,))
        clips_all = "clip_grad" in self.context.code(event.node)
        if event.fault is Fault.SCALED_CLIP and clips_all and event.scaler and event.optimizer:
            call = f"{event.scaler}.unscale_({event.optimizer})"
            return NodeFix(f"`{call}` first", Safety.UNSAFE, (NodeEdit(event.node, "line-before", call),))
        if event.fault is Fault.NEVER_SCALED and event.scaler:
            loss = getattr(getattr(event.node, "func", None), "value", None)
            if loss is not None:
                scaled = f"{event.scaler}.scale({self.context.code(loss)})"
                return NodeFix("scale the loss", Safety.UNSAFE, (NodeEdit(loss, "replace", scaled),))
        return None
