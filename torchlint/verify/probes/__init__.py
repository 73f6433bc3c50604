"""What would confirm a finding and what would refute it: the probes that rules declare beside their code.

A rule says `probe = Probe("sync")` and no more. A probe asks for a replay (`ask`) and reads its answer (`judge`).
Evidence counts only if it rests on nothing but code that ran, and on what the finding itself assumes of the caller:
marks that start with `caller: `. Whatever else was stood in for never confirms.
"""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.rule import Rule
from torchlint.verify.probes.base import CONFIRMED, INCONCLUSIVE, REFUTED, Ask, Probe, Said, Site, reached
from torchlint.verify.probes.moves import (
    CopiesProbe,
    DiscardedMoveProbe,
    HelperProbe,
    IgnoredDeviceProbe,
    MixProbe,
)
from torchlint.verify.probes.naming import HardcodedProbe
from torchlint.verify.probes.precision import AutocastProbe, ScalerProbe, UnderflowProbe
from torchlint.verify.probes.state import ErrorProbe, NumpyProbe, RaceProbe, UnregisteredProbe, WarningProbe
from torchlint.verify.probes.values import LoadProbe, ValueProbe
from torchlint.verify.probes.waiting import GraphProbe, SyncProbe

#: The probes that rules may declare, by kind.
KINDS: Mapping[str, type[Probe]] = {
    "discarded-move": DiscardedMoveProbe,
    "discarded-helper": HelperProbe,
    "ignored-device": IgnoredDeviceProbe,
    "mix": MixProbe,
    "copies": CopiesProbe,
    "race": RaceProbe,
    "sync": SyncProbe,
    "graph": GraphProbe,
    "unregistered": UnregisteredProbe,
    "error": ErrorProbe,
    "numpy": NumpyProbe,
    "warning": WarningProbe,
    "hardcoded": HardcodedProbe,
    "underflow": UnderflowProbe,
    "scaler": ScalerProbe,
    "autocast": AutocastProbe,
    "value": ValueProbe,
    "load": LoadProbe,
}


def probe_of(rule: type[Rule]) -> Probe | None:
    """The probe that a rule declares. Raises KeyError or TypeError where there is no such one."""
    return None if rule.probe is None else KINDS[rule.probe.kind](**rule.probe.options)


__all__ = [
    "CONFIRMED",
    "INCONCLUSIVE",
    "KINDS",
    "REFUTED",
    "Ask",
    "Probe",
    "Said",
    "Site",
    "probe_of",
    "reached",
]
