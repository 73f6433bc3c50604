"""Random generators on another device than what they fill: torch draws on one device with a generator of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import is_vendor
from torchlint.placement.events import Draw, Operand
from torchlint.placement.syntax import words
from torchlint.placement.values import Alternative, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


def note_draw(run: Interpreter, node: cst.Call, api: str, generator: Operand | None, target: Value) -> None:
    """A factory fills a tensor with a generator that the code makes elsewhere
    (aten/src/ATen/core/Generator.h: `check_generator`)."""
    if generator is None or generator.value.kind is not Kind.GENERATOR:
        return
    own, wanted = generator.value, target
    if own.certainty is not Certainty.KNOWN or not own.places or not wanted.places:
        return
    if own.on_host and not wanted.may_be_on_host and all(map(_is_away, wanted.places)):
        run.emit(Draw(node, run.scene, api, "host", "tensor", own.origin))
    elif wanted.on_host and not own.may_be_on_host and all(map(_is_away, own.places)):
        run.emit(Draw(node, run.scene, api, "away", "tensor", own.origin))


def _is_away(alternative: Alternative) -> bool:
    return alternative.place.is_named


def note_sampling(run: Interpreter, node: cst.Call, api: str, arguments: Arguments, dataset: Value) -> None:
    """A loader shuffles, or a dataset is split, by a permutation that is drawn on the default device.

    Without a generator of one's own that is one of the CPU (torch/utils/data/sampler.py: `RandomSampler.__iter__`;
    torch/utils/data/dataset.py: `random_split`).
    """
    if run.scene.is_test or arguments.starred or arguments.unpacked or dataset.kind is Kind.OWNED:
        return
    if run.frame.function is None and not run.default_is_set:
        return  # a program's own statements run in their order, and so do the cells of a page
    if api == "DataLoader":
        shuffled = arguments.find("shuffle", 2)
        if shuffled is None or words(shuffled.node) != "True":
            return
    generator = arguments.find("generator", {"random_split": 2, "RandomSampler": 3}.get(api))
    if generator is None or generator.value.kind is Kind.NONE:
        run.emit(Draw(node, run.scene, api, "none", "default"))
    elif generator.value.kind is Kind.GENERATOR and generator.value.on_host:
        run.emit(Draw(node, run.scene, api, "host", "default", generator.value.origin))


def is_accelerator(device: Value) -> bool:
    """Whether a value that becomes the default device is an accelerator, or one where there is any."""
    if device.kind is Kind.STRING:
        text = device.name or ""
        return is_vendor(text) or text.startswith(("torch.cuda.", "torch.xpu.", "torch.mps."))
    if device.kind is Kind.API:
        return (device.name or "").startswith(("torch.cuda.", "torch.xpu."))
    if device.kind is not Kind.DEVICE or not device.places or device.may_be_on_host:
        return False
    named = all(p.place.is_named and is_vendor(p.place.name) for p in device.places)
    return named or bool(device.tests & {"accelerator"})
