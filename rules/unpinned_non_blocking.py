"""DEV601: a copy to an accelerator is asked not to block, from memory that makes it block all the same."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Move
from torchlint.placement.values import Kind
from torchlint.rule import Note, Report, Rule, confidence_of, weakest


class UnpinnedNonBlocking(Rule):
    """A copy to an accelerator is asked not to block, from memory that makes it block all the same.

    What it does
        Finds `x.to(device, non_blocking=True)` of a tensor that was made on the CPU in the same function and is not
        in pinned memory. Off by default: it does no harm on CUDA.

    Why it matters
        The host may go on only where the memory that is copied from is pinned (page-locked). From other memory
        `non_blocking=True` changes nothing on CUDA; on MPS, the temporary may be gone before it was copied.

    Example
        import torch


        def weights(values, device):
            return torch.tensor(values).to(device, non_blocking=True)  # <-

    Use instead
        import torch


        def weights(values, device):
            return torch.tensor(values, device=device)

    Fix
        None. Create the tensor on the device, pin its memory, or drop `non_blocking`.

    Verification
        Confirmed where the tensor is on the CPU and `is_pinned()` is false.

    References
        https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """

    code = "DEV601"
    name = "unpinned-non-blocking"
    severity = Severity.INFO
    default = False

    def on_move(self, move: Move) -> Iterator[Report]:
        value = move.value
        if (
            not move.non_blocking
            or value.kind is not Kind.TENSOR
            or "pinned" in value.facts
            or move.scene.is_test
        ):
            return
        away = move.target and all(not p.place.is_host for p in move.target)
        if not away or not value.on_host or value.origin is None:
            return
        notes = (Note("origin", value.origin, "it is created on the CPU here, in memory that is not pinned"),)
        message = (
            f"`{self.context.code(move.receiver)}` is not in pinned memory: `non_blocking=True` has no use"
        )
        yield self.finding(
            move, message, confidence=weakest(Confidence.LIKELY, confidence_of(value.certainty)), notes=notes
        )
