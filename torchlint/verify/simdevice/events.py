"""What an accelerator reports: events, each with the user's line and a count for every iteration of the hot loop.

Kinds of events, in the words of the static observer:

- `create`: a factory made a tensor; target: its device. Detail: `reason` (explicit, default or template),
  `host_data`.
- `move`: `.to/.cuda/.cpu/.half/…` was called; source: the device before, target: the one asked for. Detail:
  `kept` (the receiver itself came back), `dtype`, `non_blocking`.
- `copy`: bytes went from one device to another. Detail: `elements`.
- `mix`: one operation, operands in different places. Detail: `message`, `op` and `operands`, each a tuple of
  argument name, device, rank, origins, marks and whether it is accused.
- `sync`: the host waits for the device. `race`: it reads a copy that may still be under way.
- `pin`, `load`: memory is pinned, a checkpoint is read.
- `autocast`, `backward`, `scaler`, `gradient`, `step`: the mixed-precision protocol, see
  `worker/precision.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

#: Frames of these files are the machinery between the user's line and the operation, never the callee.
_MACHINERY = (
    __name__.rpartition(".")[0].rpartition(".")[0],
    "torch.overrides",
    "torch.utils._python_dispatch",
    "torch._compile",
    "torch._dynamo",
    "contextlib",
)
#: Counts of later iterations are added to this one's.
LAST_ITERATION = 256


@dataclass(frozen=True)
class Event:
    """One thing that happened, as it is counted: two that agree in all fields are one event with count 2.

    api: the innermost torch call, e.g. `Tensor.item`.
    line: the user's innermost line (0: none, e.g. code that a stand-in inserted).
    via: what that line called, where that is Python code of a library, e.g. `clip_grad_norm_`; else "".
    origins: the lines that decided where the value lives. marks: the stand-ins on which that rests.
    """

    kind: str
    api: str
    path: str = ""
    line: int = 0
    via: str = ""
    source: str = ""
    target: str = ""
    origins: tuple[int, ...] = ()
    marks: tuple[str, ...] = ()
    detail: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Site:
    """Where the user's code is: its innermost frame, and what that frame called."""

    path: str
    line: int
    via: str


class Recorder:
    """Counts events, by the iteration of the hot loop in which they happen.

    files: the file names under which the user's code was compiled.
    kinds: the kinds to record; None for all. limit: distinct events kept; what is beyond is counted in
    `dropped`.
    """

    def __init__(self, files: Iterable[str], kinds: Iterable[str] | None = None, limit: int = 4000) -> None:
        self.files = frozenset(files)
        self.kinds = None if kinds is None else frozenset(kinds)
        self.limit = limit
        self.dropped = 0
        #: 0 before the hot loop, then its iterations from 1.
        self.iteration = 0
        self.counts: dict[Event, dict[int, int]] = {}
        #: Events of the mixed-precision protocol in program order, as (iteration, event).
        self.sequence: list[tuple[int, Event]] = []

    def wants(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def add(
        self,
        kind: str,
        api: str,
        *,
        source: str = "",
        target: str = "",
        origins: tuple[int, ...] = (),
        marks: Iterable[str] = (),
        detail: Mapping[str, Any] | None = None,
        ordered: bool = False,
    ) -> None:
        """Count an event at the user's current line. Values of `detail` must be hashable."""
        if not self.wants(kind):
            return
        site = self.site()
        event = Event(
            kind,
            api,
            site.path,
            site.line,
            site.via,
            source,
            target,
            origins,
            tuple(sorted(marks)),
            tuple(sorted(detail.items())) if detail else (),
        )
        counts = self.counts.get(event)
        if counts is None:
            if len(self.counts) >= self.limit:
                self.dropped += 1
                return
            counts = self.counts[event] = {}
        iteration = min(self.iteration, LAST_ITERATION)
        counts[iteration] = counts.get(iteration, 0) + 1
        if ordered and len(self.sequence) < self.limit:
            self.sequence.append((self.iteration, event))

    def site(self) -> Site:
        """The user's innermost frame that is being executed, with what it called."""
        frame, callee = sys._getframe(1), None
        while frame is not None:
            code = frame.f_code
            if code.co_filename in self.files:
                return Site(code.co_filename, frame.f_lineno, _name(callee))
            if not _is_machinery(frame.f_globals.get("__name__", "")):
                callee = code
            frame = frame.f_back  # type: ignore[assignment]
        return Site("", 0, "")

    def of(self, kind: str, line: int | None = None) -> list[Event]:
        """The events of a kind, at a line if one is named."""
        return [e for e in self.counts if e.kind == kind and line in (None, e.line)]

    def count(self, kind: str, line: int | None = None) -> int:
        """How often events of a kind happened in all."""
        return sum(sum(self.counts[e].values()) for e in self.of(kind, line))


def _is_machinery(module: str) -> bool:
    return module.startswith(_MACHINERY)


def _name(code: CodeType | None) -> str:
    return "" if code is None else str(getattr(code, "co_qualname", code.co_name))
