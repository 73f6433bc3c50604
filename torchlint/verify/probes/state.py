"""Probes of state and of errors: attributes that `.to` leaves behind, errors at a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchlint.verify.probes.base import (
    CONFIRMED,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    allowed,
    at,
    raised,
    reach,
    reached,
    short,
    undecided,
)
from torchlint.verify.probes.moves import MixProbe
from torchlint.verify.protocol import Answer, Device


@dataclass(frozen=True)
class UnregisteredProbe(Probe):
    """Confirmed where the attribute is still on the CPU after the module has moved; refuted where it moved along."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=2),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        match = re.match(r"\s*self\.(\w+)", site.code)
        state = answer.state or {}
        if match is None:
            match = re.search(r"`?self\.(\w+)", site.message)
        if match is None or not state:
            return MixProbe().judge(answers, site) if answer.of("mix") else undecided(answer, site)
        name = match[1]
        others = state.get("devices") or []
        held = state.get("held", {}).get(name)
        if held and "cpu" in held and others != ["cpu"]:
            moved = f", while its parameters are on {others[0]}" if others else ""
            return Said(CONFIRMED, f"after `.to` of the module, `self.{name}` is still on the CPU{moved}")
        if name in state.get("registered", ()):
            return Said(REFUTED, f"`self.{name}` moved along with the module")
        return undecided(answer, site)


@dataclass(frozen=True)
class ErrorProbe(Probe):
    """Confirmed where the line raises an error of these words; refuted where it runs.

    texts: alternatives, as a regular expression. elsewhere: the error may come from another line.
    quiet_refutes: that the line runs without it refutes. kind: of the accelerator.
    """

    texts: str = ""
    elsewhere: bool = False
    quiet_refutes: bool = True
    kind: str = "cuda"

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=self.iterations, device=Device(kind=self.kind)),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        error = answer.exception
        if error is not None and not error.gap and re.search(self.texts, f"{error.type}: {error.message}"):
            if not allowed(answer.state.get("blame", ())):
                return undecided(answer, site, "it raises, but for a value that was stood in for")
            if self.elsewhere or any(site.here(path, line) for path, line in error.lines):
                return Said(CONFIRMED, raised(answer, site))
        if not reached(answer) or answer.status in ("crashed", "refused", "timed out") or error is not None:
            return undecided(answer, site)
        if not self.quiet_refutes or any("does not fit" in words for words in answer.assumed):
            return undecided(answer, site)
        return Said(REFUTED, "the line ran without that error")


@dataclass(frozen=True)
class NumpyProbe(ErrorProbe):
    """NumPy is handed a tensor that is on an accelerator, or that requires grad."""

    texts: str = r"to numpy|Can't call numpy\(\)|can't convert"


@dataclass(frozen=True)
class RaceProbe(Probe):
    """Confirmed where the host reads what an asynchronous copy may still be filling."""

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        races = at(answer.of("race"), site)
        if any(allowed(e.marks, ("host: ",)) for e in races):
            return Said(CONFIRMED, f"`{races[0].api}` read the copy before anything had waited for it")
        if not reached(answer) or answer.exception is not None or races:
            return undecided(answer, site)
        if answer.of("race") or answer.assumed:
            return undecided(
                answer, site, "no unfinished copy was read here, but that rests on what was stood in for"
            )
        return Said(REFUTED, "nothing was read here before its copy had arrived")


@dataclass(frozen=True)
class WarningProbe(Probe):
    """Confirmed where torch warns in these words; refuted where the line runs without a word."""

    texts: str = "deprecated"

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        warned = re.search(rf"\w*Warning: [^\n]*(?:{self.texts})[^\n]*", answer.stderr)
        if warned:
            return Said(CONFIRMED, short(warned[0]))
        if not reached(answer) or answer.exception is not None:
            return undecided(answer, site)
        return Said(REFUTED, "it ran without that warning")
