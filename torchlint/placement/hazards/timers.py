"""Timers that the project writes itself: context managers, decorators and functions that time what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Operand, Timing
from torchlint.placement.syntax import descendants, dotted
from torchlint.placement.values import Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: Clocks of the host (https://docs.python.org/3/library/time.html), by their last words.
_CLOCKS = frozenset(
    "time.time time.perf_counter time.monotonic time.time_ns time.perf_counter_ns time.monotonic_ns perf_counter"
    " perf_counter_ns monotonic timeit.default_timer default_timer".split()
)
#: What waits for a device, or may, as far as its name tells.
_WAITING = frozenset("synchronize sync item cpu numpy tolist Event elapsed_time wait barrier block_until_ready".split())


class Timer(NamedTuple):
    """Where a timer reads the clock first and last. times: `yield`, or the name of what it calls in between."""

    start: cst.CSTNode
    end: cst.CSTNode
    times: str


def timer_of(function: cst.FunctionDef) -> Timer | None:
    """What a function times: its `yield`, or a call of a parameter, its own or that of the function around it."""
    clocks: list[cst.Call] = []
    timed = ""
    for node in descendants(function.body):
        kind = type(node)
        if kind is cst.Call:
            name = dotted(node.func) or ""  # type: ignore[attr-defined]
            if name in _CLOCKS:
                clocks.append(node)  # type: ignore[arg-type]
            elif name.rpartition(".")[2] in _WAITING:
                return None
            elif clocks and not timed and type(node.func) is cst.Name:  # type: ignore[attr-defined]
                timed = name if _passes_on(node) else timed  # type: ignore[arg-type]
        elif kind is cst.Yield and clocks:
            timed = "yield"
    return Timer(clocks[0], clocks[-1], timed) if len(clocks) > 1 and timed else None


def _passes_on(call: cst.Call) -> bool:
    """Whether a call hands on what came as `*args`."""
    return any(a.star == "*" for a in call.args)


def class_timer(cls: Class) -> Timer | None:
    """The clocks that a class reads on entering and leaving a `with`."""
    enter, leave = cls.method("__enter__"), cls.method("__exit__")
    if enter is None or leave is None:
        return None
    read = []
    for method in (enter, leave):
        calls = [n for n in descendants(method.node.body) if type(n) is cst.Call]
        names = [dotted(c.func) or "" for c in calls]
        if any(name.rpartition(".")[2] in _WAITING for name in names):
            return None
        read.append(next((c for c, name in zip(calls, names) if name in _CLOCKS), None))
    first, last = read
    return None if first is None or last is None else Timer(first, last, "yield")


def timer_of_context(value: Value) -> Timer | None:
    """The timer that a `with` enters, if that is one of the project's."""
    if value.kind is Kind.CONTEXT and isinstance(value.ref, Function):
        found = timer_of(value.ref.node)
        return found if found is not None and found.times == "yield" else None
    return class_timer(value.ref) if value.kind is Kind.OBJECT and isinstance(value.ref, Class) else None


def waits_by_name(code: cst.CSTNode) -> bool:
    """Whether something in a piece of code is called that waits for the device, as far as its name tells."""
    calls = (n.func for n in descendants(code) if type(n) is cst.Call)
    return any(f.attr.value in _WAITING for f in calls if type(f) is cst.Attribute)


def leave_timer(run: Interpreter, timer: Timer, moment: int, block: cst.CSTNode) -> None:
    """The block of a timer has ended, which began at `moment`: tell it where device work in it may still run."""
    line = run.timeline
    working = line.worked > moment and line.waited < line.worked
    if working and not run.scene.is_test and not waits_by_name(block):
        run.emit(Timing(timer.end, run.scene, timer.start, line.work, timer.end))


def note_timed(
    run: Interpreter, function: Function, node: cst.Call, bound: dict[str, Value], arguments: list[Operand]
) -> None:
    """A call of a function that times a call of its parameter: tell it where what it is given works on a device."""
    # Next to no function reads a clock, and all of their calls come through here.
    reads = len(function.parameters) > 1 and not _CLOCKS.isdisjoint(function.run.usage.of(function.node).called)
    timer = timer_of(function.node) if reads else None
    if timer is None or timer.times not in function.parameters or run.scene.is_test or function.run is not run:
        return
    given = bound.get(timer.times)
    if given is None or given.kind is not Kind.API or not (given.name or "").startswith("torch."):
        return
    if any(_is_away(operand.value) for operand in arguments):
        run.emit(Timing(timer.end, run.scene, timer.start, node, timer.end))


def _is_away(value: Value) -> bool:
    return value.kind is Kind.TENSOR and bool(value.places) and all(p.place.is_named for p in value.places)


def note_timeit(run: Interpreter, node: cst.Call) -> None:
    """`timeit.timeit(lambda: model(x))` around work for the device that nothing in the lambda waits for."""
    given = node.args[0].value if node.args else None
    work = run.timeline.work
    if type(given) is not cst.Lambda or work is None or run.scene.is_test or waits_by_name(given.body):
        return
    if any(inner is work for inner in descendants(given.body)):
        run.emit(Timing(node, run.scene, None, work))


def note_decorated(run: Interpreter) -> None:
    """Functions under a decorator that times them: those that leave work to the device are timed too short."""
    known = {function.name: function for function in run.functions}
    for function in run.functions:
        if not function.works or function.waits or function.state != "done" or waits_by_name(function.node.body):
            continue
        for name in function.decorators:
            decorator = known.get(name)
            inner = _wrapper_of(decorator) if decorator is not None else None
            if inner is not None:
                run.emit(Timing(inner.end, run.scene, inner.start, function.node.name, inner.end))


def _wrapper_of(decorator: Function) -> Timer | None:
    """The timer that a decorator puts around what it decorates."""
    names = [p.name.value for p in decorator.node.params.params]
    for node in descendants(decorator.node.body):
        if type(node) is cst.FunctionDef:
            found = timer_of(node)
            return found if found is not None and found.times in names else None
    return None
