"""What a DataLoader's worker processes give back: tensors on an accelerator can't come from there, nor be pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.definitions.functions import summarise
from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.devices import is_vendor
from torchlint.placement.events import Workers
from torchlint.placement.syntax import integer, words
from torchlint.placement.values import Alternative, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: How deep tensors are looked for in what a dataset gives.
_DEPTH = 4


def note_workers(run: Interpreter, node: cst.Call, dataset: Value, arguments: Arguments) -> None:
    """Emit a `Workers` for a loader whose dataset or collate function gives tensors on an accelerator.

    Workers that are spawned may hold CUDA tensors, forked ones can't
    (https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing).
    """
    count, pinned = arguments.find("num_workers", 5), arguments.find("pin_memory", 7)
    known = integer(count.node) if count is not None else 0
    pins = pinned is not None and words(pinned.node) == "True"
    if arguments.find("multiprocessing_context") is not None or "set_start_method" in run.usage.mentions:
        known = 0
    if not known and not pins:
        return
    for value, maker in _given(dataset, arguments):
        for made in _away(value, maker):
            origin = made.places[0].origin
            own = maker is not None and maker.run is run and origin is not None
            accused = origin if own and origin is not None else node
            run.emit(Workers(accused, run.scene, node, known or 0, pins, made.certainty))
            return


def _given(dataset: Value, arguments: Arguments) -> Iterator[tuple[Value, Function | None]]:
    """What the workers make, and what makes it: the batches of a collate function, else the dataset's items."""
    collate = arguments.value("collate_fn", 6)
    if collate is not None and isinstance(collate.ref, Function):
        maker: Function | None = collate.ref
    elif dataset.element is not None:
        yield dataset.element, None
        return
    else:
        maker = dataset.ref.method("__getitem__") if isinstance(dataset.ref, Class) else None
    if maker is not None and maker.state != "running":
        summarise(maker)
        yield maker.result, maker


def _away(value: Value, maker: Function | None, depth: int = _DEPTH) -> Iterator[Value]:
    """The tensors in a value that are off the host, where the code names the device or chooses it."""
    if value.kind in (Kind.TENSOR, Kind.UNKNOWN) and value.certainty is not Certainty.GUESSED:
        if value.places and all(_is_accelerator(p, maker) for p in value.places):
            yield value
    if depth:
        inside = (*(value.items or ()), *(value.keys or {}).values(), value.element)
        for inner in inside:
            if inner is not None:
                yield from _away(inner, maker, depth - 1)


def _is_accelerator(alternative: Alternative, maker: Function | None) -> bool:
    place = alternative.place
    if not place.is_named:
        return False
    if is_vendor(place.name):
        return True
    if maker is None or place.name in maker.parameters:
        return False
    # A global choice such as `"cuda" if torch.cuda.is_available() else "cpu"`.
    known = maker.run.globals.get(place.name)
    return known is not None and known.kind is Kind.DEVICE and "accelerator" in known.tests
