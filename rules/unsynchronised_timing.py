"""DEV305: a time span ends before the device work in it does."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Timing
from torchlint.rule import Note, Report, Rule


class UnsynchronisedTiming(Rule):
    """A time span ends before the device work in it does.

    What it does
        Finds differences of two readings of `time.time()`, `time.perf_counter()` and their like with work for an
        accelerator in between, and nothing that waits for it; `elapsed_time` of events that nobody waited for; and
        Lightning hooks at the end of a batch that read the clock without waiting.

    Why it matters
        A call of a model puts its kernels into a queue and returns. What the clock then shows is how long that
        took, not how long the device computes.

    Example
        import time


        def latency(model, x, device):
            x = x.to(device)
            start = time.perf_counter()
            model(x)
            return time.perf_counter() - start  # <-

    Use instead
        import time
        import torch


        def latency(model, x, device):
            x = x.to(device)
            torch.accelerator.synchronize()
            start = time.perf_counter()
            model(x)
            torch.accelerator.synchronize()
            return time.perf_counter() - start

    Fix
        None. Wait for the device before each reading (`torch.accelerator.synchronize()`, or `torch.cuda.`), or use
        events of the device.

    Verification
        Confirmed where nothing between the last device work and the second reading waits for the device.

    References
        https://pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
        https://github.com/mmcdermott/MEDS_EIC_AR/issues/132
    """

    code = "DEV305"
    name = "unsynchronised-timing"
    severity = Severity.WARNING

    def on_timing(self, timing: Timing) -> Iterator[Report]:
        notes = []
        if timing.start is not None:
            notes.append(Note("context", timing.start, "the time span begins here"))
        if timing.work is not None:
            notes.append(
                Note("context", timing.work, "this work for the device may still be running when it ends")
            )
        if timing.end is not None:
            notes.append(Note("context", timing.end, "and ends here"))
        message = f"`{self.context.code(timing.node)}` does not wait for the device work that it times"
        # Where all of the program runs on the CPU, nothing is left to wait for.
        sure = Confidence.POSSIBLE if timing.scene.host_program else Confidence.LIKELY
        yield self.finding(timing, message, confidence=sure, notes=notes)
