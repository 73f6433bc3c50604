"""DEV602: a tensor is read while its asynchronous copy to the host may still be on its way."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import AsyncRead
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, confidence_of, weakest


class AsyncHostRead(Rule):
    """A tensor is read while its asynchronous copy to the host may still be on its way.

    What it does
        Finds reads of `x.to("cpu", non_blocking=True)` (a number, NumPy's view, an operation on the CPU) with
        nothing in between that waits for the device.

    Why it matters
        From an accelerator to the host, a copy with `non_blocking=True` returns at once. Until the device is
        through with it the memory holds anything at all: the values are wrong, and no error says so. (The other
        way round, the order of work on the device protects who reads.)

    Example
        import torch


        def differs(a: torch.Tensor, b: torch.Tensor, device):
            left = a.to(device).to("cpu", non_blocking=True)
            return (left != b).sum().item()  # <-

    Use instead
        import torch


        def differs(a: torch.Tensor, b: torch.Tensor, device):
            left = a.to(device).to("cpu", non_blocking=False)
            return (left != b).sum().item()

    Fix
        Unsafe. Waits for the copy; where several copies are under way, one `synchronize` behind the last is better.

    Verification
        Confirmed where nothing waits for the device between the copy and the read.

    References
        https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
        https://github.com/pytorch/pytorch/issues/140296
    """

    code = "DEV602"
    name = "async-host-read"
    severity = Severity.ERROR
    probe = Probe("race")

    def on_async_read(self, read: AsyncRead) -> Iterator[Report]:
        notes = (
            ()
            if read.copy is None
            else (Note("origin", read.copy, "the copy begins here, and is not waited for"),)
        )
        sure = weakest(Confidence.LIKELY, confidence_of(read.value.certainty))
        message = f"`{self.context.code(read.node)}` reads what `non_blocking=True` may still be copying to the host"
        yield self.finding(read, message, confidence=sure, notes=notes, fix=_fix(read.copy), cause=read.copy)


def _fix(copy: cst.CSTNode | None) -> NodeFix | None:
    if not isinstance(copy, cst.Call):
        return None
    given = next((a for a in copy.args if a.keyword is not None and a.keyword.value == "non_blocking"), None)
    if given is None:
        return None
    return NodeFix("wait for the copy", Safety.UNSAFE, (NodeEdit(given.value, "replace", "False"),))
