"""What goes to a replay and comes back: requests and answers, as the parent's code handles them.

The wire format and the meaning of every field are described in `torchlint/verify/worker/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Device:
    """Where to run. how: `simulated`, `real`, or `absent` (accelerators hidden, no simulator)."""

    how: str = "simulated"
    kind: str = "cuda"
    count: int = 1


@dataclass(frozen=True)
class Module:
    """A module that the replay may import, from its text. `trusted`: our own stand-in, not held to the policy."""

    name: str
    source: str
    path: str = ""
    lines: Mapping[int, int] | None = None
    package: bool = False
    trusted: bool = False


@dataclass(frozen=True)
class Loop:
    """A loop to count by. `then`: `stop` the replay or `break` the loop after so many iterations in all."""

    id: str
    line: int
    iterations: int = 12
    then: str = "stop"
    hot: bool = True
    graph: bool = False
    module: str | None = None


@dataclass(frozen=True)
class Watch:
    """A place to look at. `what`: call, value, before, after or reach; `expression` for before and after."""

    id: str
    what: str
    line: int
    column: int | None = None
    text: str | None = None
    expression: str | None = None
    digest: bool = False
    limit: int = 16
    module: str | None = None


@dataclass(frozen=True)
class Limits:
    """wall, cpu: seconds. memory: bytes beyond the worker's own. events: distinct events kept."""

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 1 << 30
    events: int = 4000


@dataclass(frozen=True)
class Request:
    """One replay. Lines of `loops` and `watch` are those of `source`; `lines` maps them to the user's file."""

    source: str
    path: str = "<replay>"
    lines: Mapping[int, int] | None = None
    device: Device = Device()
    modules: tuple[Module, ...] = ()
    imports: tuple[str, ...] = ()
    record: tuple[str, ...] | None = None
    loops: tuple[Loop, ...] = ()
    cap: int = 200
    watch: tuple[Watch, ...] = ()
    precision: bool = False
    underflow: int = 0
    name: str = "__main__"
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    limits: Limits = Limits()
    stage: Mapping[str, Any] | None = None
    lenient: bool = False

    def to_json(self, id: int) -> dict[str, Any]:
        """The request on the wire."""
        message = {name: _plain(value) for name, value in vars(self).items()}
        underflow = message.pop("underflow")
        message["precision"] = {"underflow": underflow} if underflow else self.precision
        message["id"] = id
        return message


@dataclass(frozen=True)
class Event:
    """One thing that happened; `by_iteration` counts it per iteration of the hot loop, 0 before it."""

    kind: str
    api: str
    path: str
    line: int
    via: str
    source: str
    target: str
    origins: tuple[int, ...]
    marks: tuple[str, ...]
    detail: Mapping[str, Any]
    count: int
    by_iteration: Mapping[int, int]


@dataclass(frozen=True)
class Raised:
    """What the code raised, and the user's lines that it went through, the innermost last.

    gap: the simulator failed, not the code; nothing follows from such a replay.
    """

    type: str
    message: str
    path: str = ""
    line: int = 0
    lines: tuple[tuple[str, int], ...] = ()
    gap: bool = False


@dataclass(frozen=True)
class Answer:
    """What a replay said.

    status: `ran`, `raised`, `refused` (by the policy), `crashed` or `timed out`. Of a child that died,
    nothing but
    the status, `signal` and `stderr` is known; one whose wall clock ran out tells what it saw until then.
    """

    status: str
    device: str = ""
    torch: str = ""
    stopped: str = ""
    exception: Raised | None = None
    refusals: tuple[tuple[int, str], ...] = ()
    events: tuple[Event, ...] = ()
    sequence: tuple[tuple[int, Event], ...] = ()
    watched: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    loops: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    precision: Mapping[str, Any] | None = None
    stdout: str = ""
    stderr: str = ""
    signal: str = ""
    denied: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    skipped: tuple[tuple[int, str], ...] = ()
    seconds: float = 0.0
    megabytes: float = 0.0

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> Answer:
        """The answer from the wire; fields that are missing or unknown do no harm."""
        known = {k: v for k, v in message.items() if k in cls.__dataclass_fields__}
        raised = known.get("exception")
        if raised:
            lines = tuple((str(p), int(n)) for p, n in raised.get("lines", ()))
            raised = Raised(**{**raised, "lines": lines})
        events = tuple(_event(e) for e in known.get("events", ()))
        known.update(
            exception=raised,
            events=events,
            refusals=tuple((r["line"], r["reason"]) for r in known.get("refusals", ())),
            sequence=tuple((int(i), events[n]) for i, n in known.get("sequence", ())),
            watched={k: tuple(v) for k, v in known.get("watched", {}).items()},
            unmatched=tuple(known.get("unmatched", ())),
            denied=tuple(known.get("denied", ())),
            layers=tuple(known.get("layers", ())),
            assumed=tuple(known.get("assumed", ())),
            skipped=tuple((int(line), str(why)) for line, why in known.get("skipped", ())),
        )
        return cls(**known)

    def of(self, kind: str, line: int | None = None) -> list[Event]:
        """The events of a kind, at a line if one is named."""
        return [e for e in self.events if e.kind == kind and line in (None, e.line)]

    def count(self, kind: str, line: int | None = None) -> int:
        """How often events of a kind happened in all."""
        return sum(e.count for e in self.of(kind, line))

    def per_iteration(self, kind: str, line: int | None = None) -> dict[int, int]:
        """How often events of a kind happened in each iteration of the hot loop."""
        counts: dict[int, int] = {}
        for event in self.of(kind, line):
            for iteration, count in event.by_iteration.items():
                if iteration:
                    counts[iteration] = counts.get(iteration, 0) + count
        return counts


def _event(message: Mapping[str, Any]) -> Event:
    by_iteration = {int(k): int(v) for k, v in message["by_iteration"].items()}
    lists = {"origins": tuple(message["origins"]), "marks": tuple(message["marks"])}
    return Event(**{**message, **lists, "by_iteration": by_iteration})


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as JSON has them."""
    if hasattr(value, "__dataclass_fields__"):
        return {k: _plain(v) for k, v in vars(value).items()}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value
