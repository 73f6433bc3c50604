"""What every probe has: the place of a finding, what it asks of a replay, and what an answer says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torchlint.verify.protocol import Answer, Device, Event, Watch

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
#: Marks of what the finding itself assumes; `standins/makers.py` has it, too, for the other side of the pipe.
CALLER = "caller: "
DEVICE_ERRORS = re.compile(
    r"same device|Input type|device type tensor to numpy|not compiled with|linked with support"
    r"|Attempting to deserialize"
)


@dataclass(frozen=True)
class Site:
    """The place of a finding in the text that is replayed.

    line, end: the first and the last line. column: from 0. code: the text of the finding. message: its own. told: all
    that the finding says, its related places too. row: the whole line.
    also: lines of its related places by role. loops: the lines of the loops around it, the outermost first.
    interval: the n of `step % n` around it, 0 if not known, None without such a condition.
    """

    path: str
    line: int
    end: int
    column: int
    code: str
    message: str = ""
    told: str = ""
    also: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    row: str = ""
    interval: int | None = None

    @property
    def lines(self) -> range:
        return range(self.line, self.end + 1)

    def here(self, path: str, line: int) -> bool:
        return path == self.path and line in self.lines


#: The accelerator of this machine, or a simulated one.
HERE = Device()


@dataclass(frozen=True)
class Ask:
    """What a probe wants of a replay."""

    watch: tuple[Watch, ...] = ()
    iterations: int = 6
    graph: bool = False
    precision: bool = False
    underflow: int = 0
    device: Device = HERE
    #: `device`: "cpu" in place of the accelerators named there; `host`: without `.cpu()`.
    substitute: str = ""


@dataclass(frozen=True)
class Said:
    """What an answer says of a finding."""

    status: str
    evidence: str


@dataclass(frozen=True)
class Probe:
    """Asks for nothing, and finds nothing; the base of all."""

    #: Reached, or not: said where there is nothing better to say.
    iterations: int = 6
    #: How the device is set up, as a finding may need a second replay with another (see `asks`).
    name: ClassVar[str] = "probe"
    #: A statement alone, with all its names stood in for, can tell.
    alone: ClassVar[bool] = False

    def asks(self, site: Site) -> tuple[Ask, ...]:
        """The replays to make, in this order."""
        return (Ask(watch=reach(site), iterations=self.iterations),)

    def judge(self, answers: tuple[Answer, ...], site: Site) -> Said:
        raise NotImplementedError

    def key(self) -> str:
        """What names the probe in the cache."""
        return repr(self)


def reach(site: Site) -> tuple[Watch, ...]:
    return (Watch("reach", "reach", site.line, limit=1),)


def reached(answer: Answer) -> bool:
    return bool(answer.watched.get("reach")) or ("reach" in answer.unmatched and answer.status == "ran")


def allowed(marks: Iterable[str], more: tuple[str, ...] = ()) -> bool:
    """Whether evidence may rest on values so marked."""
    return all(mark.startswith((CALLER, *more)) for mark in marks)


def undecided(answer: Answer, site: Site, why: str = "") -> Said:
    """Says why nothing follows from a replay."""
    if answer.status == "refused":
        reason = answer.refusals[0][1] if answer.refusals else "the code does what a replay may not"
        return Said(INCONCLUSIVE, f"not run: the code {reason}, which a replay may not")
    if answer.status == "crashed":
        return Said(INCONCLUSIVE, f"the replay's process died ({answer.signal})")
    if answer.status == "timed out" and not reached(answer):
        return Said(INCONCLUSIVE, "the replay took too long before it came to the line")
    error = answer.exception
    if error is not None and error.gap:
        return Said(INCONCLUSIVE, f"the simulator stops at {error.type}: {short(error.message)}")
    if not reached(answer):
        after = f": {error.type} in line {error.line}: {short(error.message)}" if error is not None else ""
        return Said(INCONCLUSIVE, f"the replay never came to the line{after}")
    return Said(INCONCLUSIVE, why or "the line ran, and showed neither the fault nor its absence")


def short(text: str, most: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def at(events: Iterable[Event], site: Site) -> list[Event]:
    return [e for e in events if site.here(e.path, e.line)]


def raised(answer: Answer, site: Site) -> str:
    """The error that the replay ended with, in words."""
    error = answer.exception
    assert error is not None
    where = "there" if site.here(error.path, error.line) else f"line {error.line}"
    return f"{where}: {error.type}: {short(error.message)}"
