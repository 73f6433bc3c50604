"""DEV504: float64 on a device that may be MPS, which has none."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Create, DeviceName, Event, Move
from torchlint.placement.values import Value
from torchlint.rule import Probe, Report, Rule, RuleContext


class MpsFloat64(Rule):
    """A float64 tensor is made on a device that may be MPS.

    What it does
        Finds tensors that are created in, or converted to, float64 on MPS, or moved there as NumPy made them, and
        Modules that hold such; also on a device that is not known, where the file speaks of MPS and no test around
        asks for it. With `--confidence possible` also where the file does not.

    Why it matters
        MPS has no float64: the operation raises TypeError.

    Example
        import torch

        device = "mps" if torch.backends.mps.is_available() else "cpu"


        def positions(count):
            return torch.arange(count, dtype=torch.float64, device=device)  # <-

    Use instead
        import torch

        device = "mps" if torch.backends.mps.is_available() else "cpu"


        def positions(count):
            return torch.arange(count, dtype=torch.float32, device=device)

    Fix
        None. Whether float32 is precise enough is for the author to say.

    References
        https://docs.pytorch.org/docs/stable/notes/mps.html
    """

    code = "DEV504"
    name = "mps-float64"
    severity = Severity.WARNING
    probe = Probe("error", {"texts": "float64", "kind": "mps"})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._knows_mps = False
        self._found: dict[cst.CSTNode, Event] = {}

    def on_device_name(self, named: DeviceName) -> None:
        self._knows_mps |= named.device == "mps"

    def on_create(self, create: Create) -> None:
        doubles = create.dtype in _DOUBLE or "float64" in create.value.facts
        if doubles and create.why in ("explicit", "template"):
            self._note(create, create.value)

    def on_move(self, move: Move) -> None:
        doubles = move.moves_device and move.dtype is None and "float64" in move.value.facts
        converts = move.dtype in _DOUBLE or move.api == "double"
        if (doubles and move.value.is_module) or ((doubles or converts) and move.value.is_tensor):
            self._note(move, move.result)

    def _note(self, event: Event, value: Value) -> None:
        if value.places and all(p.place.name.split(":")[0] == "mps" for p in value.places):
            self._knows_mps = True
            self._found[event.node] = event
            return
        asked = any("mps" in condition.lower() for condition, _ in event.scene.conditions)
        asked = asked or event.scene.accelerator_is_tested
        elsewhere = (
            value.places
            and not value.may_be_on_host
            and not any(p.place.name.startswith("cuda") for p in value.places)
        )
        if elsewhere and not asked and not event.scene.is_test:
            self._found[event.node] = event

    def finish(self) -> Iterator[Report]:
        confidence = Confidence.LIKELY if self._knows_mps else Confidence.POSSIBLE
        for event in self._found.values():
            yield self.finding(event, "MPS has no float64, and this may run there", confidence=confidence)


_DOUBLE = frozenset(["float64", "double"])
