"""Checkpoints that a program reads back in the same run that wrote them, so that their devices are still there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import libcst as cst

from torchlint.placement.events import Backward, Event, Load, Save, Step
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.syntax import children, dotted, words

#: How many calls deep the callers of a function are asked for.
_DEEPEST = 3
#: What a function, or the parameter that gets a path, is called that writes a file.
_WRITES = re.compile(r"(?:^|_)(?:save|export|dump|write|store)|(?:Save|Export|Write|Dump)")
#: Methods of trainers that train, and, where the receiver is one, `train`.
_TRAINS = re.compile(r"(?:^|\.)(?:fit|fit_one_cycle|fine_tune)$|trainer\.(?:train|run)$", re.IGNORECASE)

#: The branches that code stands in: the test of each `if`, and whether it holds.
Ways = frozenset[tuple[str, bool]]


class _Spot(NamedTuple):
    """Where a node stands in its function: in program order, and behind which tests.

    started: the tests behind which the outermost loop around it stands, or itself. looped: whether there is one.
    """

    place: int
    ways: Ways
    started: Ways
    looped: bool


class _Order:
    """The program order of one function, or of a file's own code."""

    def __init__(self, scope: cst.FunctionDef | cst.Module) -> None:
        self.spots: dict[int, _Spot] = {}
        self.calls: list[cst.Call] = []
        self._walk(scope.body if isinstance(scope, cst.FunctionDef) else scope, frozenset(), None)

    def _walk(self, node: cst.CSTNode, ways: Ways, started: Ways | None) -> None:
        self.spots[id(node)] = _Spot(len(self.spots), ways, ways if started is None else started, started is not None)
        if type(node) is cst.Call:
            self.calls.append(node)
        if type(node) in (cst.FunctionDef, cst.ClassDef, cst.Lambda):
            return
        if type(node) is cst.If:
            text = words(node.test)
            text = str(id(node)) if "…" in text else text
            self._walk(node.test, ways, started)
            self._walk(node.body, ways | {(text, True)}, started)
            if node.orelse is not None:
                self._walk(node.orelse, ways | {(text, False)}, started)
            return
        if type(node) in (cst.For, cst.While) and started is None:
            started = ways
        for child in children(node):
            self._walk(child, ways, started)

    def is_after(self, node: cst.CSTNode, earlier: cst.CSTNode, *, looped: bool = False) -> bool:
        """Whether a node runs after another one, in a loop if need be, and never without it."""
        there, before = self.spots.get(id(node)), self.spots.get(id(earlier))
        if looped and before is not None and not before.looped:
            return False
        return there is not None and before is not None and before.place < there.place and before.started <= there.ways


def mark_own_files(run: Interpreter) -> None:
    """Note of each checkpoint that is read whether this run trained what it holds, or wrote the file, just before."""
    loads = [event for event in run.events.values() if isinstance(event, Load) and not event.mapped]
    if loads:
        finder = _Finder(run)
        for load in loads:
            load.of_run = finder.is_own(load)


#: The nodes that train or write a file, by the function that they stand in.
_Making: TypeAlias = dict[int, list[cst.CSTNode]]


def _by_function(events: Iterable[Event]) -> _Making:
    found: _Making = {}
    for event in events:
        found.setdefault(id(event.scene.function), []).append(event.node)
    return found


class _Finder:
    def __init__(self, run: Interpreter) -> None:
        self._run = run
        self._orders: dict[int, _Order] = {}
        #: The functions of each name; those of classes begin with a dot.
        self._named: dict[str, list[cst.FunctionDef]] = {}
        for function in run.functions:
            name = function.name if function.owner is None else f".{function.name}"
            self._named.setdefault(name, []).append(function.node)
        events = run.events.values()
        self._training = [e for e in events if isinstance(e, Backward | Step)]
        self._saves = [e for e in events if isinstance(e, Save)]

    def is_own(self, load: Load) -> bool:
        order = self._order(load.scene.function)
        given = [c for c in order.calls if order.is_after(load.node, c) and _is_given_to_write(c, load.what)]
        if given:
            return True
        saves = [e for e in self._saves if _share_fixed_name(e, load)]
        always = _by_function([*self._training, *(e for e in saves if not e.scene.conditions)])
        if self._follows(load.scene.function, load.node, always, _DEEPEST):
            return True
        # What is written under a test, such as of a best score, is written in some round of a loop.
        return self._follows(load.scene.function, load.node, _by_function(saves), _DEEPEST, looped=True)

    def _follows(
        self, scope: cst.FunctionDef | None, node: cst.CSTNode, making: _Making, depth: int, *, looped: bool = False
    ) -> bool:
        """Whether a node runs only after what makes the file, in its own function or in all that call that."""
        order = self._order(scope)
        before = list(making.get(id(scope), ()))
        before += [c for c in order.calls if self._makes(c, making, _DEEPEST)]
        if any(order.is_after(node, earlier, looped=looped) for earlier in before):
            return True
        name = "" if scope is None else self._name_of(scope)
        if not name or not depth:
            return False
        callers = [
            (caller, call)
            for caller in (None, *(f.node for f in self._run.functions))
            for call in self._order(caller).calls
            if _called(call) == name
        ]
        return bool(callers) and all(self._follows(f, c, making, depth - 1, looped=looped) for f, c in callers)

    def _name_of(self, scope: cst.FunctionDef) -> str:
        """What a function is called by, where no other one of the file is."""
        names = (scope.name.value, f".{scope.name.value}")
        return next((name for name in names if self._named.get(name) == [scope]), "")

    def _makes(self, call: cst.Call, making: _Making, depth: int) -> bool:
        """Whether a call trains, or writes the file."""
        if _TRAINS.search(dotted(call.func) or ""):
            return True
        named = self._named.get(_called(call), ())
        if len(named) != 1:
            return False
        if id(named[0]) in making:
            return True
        return depth > 0 and any(self._makes(c, making, depth - 1) for c in self._order(named[0]).calls)

    def _order(self, scope: cst.FunctionDef | None) -> _Order:
        key = id(scope)
        if key not in self._orders:
            self._orders[key] = _Order(self._run.module if scope is None else scope)
        return self._orders[key]


def _called(call: cst.Call) -> str:
    """The name of what is called; a method's begins with a dot, and is none where a Module has its like."""
    receiver, dot, name = (dotted(call.func) or "").rpartition(".")
    if name in ("train", "eval") and dot and _RUNS.search(receiver) is None:
        return ""  # the mode of a Module
    return dot + name


#: What is asked to train, rather than put into the mode for it.
_RUNS = re.compile(r"^self$|trainer|solver|agent|runner|learner|engine", re.IGNORECASE)


def _is_given_to_write(call: cst.Call, path: str) -> bool:
    """Whether a call gets a path, by its words, to write something there."""
    called = _called(call).lstrip(".")
    for arg in call.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        if words(arg.value) == path and (_WRITES.search(name) or _WRITES.search(called)):
            return "…" not in path and path != ""
    return False


def _share_fixed_name(save: Save, load: Load) -> bool:
    """Whether both paths are the same words, or have a part that is spelled out."""
    if save.texts and load.texts:
        return bool(save.texts & load.texts)
    return save.what == load.what != ""
