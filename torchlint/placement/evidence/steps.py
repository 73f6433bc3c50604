"""What shows that a wait costs something in every step: its code runs there, and nothing waits there anyway."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Sync
from torchlint.placement.evidence.options import option_of
from torchlint.placement.evidence.standing import (
    Test,
    has_just_been_read,
    is_chosen,
    is_of_machine,
    is_unconditional,
    tests_before,
    tests_in_step,
)
from torchlint.placement.scene import SELDOM, Scene
from torchlint.placement.syntax import (
    assigned_names,
    condition,
    conjuncts,
    descendants,
    dotted,
    literal,
    parameters,
    words,
)
from torchlint.placement.values import Kind, Where

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

#: A condition on a name that was not bound anew: asked for itself, or compared to something.
_ASKED = re.compile(
    r"([\w.]+)(?: (Is|IsNot|Equal|NotEqual|LessThan|LessThanEqual|GreaterThan|GreaterThanEqual) (.+))?$",
    re.DOTALL,
)
_ORDERS = {"LessThan": lt, "LessThanEqual": le, "GreaterThan": gt, "GreaterThanEqual": ge}
_FALSE = frozenset(["None", "False", "0", "0.0", "''", '""', "()", "[]", "{}"])


def doubt_waits(run: Interpreter) -> None:
    """Tell of each wait whether its cost in every step is shown, or assumed."""
    waits = [event for event in run.events.values() if isinstance(event, Sync)]
    if not waits:
        return
    functions = {id(function.node): function for function in run.functions}
    _note_needed(waits)
    _note_asked(waits)
    arrays = _Arrays()
    for wait in waits:
        wait.assumed = (
            _is_unplaced(wait, arrays)
            or is_left_out(wait.scene)
            or _is_from_host(wait, functions)
            or _is_kept_on_host(wait)
            or _is_optional(wait, functions)
            or (wait.scene.role == "step" and _is_no_training(run, wait.scene))
            or _is_evaluation(run, wait.scene)
        )
        if wait.scene.every_step and (wait.hidden or wait.value is None):
            tests = tests_before(wait)
            wait.branched = bool(tests) and not is_unconditional(tests, _holding(wait.scene, tests))
            wait.idle |= has_just_been_read(wait, tests, waits)
        if wait.scene.every_step:
            asked = tests_in_step(wait, run.module)
            if asked:
                bound = run.usage.of(wait.scene.function).assigned
                wait.optional = is_chosen(asked, _holding(wait.scene, asked), bound, waits)
                wait.assumed = wait.assumed or _is_switched_off(run, wait.scene, asked)
        if wait.api == "synchronize":
            wait.optional = wait.optional or _is_measured(run, wait.scene)


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


def _note_asked(waits: Sequence[Sync]) -> None:
    """Tell which numbers a test in the same step has read before, with nothing for the device to do in between."""
    tests: list[tuple[Sync, set[str]]] = []
    for wait in waits:
        scene, names = wait.scene, _names(wait.node)
        if wait.api == "if":
            tests.append((wait, names))
        elif not wait.hidden and names:
            wait.anyway |= any(
                not names.isdisjoint(asked)
                and test.scene.function is scene.function
                and test.scene.loops == scene.loops
                and test.scene.conditions <= scene.conditions
                and test.scene.tests & SELDOM <= scene.tests
                and not _works_between(test, wait)
                for test, asked in tests
            )


def _names(node: cst.CSTNode) -> set[str]:
    """The names that an expression reads; none where it calls more than what reads a tensor."""
    names: set[str] = set()
    for below in descendants(node):
        name = dotted(below)
        if name is None:
            if type(below) is cst.Call and (dotted(below.func) or "").rpartition(".")[2] not in _READING:
                return set()
        elif name.rpartition(".")[2] not in _READING:
            names.add(name)
    return names


#: What a call that reads a tensor, or asks whether its numbers went wrong, consists of.
_READING = frozenset(
    "item tolist float int bool detach isnan isinf isfinite any all torch data cpu numpy math np".split()
)
#: What gives the device something to do: a backward, a step, a layer.
_WORK = re.compile(
    r"(?:^|_)(?:backward|step|forward|reduce|gather|update|model|net|network|criterion|loss|train\w*)(?:_|$)"
)


def _works_between(first: Sync, then: Sync) -> bool:
    """Whether the function gives the device more to do between two waits, as it is written."""
    function = first.scene.function
    nodes = iter(() if function is None else descendants(function.body))
    if all(node is not first.node for node in nodes):
        return True
    for node in nodes:
        if node is then.node:
            return False
        if type(node) is cst.Call and _WORK.search((dotted(node.func) or "").rpartition(".")[2]):
            return True
    return True


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
    return (scene.host_only and not value.places) or (
        scene.function is not None and arrays.has(scene.function)
    )


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
    if operator in _ORDERS:
        return _compares(default, operator, other)
    if other == "None":
        # What a caller passes is for the caller to say.
        return None if "." not in asked[1] else (default == "None") is (operator in ("Is", "Equal"))
    if _is_literal(other):
        return (default == other.replace('"', "'")) is (operator in ("Is", "Equal"))
    return None


def _compares(left: str, operator: str, right: str) -> bool | None:
    """What a comparison of two numbers says; None where they are none."""
    try:
        return bool(_ORDERS[operator](float(left), float(right)))
    except ValueError:
        return None


def _is_switched_off(run: Interpreter, scene: Scene, tests: Sequence[Test]) -> bool:
    """Whether what the step asks does not hold by what programs, classes and functions around set where nobody says."""
    asked = {key[0] for t in tests for o in conjuncts(t.asked) if (key := condition(o)) is not None}
    asked = {text for text in asked if not is_of_machine(text)}
    for text, truth in scene.conditions:
        name = match[1] if text in asked and (match := _ASKED.match(text)) is not None else ""
        default = name and (_of_option(run, name) or _of_class(scene, name) or _of_outer(run, scene, name))
        if default and _holds(text, {name: default}) is (not truth):
            return True
    return False


def _of_option(run: Interpreter, name: str) -> str:
    option = option_of(run, name)
    return "" if option is None else option.literal


def _of_class(scene: Scene, name: str) -> str:
    """The literal that the body of the class gives an attribute that no method binds."""
    owner, dot, attribute = name.rpartition(".")
    if (
        owner != "self"
        or not dot
        or not isinstance(scene.owner, Class)
        or scene.owner.assigned_in.get(attribute)
    ):
        return ""
    for node in scene.owner.node.body.body:
        for small in node.body if isinstance(node, cst.SimpleStatementLine) else ():
            if (
                isinstance(small, cst.AnnAssign)
                and small.value is not None
                and dotted(small.target) == attribute
            ):
                return literal(small.value)
    return ""


def _of_outer(run: Interpreter, scene: Scene, name: str) -> str:
    """The literal default of a parameter of a function around."""
    inner = next((f for f in run.functions if f.node is scene.function), None)
    if inner is None or not inner.outer or run.usage.of(inner.node).assigned[name]:
        return ""
    around = (
        f.node for f in run.functions if f is not inner and any(n is inner.node for n in descendants(f.node))
    )
    return next((default for f in around for p, default in _literals(f) if p == name), "")


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
    for param in parameters(function):
        default = "" if param.default is None else literal(param.default)
        if default:
            yield param.name.value, default


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


def _is_kept_on_host(wait: Sync) -> bool:
    """Whether the class keeps under this key what it makes on the CPU: `state["step"] = torch.zeros(1)`."""
    owner = wait.scene.owner
    key = next((n for n in descendants(wait.node) if type(n) is cst.Subscript and _is_key(n)), None)
    if key is None or not isinstance(owner, Class):
        return False
    made = [
        node.value
        for node in descendants(owner.node.body)
        if isinstance(node, cst.Assign)
        and any(target.target.deep_equals(key) for target in node.targets)
        and not isinstance(node.value, cst.BaseNumber)
    ]
    return bool(made) and all(
        isinstance(value, cst.Call)
        and re.fullmatch(r"torch\.(?:zeros|ones|tensor|full|empty)", dotted(value.func) or "") is not None
        and all(arg.keyword is None or arg.keyword.value != "device" for arg in value.args)
        for value in made
    )


def _is_key(node: cst.Subscript) -> bool:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)


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


def _is_evaluation(run: Interpreter, scene: Scene) -> bool:
    """Whether a function is for evaluation by its name, and holds no backward of its own."""
    function = scene.function
    named = function is not None and _EVALUATES.search(function.name.value) is not None
    return named and not run.usage.of(function).trains


def _is_measured(run: Interpreter, scene: Scene) -> bool:
    """Whether the function, or one that calls it, calls what takes times or figures of memory, or a barrier."""
    function = scene.function
    called = set(run.usage.of(function).called)
    if function is not None:
        name = function.name.value
        called = called.union(*(u.called for u in run.usage.scopes.values() if name in u.called))
    return any(_MEASURES.search(name) is not None for name in called)


_MEASURES = re.compile(
    r"profil|timer|stopwatch|barrier|memory_(?:allocated|reserved|stats|summary)|(?:^|[._])t[io]c(?:k|s|$)",
    re.IGNORECASE,
)
_EVALUATES = re.compile(r"^_*(?:run_|do_)?(?:eval|evaluate|evaluation|valid|validate|validation|test)(?:_|$)")
#: What is read of anything where an optimizer is stepped, or a framework steps it.
_STEPS = frozenset(
    "step optim optimizer optimizers minimize optimizer_step training_step apply_gradients".split()
)
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
