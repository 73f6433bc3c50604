"""What shows that a wait costs something in every step: its code runs there, and nothing waits there anyway."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Sync
from torchlint.placement.evidence.standing import (
    Test,
    has_just_been_read,
    is_option,
    is_unconditional,
    tests_before,
)
from torchlint.placement.scene import SELDOM, Scene
from torchlint.placement.syntax import assigned_names, condition, descendants, dotted, words
from torchlint.placement.values import Kind, Where

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: A condition on a name that was not bound anew: asked for itself, or compared to something.
_ASKED = re.compile(r"([\w.]+)(?: (Is|IsNot|Equal|NotEqual) (.+))?$", re.DOTALL)
_FALSE = frozenset(["None", "False", "0", "0.0", "''", '""', "()", "[]", "{}"])


def doubt_waits(run: Interpreter) -> None:
    """Tell of each wait whether its cost in every step is shown, or assumed."""
    waits = [event for event in run.events.values() if isinstance(event, Sync)]
    if not waits:
        return
    functions = {id(function.node): function for function in run.functions}
    _note_needed(waits)
    arrays = _Arrays()
    for wait in waits:
        wait.assumed = (
            _is_unplaced(wait, arrays)
            or is_left_out(wait.scene)
            or _is_from_host(wait, functions)
            or _is_optional(wait, functions)
            or (wait.scene.role == "step" and _is_no_training(run, wait.scene))
        )
        if wait.scene.every_step and (wait.hidden or wait.value is None):
            tests = tests_before(wait)
            wait.branched = bool(tests) and not is_unconditional(tests, _holding(wait.scene, tests))
            wait.optional = is_option(tests)
            wait.idle |= has_just_been_read(wait, tests, waits)


def _note_needed(waits: Sequence[Sync]) -> None:
    """Tell which waits are for what the code needs later in the same step, or needed of the same value before."""
    needed: dict[tuple[object, ...], list[Scene]] = {}
    for order in (reversed(waits), waits):
        needed.clear()
        for wait in order:
            scene = wait.scene
            step: tuple[object, ...] = (id(scene.function), id(scene.step_loop))
            if order is waits:
                step = (*step, wait.subject, *map(id, scene.loops))
            wait.anyway |= any(
                other.conditions <= scene.conditions and other.tests & SELDOM <= scene.tests
                for other in needed.get(step, ())
            )
            if wait.demanded or wait.decides or wait.api == "synchronize":
                needed.setdefault(step, []).append(scene)


class _Arrays:
    """Which functions turn tensors to arrays as they are, so that what these computed is on the CPU."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def has(self, function: cst.FunctionDef) -> bool:
        """Whether `.numpy()` is called on what the function copies to the host nowhere."""
        if id(function) not in self._known:
            self._known[id(function)] = self._ask(function)
        return self._known[id(function)]

    def _ask(self, function: cst.FunctionDef) -> bool:
        receivers: list[cst.BaseExpression] = []
        copied: set[str] = set()
        for node in descendants(function.body):
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                if node.func.attr.value == "numpy" and not node.args:
                    receivers.append(node.func.value)
            elif isinstance(node, cst.Assign) and ".cpu(" in words(node.value):
                copied |= {name for target in node.targets for name in assigned_names(target.target)}
        return any(_is_as_it_is(receiver, copied) for receiver in receivers)


def _is_as_it_is(receiver: cst.BaseExpression, copied: set[str]) -> bool:
    text = words(receiver)
    names = {node.value for node in descendants(receiver) if type(node) is cst.Name}
    return ".cpu(" not in text and ".to(" not in text and names.isdisjoint(copied)


def _is_unplaced(wait: Sync, arrays: _Arrays) -> bool:
    """Whether nothing says of what is read that it may be elsewhere, in code that says as much of nothing else.

    It comes from no argument in a file that never speaks of devices, or the function has NumPy read its tensors as
    they are.
    """
    scene, value = wait.scene, wait.value
    if value is None or scene.role in ("forward", "loss", "optimizer") or "of grad" in value.facts:
        return False
    if any(p.place.where in (Where.NAMED, Where.OF_MODULE) for p in value.places):
        return False
    return (scene.host_only and not value.places) or (scene.function is not None and arrays.has(scene.function))


def is_left_out(scene: Scene) -> bool:
    """Whether the conditions around do not hold by the defaults of the function's parameters and of its class."""
    defaults = dict(_defaults(scene))
    return any(_holds(text, defaults) is (not truth) for text, truth in scene.conditions)


def _holds(text: str, defaults: Mapping[str, str]) -> bool | None:
    """Whether a condition holds by default; None where the defaults don't say."""
    asked = _ASKED.match(text)
    default = defaults.get(asked[1]) if asked is not None else None
    if asked is None or default is None:
        return None
    operator, other = asked[2], asked[3]
    if operator is None:
        return default not in _FALSE
    if other == "None":
        # What a caller passes is for the caller to say.
        return None if "." not in asked[1] else (default == "None") is (operator in ("Is", "Equal"))
    if _is_literal(other):
        return (default == other.replace('"', "'")) is (operator in ("Is", "Equal"))
    return None


def _holding(scene: Scene, tests: Sequence[Test]) -> frozenset[str]:
    """The tests, as they are written, that come out by default so that what stands behind them runs."""
    if not tests:
        return frozenset()
    defaults = dict(_defaults(scene))
    found = set()
    for test in tests:
        key = condition(test.asked)
        if key is not None and any(c == key[0] and _holds(c, defaults) is t for c, t in scene.conditions):
            found.add(words(test.asked))
    return frozenset(found)


def _is_literal(text: str) -> bool:
    return text[:1] in "\"'-0123456789" or text in ("True", "False")


def _defaults(scene: Scene) -> Iterator[tuple[str, str]]:
    """The literal defaults of names: the function's parameters, and the attributes that `__init__` takes as given."""
    if scene.function is not None:
        yield from _literals(scene.function)
    owner = scene.owner
    if not isinstance(owner, Class) or "__init__" not in owner.methods:
        return
    making = owner.methods["__init__"].node
    given = dict(_literals(making))
    kept: dict[str, list[str | None]] = {}
    for method in owner.methods.values():
        for node in descendants(method.node.body):
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    name = dotted(target.target)
                    if name is not None and name.startswith("self."):
                        value = dotted(node.value) if method.node is making else None
                        kept.setdefault(name, []).append(value)
    for name, values in kept.items():
        if len(values) == 1 and values[0] in given:
            yield name, given[values[0]]


def _literals(function: cst.FunctionDef) -> Iterator[tuple[str, str]]:
    for param in (*function.params.params, *function.params.kwonly_params):
        default = param.default
        if isinstance(default, (cst.SimpleString, cst.Integer, cst.Float)):
            yield param.name.value, default.value.replace('"', "'")
        elif isinstance(default, cst.Name) and default.value in ("None", "True", "False"):
            yield param.name.value, default.value


def _is_from_host(wait: Sync, functions: Mapping[int, Function]) -> bool:
    """Whether some call in the file passes what is on the CPU for all that is read."""
    function = functions.get(id(wait.scene.function))
    if function is None or wait.value is None or not wait.value.places:
        return False
    return all(
        p.place.where is Where.OF_CALLER
        and any(value.on_host for call in function.calls if (value := call.get(p.place.name)) is not None)
        for p in wait.value.places
    )


def _is_optional(wait: Sync, functions: Mapping[int, Function]) -> bool:
    """Whether callers may leave out all that is read, no call in the file passes it, and no branch asks for it."""
    function = functions.get(id(wait.scene.function))
    if function is None or wait.value is None or not wait.value.places:
        return False
    given = {p.place.name for p in wait.value.places if p.place.where is Where.OF_CALLER}
    if not given or any(p.place.where is not Where.OF_CALLER for p in wait.value.places):
        return False
    optional = {
        p.name.value
        for p in (*function.node.params.params, *function.node.params.kwonly_params)
        if p.default is not None and dotted(p.default) == "None"
    }
    if not given <= optional:
        return False
    asked = {
        match[1] for text, _ in wait.scene.conditions if (match := _ASKED.match(text)) and match[3] == "None"
    }
    passed = {n for call in function.calls for n, value in call.items() if value.kind is not Kind.NONE}
    return not given & (passed | asked)


def _is_no_training(run: Interpreter, scene: Scene) -> bool:
    """Whether a function with a backward only explains or measures.

    Its file steps no optimizer and nothing in its name says that it trains, or it is given to what takes its time.
    """
    function = scene.function
    if function is None:
        return False
    name = function.name.value
    if not scene.loops and run.usage.mentions.isdisjoint(_STEPS) and _TRAINS.search(name) is None:
        return True
    return _is_timed(run, name)


#: What is read of anything where an optimizer is stepped, or a framework steps it.
_STEPS = frozenset("step optim optimizer optimizers minimize optimizer_step training_step apply_gradients".split())
_TRAINS = re.compile(r"step|train|update|optimi|closure|fit|backward|loss|learn|penalty", re.IGNORECASE)
_TIMER = re.compile(r"(?:^|_)(?:timer|timed|timeit|benchmark|profile)(?:_|$)")


def _is_timed(run: Interpreter, name: str) -> bool:
    """Whether a function is given to a helper that takes times, which waits for the device itself."""
    return any(
        isinstance(node, cst.Call)
        and _TIMER.search((dotted(node.func) or "").rpartition(".")[2]) is not None
        and any(dotted(arg.value) == name for arg in node.args)
        for node in descendants(run.module)
    )
