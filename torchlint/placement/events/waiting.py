"""Waits of the host, clocks, copies under way, and what outlives its step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.placement.events.base import Event

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.values import Certainty, Value


@dataclass(slots=True)
class Sync(Event):
    """The host waits for the device.

    api: `item`, `tolist`, `cpu`, `float()`, `if`, `nonzero`, …. hidden: nothing in the code's words says so.
    demanded: the consumer needs the value on the host (lengths of packed sequences, the step of an environment).
    subject: the name of what is read, behind all calls and attributes. statement: where it stands.
    each: the elements of one tensor are read one by one. spared: the number is used where a tensor would do: it
    meets tensors in arithmetic, or is asked in a test, or goes into a record.
    idle: the code waited for all work just before, so that nothing is left to wait for.
    streams: the file orders work on streams of its own, which a wait for all of the device may be there to join.
    decides: it is asked by an `if` whose branches do what no operation on the device can stand in for, or the number
    that it reads is.
    anyway: later in the same step the host has to wait in any case. assumed: nothing shows that it waits for a
    device in every step: its code is left out by default, or callers leave out what is read, or have it on the CPU.
    branched: a test stands before it in its function that nothing shows to hold. optional: a setting decides, or
    what takes times or figures of memory around it needs the wait.
    skips: it is asked to see whether the backward of this very step is left out.
    """

    api: str
    value: Value | None
    hidden: bool = False
    demanded: bool = False
    subject: str = ""
    statement: cst.CSTNode | None = None
    each: bool = False
    spared: bool = False
    streams: bool = False
    idle: bool = False
    decides: bool = False
    anyway: bool = False
    assumed: bool = False
    branched: bool = False
    optional: bool = False
    skips: bool = False


@dataclass(slots=True)
class Pin(Event):
    """Memory is pinned (`pin_memory`), on a tensor or by a DataLoader."""

    value: Value


@dataclass(slots=True)
class Workers(Event):
    """A DataLoader's dataset or collate function gives tensors that are on an accelerator.

    The node is what put such a tensor there, the loader where that is not known in this file.
    loader: the call that makes it. count: of its worker processes, as written. pins: whether it pins what it gets.
    """

    loader: cst.CSTNode
    count: int
    pins: bool
    certainty: Certainty


@dataclass(slots=True)
class Accumulate(Event):
    """A value that still holds its graph is kept across steps.

    how: `+=`, `append`, `update()`, …; `carried` where it is a state that the next step begins with,
        `within` where it holds such a value. into: the name of what keeps it. kept: the expression whose value it is.
    renewed: what keeps it begins anew now and then, within the loop.
    """

    value: Value
    how: str
    into: str
    kept: cst.BaseExpression
    renewed: bool = False


@dataclass(slots=True)
class Clock(Event):
    """Host time is read."""

    api: str


@dataclass(slots=True)
class Timing(Event):
    """A time span is computed whose end does not wait for the device work in it.

    start: where it begins; None where that is another hook of the same class. work: the last device work in it.
    end: where the clock is read for its end.
    """

    start: cst.CSTNode | None
    work: cst.CSTNode | None
    end: cst.CSTNode | None = None


@dataclass(slots=True)
class AsyncRead(Event):
    """The host reads a tensor while an asynchronous copy of it, begun at `copy`, may still be on its way."""

    api: str
    value: Value
    copy: cst.CSTNode | None
