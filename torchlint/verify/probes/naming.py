"""Probes of devices by name: what happens where that device is not there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from torchlint.verify.probes.base import (
    CONFIRMED,
    HERE,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    raised,
    reach,
    reached,
    short,
    undecided,
)
from torchlint.verify.protocol import Answer, Device, Watch


@dataclass(frozen=True)
class HardcodedProbe(Probe):
    """The counterfactual: no accelerator is there. Fails, and with "cpu" in place of the name it doesn't: confirmed.

    direct: what is flagged is a call that fails by itself, whatever device it is for.
    """

    direct: bool = False

    def asks(self, site: Site) -> tuple[Ask, ...]:
        absent = Device(how="absent", kind="none")
        watch = (*reach(site), Watch("name", "value", site.line, column=site.column, limit=1))
        first = Ask(watch=watch, iterations=2, device=absent)
        return (first, replace(first, substitute="device"), replace(first, device=HERE))

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        first = answers[0]
        error = first.exception
        if error is not None and _speaks_of_devices(error.message):
            return self._fails(answers, site)
        if not _evaluated(first) and first.status == "ran" and len(answers) > 2 and _evaluated(answers[2]):
            return Said(REFUTED, "the code does not come to it where no accelerator is")
        if not reached(first) or first.status != "ran":
            return undecided(first, site)
        warned = re.search(r"\w*Warning: [^\n]*(not available|isabling)[^\n]*", first.stderr)
        if warned:
            return Said(CONFIRMED, f"without an accelerator: {short(warned[0])}")
        if not _evaluated(first):
            return undecided(first, site, "the replay never came to the name itself")
        if re.match(r"[\w.]+\(", site.code) and not site.code.startswith("torch.device("):
            return Said(REFUTED, "it runs where no accelerator is")
        return undecided(
            first, site, "without an accelerator nothing failed, but nothing was seen to use it either"
        )

    def _fails(self, answers: tuple[Answer, ...], site: Site) -> Said:
        """It fails for want of the device: is it this name's fault?"""
        first, error = answers[0], answers[0].exception
        assert error is not None
        if self.direct and any(site.here(p, n) for p, n in error.lines):
            return Said(CONFIRMED, f"without an accelerator, {raised(first, site)}")
        if len(answers) < 2:
            return undecided(first, site, "no counterfactual was run")
        second = answers[1].exception
        if second is not None and second.message == error.message and second.line == error.line:
            return undecided(first, site, f"it fails with `cpu` here, too: {short(error.message)}")
        where = "there" if site.here(error.path, error.line) else f"line {error.line}"
        failed = f"{error.type}: {short(error.message)}"
        return Said(
            CONFIRMED, f"without an accelerator, {where}: {failed}; with `cpu` in its place it gets past that"
        )


def _evaluated(answer: Answer) -> bool:
    return bool(answer.watched.get("name"))


def _speaks_of_devices(message: str) -> bool:
    return (
        re.search(
            r"not compiled with|linked with support|NVIDIA driver|No .*GPU|CUDA|cuda|mps|xpu|Cannot access accelerator",
            message,
        )
        is not None
    )
