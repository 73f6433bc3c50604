"""DEV101: a tensor is moved and the moved copy is dropped."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Move, Use
from torchlint.placement.syntax import dotted
from torchlint.placement.values import Kind
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule, confidence_of


class DiscardedMove(Rule):
    """A tensor is moved and the moved copy is dropped.

    What it does
        Finds statements such as `x.to(device)`, `x.cuda()` and `x.half()` where `x` is a tensor.

    Why it matters
        `Tensor.to` and its like return a new tensor and leave the old one where it is; only
        `nn.Module.to` works in place. The code reads as if `x` had moved, runs on a machine
        without an accelerator, and fails (or computes on the CPU) on one that has it.

    Example
        import torch


        def weighted(loss, device):
            weight = torch.ones(4)
            weight.to(device)  # <-
            return loss.to(device) * weight

    Use instead
        import torch


        def weighted(loss, device):
            weight = torch.ones(4)
            weight = weight.to(device)
            return loss.to(device) * weight

    Fix
        Unsafe. Binds the result to the name; later code that needs the old copy would get the moved one.

    Verification
        Confirmed where the receiver is still in its old place after the line and the dropped result is
        elsewhere; refuted where the receiver moved itself.

    References
        https://pytorch.org/docs/stable/generated/torch.Tensor.to.html
        https://github.com/huggingface/accelerate/issues/2251
    """

    code = "DEV101"
    name = "discarded-move"
    severity = Severity.ERROR
    probe = Probe("discarded-move")

    def on_move(self, move: Move) -> Iterator[Report]:
        if move.use is Use.USED or move.value.kind is not Kind.TENSOR:
            return
        source = self.context.code(move.receiver)
        if move.use is Use.LOOP_VARIABLE:
            message = f"`{source}` is bound to the moved copy, but what is iterated over keeps the old one"
            yield self.finding(move, message, confidence=Confidence.LIKELY)
            return
        message = f"`{source}.{move.api}` returns a new tensor, and it is dropped: `{source}` stays where it is"
        yield self.finding(move, message, confidence=confidence_of(move.value.certainty), fix=self._fix(move, source))

    def _fix(self, move: Move, source: str) -> NodeFix | None:
        if dotted(move.receiver) is None or "parameter" in move.value.facts:
            return None
        return NodeFix(f"bind the result to `{source}`", Safety.UNSAFE, (NodeEdit(move.node, "before", f"{source} = "),))
