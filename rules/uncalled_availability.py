"""DEV109: whether a device is available is not asked, since the function is not called."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Safety, Severity
from torchlint.placement.events import Compare
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule


class UncalledAvailability(Rule):
    """A function that asks for a device is tested without being called.

    What it does
        Finds `torch.cuda.is_available` (`torch.backends.mps.is_built`, …) without parentheses in a condition.

    Why it matters
        A function is always true, so that the accelerator is taken for available everywhere.

    Example
        import torch

        device = "cuda" if torch.cuda.is_available else "cpu"  # <-

    Use instead
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"

    Fix
        Safe. Calls the function.

    References
        https://github.com/masadcv/FastGeodis/issues/7
    """

    code = "DEV109"
    name = "uncalled-availability"
    severity = Severity.ERROR
    probe = Probe("value")

    def on_compare(self, compare: Compare) -> Iterator[Report]:
        if compare.what == "uncalled":
            source = self.context.code(compare.node)
            fix = NodeFix("call it", Safety.SAFE, (NodeEdit(compare.node, "after", "()"),))
            yield self.finding(compare, f"`{source}` is not called, and a function is always true", fix=fix)
