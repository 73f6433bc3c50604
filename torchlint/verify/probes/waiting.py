"""Probes of waiting: how often the host waits, what it reads too early, how the autograd graph grows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from torchlint.verify.probes.base import (
    CONFIRMED,
    INCONCLUSIVE,
    REFUTED,
    Ask,
    Probe,
    Said,
    Site,
    allowed,
    at,
    reach,
    reached,
    short,
    undecided,
)
from torchlint.verify.protocol import Answer, Watch


@dataclass(frozen=True)
class SyncProbe(Probe):
    """Confirmed where the host waits about as often as the loop turns; refuted where it seldom or never does."""

    #: Waits an iteration from which on it is a fault, and up to which it is none.
    often: float = 0.5
    seldom: float = 0.1
    #: The call waits by what it is for: that it is made is enough.
    explicit: bool = False

    def asks(self, site: Site) -> tuple[Ask, ...]:
        watch = (*reach(site), Watch("each", "reach", site.line, limit=256))
        ask = Ask(watch=watch, iterations=_enough(site, 12))
        return (ask, replace(ask, substitute="host")) if ".cpu()" in site.row else (ask,)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        said = self._waits(answers[0], site)
        if said.status != CONFIRMED or ".cpu()" not in site.row:
            return said
        if len(answers) < 2:
            return Said(INCONCLUSIVE, "whether the host needs the value was not tried")
        error = answers[1].exception
        if (
            error is not None
            and any(site.here(p, n) for p, n in error.lines)
            and _HOST_ALONE.search(error.message)
        ):
            return Said(REFUTED, f"the value is needed on the host: {short(error.message)}")
        return said

    def _waits(self, answer: Answer, site: Site) -> Said:
        iterations = max([int(v.get("iterations", 0)) for v in answer.loops.values()], default=0)
        waits = [e for e in at(answer.of("sync"), site) if e.source != "cpu"]
        sound = [e for e in waits if allowed(e.marks)]
        number = sum(e.count for e in sound)
        if iterations == 0 or not reached(answer):
            return undecided(answer, site)
        times = len(answer.watched.get("each", ()))
        if self.explicit and _EXPLICIT.search(site.code) and times / iterations >= self.often:
            return Said(CONFIRMED, f"the call was made {times} times in {iterations} iterations")
        if sound and iterations < _FEW and answer.status != "ran":
            return undecided(answer, site, f"the loop ran no more than {iterations} times")
        if sound and number / iterations >= self.often:
            api = sound[0].via or sound[0].api
            return Said(CONFIRMED, f"`{api}` made the host wait {number} times in {iterations} iterations")
        if waits and not sound:
            return Said(INCONCLUSIVE, "the host waits here, but for a value that was stood in for")
        if answer.status in ("crashed", "refused") or (answer.exception is not None and iterations < 3):
            return undecided(answer, site)
        if number / iterations <= self.seldom or (site.interval is not None and number < iterations):
            if not waits and any(f.startswith("what has") for f in answer.assumed):
                return undecided(answer, site)
            return Said(REFUTED, f"the host waited here {number} times in {iterations} iterations")
        return Said(
            INCONCLUSIVE, f"the host waited here {number} times in {iterations} iterations: now and then"
        )


_EXPLICIT = re.compile(r"synchronize|empty_cache|barrier|wait_stream|\bwait\(|ipc_collect")
_HOST_ALONE = re.compile(
    r"should be a 1D CPU|must be on the CPU|on the CPU|CPU int64|expected.*CPU", re.IGNORECASE
)


#: Iterations below which nothing is said of how often a line waits, unless the loop ended by itself.
_FEW = 3


def _enough(site: Site, least: int) -> int:
    """Iterations that show a logging interval: more than twice its length."""
    return min(240, max(least, 2 * (site.interval or 0) + 2))


@dataclass(frozen=True)
class GraphProbe(Probe):
    """Confirmed where the autograd graph that is alive grows with every iteration; refuted where it doesn't."""

    def asks(self, site: Site) -> tuple[Ask, ...]:
        return (Ask(watch=reach(site), iterations=8, graph=True),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        answer = answers[0]
        sizes = [int(m["nodes"]) for v in answer.loops.values() for m in v.get("graph", ())]
        if not reached(answer) or len(sizes) < 4:
            return undecided(answer, site)
        later = sizes[1:]
        if all(b > a for a, b in pairwise(later)):
            return Said(
                CONFIRMED,
                f"the graph kept alive grew from {sizes[0]} to {sizes[-1]} nodes in {len(sizes)} iterations",
            )
        if max(later) <= later[0]:
            return Said(
                REFUTED, f"the graph kept alive stayed at {sizes[-1]} nodes in {len(sizes)} iterations"
            )
        return undecided(answer, site, "the graph kept alive grew in some iterations")
