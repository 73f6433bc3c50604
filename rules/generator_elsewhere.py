"""DEV113: random numbers are drawn on one device with a generator of another."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Draw
from torchlint.rule import Note, Report, Rule


class GeneratorElsewhere(Rule):
    """Random numbers are drawn on one device with a generator of another.

    What it does
        Finds a factory such as `torch.randn` whose `generator` lives elsewhere than the tensor, and a loader that
        shuffles, or a dataset that is split, without a generator of the accelerator in a file that makes an
        accelerator the default device.

    Why it matters
        torch refuses to draw on one device with a generator of another, and raises RuntimeError. A sampler draws the
        order of an epoch on the default device, and makes itself a generator of the CPU.

    Example
        import torch
        from torch.utils.data import DataLoader

        torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


        def loader(data):
            return DataLoader(data, batch_size=2, shuffle=True)  # <-

    Use instead
        import torch
        from torch.utils.data import DataLoader

        torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


        def loader(data):
            generator = torch.Generator(device=torch.get_default_device())
            return DataLoader(data, batch_size=2, shuffle=True, generator=generator)

    Fix
        None. Make the generator where the numbers are drawn, or draw them where it is and move them.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
        https://github.com/pytorch/pytorch/issues/118084
    """

    code = "DEV113"
    name = "generator-elsewhere"
    severity = Severity.ERROR

    def on_draw(self, draw: Draw) -> Iterator[Report]:
        if draw.scene.expects_error or draw.scene.caught or draw.scene.only_host:
            return
        notes = () if draw.origin is None else (Note("origin", draw.origin, "the generator is made here"),)
        yield self.finding(draw, _MESSAGES[draw.onto, draw.generator], confidence=Confidence.LIKELY, notes=notes)


_MESSAGES = {
    ("tensor", "host"): "the tensor is on an accelerator, its generator on the CPU, which torch refuses",
    ("tensor", "away"): "the tensor is on the CPU, its generator on an accelerator, which torch refuses",
    ("default", "none"): "the order is drawn on the default device, an accelerator, with a generator of the CPU;"
    " pass one of that device",
    ("default", "host"): "the order is drawn on the default device, an accelerator, and this generator is of the CPU",
}
