"""DEV117: something is used as a device that torch takes for none."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import DeviceText
from torchlint.rule import Note, Probe, Report, Rule


class InvalidDevice(Rule):
    """Something is used as a device that torch takes for none.

    What it does
        Finds texts such as "cuda:cuda:0", "cuda:cpu", "0" or "gpu" that become a device: written out, or put
        together from a prefix and what a name, the default of a command-line option or that of a parameter holds.
        Also `torch.cuda.set_device` with a device that has no index, the context manager `torch.cuda.device(i)` in
        place of a device, `.cuda(True)`, and numbers past the devices that the file itself makes visible.

    Why it matters
        torch takes a type, or a type, a colon and a number. Anything else raises, with the options that the program
        has by itself.

    Example
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda:0")
        args = parser.parse_args()
        device = torch.device(f"cuda:{args.device}" if torch.cuda.is_available() else "cpu")  # <-

    Use instead
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda:0")
        args = parser.parse_args()
        device = torch.device(args.device if torch.cuda.is_available() else "cpu")

    Fix
        None. Which of the two parts is one too many is for the author to say.

    References
        https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device
        https://github.com/samsledje/ConPLex/issues/34
    """

    code = "DEV117"
    name = "invalid-device"
    severity = Severity.ERROR
    probe = Probe("error", {"texts": "nvalid device string|start of device string|must not be empty|specified index"
                           "|must be torch.device|received an invalid combination"})  # fmt: skip

    def on_device_text(self, given: DeviceText) -> Iterator[Report]:
        if given.scene.expects_error or given.scene.caught or given.scene.is_test:
            return
        if given.what == "ordinal" and given.default is not None:
            message = f"`{given.text}` is past the devices that this file makes visible, which count from 0 anew"
            notes = (Note("context", given.default, "they are chosen here"),)
            yield self.finding(given, message, confidence=Confidence.LIKELY, notes=notes)
            return
        message, notes = f'torch takes no "{given.text}" for a device', ()
        if given.what:
            message = _MESSAGES[given.what]
        elif given.default is not None:
            message = f'with the default of `{given.name}` this is "{given.text}", which torch takes for no device'
            notes = (Note("context", given.default, "the default is given here"),)
        sure = Confidence.CERTAIN if given.default is None else Confidence.LIKELY
        yield self.finding(given, message, confidence=sure, notes=notes)


_MESSAGES = {
    "no index": "`set_device` wants an index, and raises ValueError for a device without",
    "context": "`torch.cuda.device` is a context manager and no device; `torch.device` makes one",
    "bool": "the first argument is the device, and a bool is none; say `non_blocking=`",
}
