"""The order of device work, waits for it, clocks and asynchronous copies, along one interpretation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.events import AsyncRead, Timing
from torchlint.placement.syntax import descendants
from torchlint.placement.values import Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter
    from torchlint.placement.scene import Scene


class Reading(NamedTuple):
    """The state when a clock was read: the moment, the last device work, the last that takes long, the last waits.

    work: where that work was; scene: where the clock was read.
    """

    moment: int
    worked: int
    laboured: int
    waited: int
    picked: int
    work: cst.CSTNode | None
    scene: Scene


class Timeline:
    """Moments count up as the interpretation goes; branches count one after the other.

    laboured: the moment of the last device work that is more than one operation: a model, a backward.
    worked, waited: the moments of the last device work and of the last thing that may have waited for it.
    given: when work was last given to what may be a device. read: when a tensor was last read, whatever the branch.
    drained: when the code last waited for all work with no finding to tell of, and the scene of that.
    work: where that work was. recorded: when an event was last recorded.
    copied: when each asynchronous copy to the host began.
    picked: when a tensor was last indexed by what may be a mask, whose size the host waits for.
    """

    __slots__ = (
        "clocks", "copied", "drained", "given", "laboured", "now", "picked", "read", "recorded", "waited", "work",
        "worked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now = 0
        self.worked = 0
        self.laboured = 0
        self.waited = 0
        self.recorded = 0
        self.given = 0
        self.read = 0
        self.picked = 0
        self.drained: tuple[int, Scene] | None = None
        self.work: cst.CSTNode | None = None
        self.clocks: dict[cst.CSTNode, Reading] = {}
        self.copied: dict[cst.CSTNode, int] = {}

    def works(self, node: cst.CSTNode, *, briefly: bool = False) -> None:
        """Work is given to the device; one operation is done briefly."""
        self.now += 1
        self.worked, self.work = self.now, node
        if not briefly:
            self.laboured = self.now

    def gives(self) -> None:
        """What may be work for the device is begun."""
        self.now += 1
        self.given = self.now

    def reads(self) -> None:
        """The host waits for what it reads."""
        self.now += 1
        self.read = self.now

    def picks(self) -> None:
        """The host may wait for how much a mask selects."""
        self.now += 1
        self.picked = self.now

    def drains(self, scene: Scene) -> None:
        """The host waits for all work, as the code means it to."""
        self.now += 1
        self.drained = self.now, scene

    def is_idle(self, scene: Scene) -> bool:
        """Whether the device has nothing left to do in any case, since the code has just waited for it."""
        if self.drained is None or self.drained[0] < self.given:
            return False
        there = self.drained[1]
        same = there.function is scene.function and there.loops == scene.loops
        return same and there.conditions <= scene.conditions and there.tests <= scene.tests

    def waits(self) -> None:
        """The host waits for the device, or may."""
        self.now += 1
        self.waited = self.now

    def reads_clock(self, node: cst.CSTNode, scene: Scene) -> None:
        self.now += 1
        self.clocks[node] = Reading(
            self.now, self.worked, self.laboured, self.waited, self.picked, self.work, scene
        )

    def copies(self, node: cst.CSTNode) -> None:
        """An asynchronous copy to the host begins."""
        self.now += 1
        self.copied[node] = self.now


def on_accelerator(value: Value) -> bool:
    """Whether a value may well be on an accelerator: the code gives it a place that is not the host."""
    return any(not p.place.is_host for p in value.places) and not value.may_be_on_host


def time_between(run: Interpreter, node: cst.CSTNode, end: Value, start: Value) -> None:
    """`end - start` is computed of two readings of a clock: tell it where device work between them may still run."""
    stop = run.timeline.clocks.get(end.origin) if end.origin is not None else None
    if stop is None or stop.scene.is_test:
        return
    begin = run.timeline.clocks.get(start.origin) if start.origin is not None else None
    if begin is None:
        if _is_end_of_batch(run) and run.frame.began < stop.moment and stop.waited <= run.frame.began:
            run.emit(Timing(node, run.scene, None, None, end.origin))
        return
    same = begin.scene.loops == stop.scene.loops and begin.scene.function is stop.scene.function
    # What is left after a mask has picked within the span has to be worth a word.
    last = stop.laboured if stop.picked > begin.moment else stop.worked
    if same and begin.moment < last and max(stop.waited, stop.picked) <= last and not _is_unread(run, node):
        run.emit(Timing(node, run.scene, start.origin, stop.work, end.origin))


def _is_unread(run: Interpreter, span: cst.CSTNode) -> bool:
    """Whether a time span is kept under a name that nothing but the span itself reads."""
    statement = run.statement
    if not isinstance(statement, cst.Assign) or statement.value is not span:
        return False
    names = [t.target.value for t in statement.targets if isinstance(t.target, cst.Name)]
    within = [n.value for n in descendants(span) if isinstance(n, cst.Name)]
    loads = run.frame.usage.loads
    return len(names) == len(statement.targets) and all(loads[name] <= within.count(name) for name in names)


def event_call(run: Interpreter, node: cst.CSTNode, name: str) -> None:
    """A method of an event that the device records: times between events are there once they have happened."""
    line = run.timeline
    if name == "record":
        line.now += 1
        line.recorded = line.now
    elif name == "elapsed_time":
        if line.waited < line.recorded and not run.scene.is_test:
            run.emit(Timing(node, run.scene, None, None))
    else:
        line.waits()


def _is_end_of_batch(run: Interpreter) -> bool:
    """Whether this is a hook that Lightning calls at the end of a batch, whose beginning is another hook's."""
    function = run.frame.function
    if function is None or function.owner is None:
        return False
    framework = any(name.startswith(("lightning", "pytorch_lightning")) for name in function.owner.kind_names)
    return framework and function.name.startswith("on_") and function.name.endswith("_batch_end")


def read_pending(run: Interpreter, node: cst.CSTNode, api: str, value: Value) -> None:
    """The host reads a value: tell it where an asynchronous copy of it may still be on its way."""
    if "pending" not in value.facts or value.kind not in (Kind.TENSOR, Kind.UNKNOWN):
        return
    for alternative in value.places:
        begun = run.timeline.copied.get(alternative.origin) if alternative.origin is not None else None
        if begun is not None and run.timeline.waited < begun:
            run.emit(AsyncRead(node, run.scene, api, value, alternative.origin))
            return
