"""DEV306: the host waits for all device work, or gives memory back, in every training step."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Clock, Sync
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, RuleContext
from torchlint.waits import WaitRule

_APIS = frozenset(["synchronize", "empty_cache"])


class ExplicitSyncInStep(WaitRule):
    """The host waits for all device work, or gives memory back, in every training step.

    What it does
        Finds `torch.cuda.synchronize()`, `torch.cuda.empty_cache()` and their like in code that runs for every
        batch. Silent in functions that take times; `possible` where a setting of the program decides, and where a
        profiler, a timer, a barrier or figures of memory stand around it.

    Why it matters
        PyTorch keeps the order of device work by itself; a `synchronize` adds nothing but a wait. Memory that
        `empty_cache` gives back has to be asked for again in the next step, which waits for the device, too.

    Example
        import torch


        def train(model, loader, optimizer, device):
            for batch in loader:
                loss = model(batch.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.cuda.empty_cache()  # <-

    Use instead
        import torch


        def train(model, loader, optimizer, device):
            for batch in loader:
                loss = model(batch.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    Fix
        Unsafe. Removes the call; peak memory as other processes see it may rise.

    Verification
        Confirmed where the line runs in every step.

    References
        https://pytorch.org/docs/stable/generated/torch.cuda.empty_cache.html
        https://github.com/huggingface/transformers/issues/31372
    """

    code = "DEV306"
    name = "explicit-sync-in-step"
    severity = Severity.WARNING
    probe = Probe("sync", {"explicit": True})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._waits: list[Sync] = []
        self._timed: set[int] = set()

    def on_sync(self, sync: Sync) -> Iterator[Report]:
        # An optimizer that computes on the host has to wait for what it computes with.
        if sync.api in _APIS and sync.scene.every_step and sync.scene.role != "optimizer":
            self._waits.append(sync)
        return iter(())

    def on_clock(self, clock: Clock) -> None:
        self._timed.add(id(clock.scene.function))

    def finish(self) -> Iterator[Report]:
        for sync in self._waits:
            # Device work can't be timed without waiting for it, nor memory measured that is not given back.
            if not self.measures and id(sync.scene.function) not in self._timed:
                yield self.report(sync)

    def message(self, sync: Sync) -> str:
        call = self.context.code(sync.node)
        if sync.api == "empty_cache":
            return f"`{call}` in every step: the next one has to allocate anew, which waits for the device"
        return f"`{call}` in every step: host and device take turns instead of overlapping"

    def confidence(self, sync: Sync) -> Confidence:
        if sync.streams and sync.api == "synchronize":
            return Confidence.POSSIBLE  # what runs beside the current stream has to be waited for
        if sync.optional:
            return Confidence.POSSIBLE  # a setting of the program decides, or what takes times needs it
        return super().confidence(sync)

    def fix(self, sync: Sync) -> NodeFix:
        edits = (NodeEdit(sync.node, "delete-statement"),)
        return NodeFix(f"remove `{self.context.code(sync.node)}`", Safety.UNSAFE, edits)
