"""The state of one interpretation: what is known at a point of the program, and how events leave it."""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.placement.allowance import Allowance
from torchlint.placement.events import Backward, DeviceText, Event, Move, Step, Sync, Use
from torchlint.placement.evidence.offering import offers_functions
from torchlint.placement.evidence.scopes import Usage
from torchlint.placement.evidence.usage import FileUsage
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import dotted
from torchlint.placement.timeline import Timeline, on_accelerator
from torchlint.placement.values import UNKNOWN, Alternative, Certainty, Kind, Place, Value, join, narrowed

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Class, Function
    from torchlint.placement.evidence.options import Option
    from torchlint.placement.hazards.graphs import Backwards
    from torchlint.placement.hazards.startup import Start
    from torchlint.placement.language.rounds import Carried
    from torchlint.placement.project import Project

Env = dict[str, Value]

#: How deep summaries are asked for from within summaries.
MOST_NESTED_SUMMARIES = 25
#: Passes over a loop body: two reach what the widening of alternatives allows.
LOOP_PASSES = 2

#: What builtins denote; made once, since code is full of them.
_BUILTINS = {name: Value(Kind.API, name=f"builtins.{name}") for name in dir(builtins)}
_PART = frozenset({"part"})
_PART_BESIDE_SELF_MOVING = frozenset({"part", "beside self-moving"})
#: Their batches hold objects whose `to` works in place, beside tensors
#: (https://pytorch-geometric.readthedocs.io/en/latest/generated/torch_geometric.data.Data.html,
#: https://huggingface.co/docs/transformers/main_classes/tokenizer#transformers.BatchEncoding.to).
_SELF_MOVING = frozenset(["torch_geometric", "torch_sparse", "torch_scatter", "pyg_lib", "ogb", "transformers"])

Evaluate = Callable[["Interpreter", Any, Env], Value]
Execute = Callable[["Interpreter", Any, Env], "Outcome | None"]


class _Evaluators(dict[type[cst.CSTNode], Evaluate]):
    """How to evaluate each type of node; what nobody handles is unknown, and costs no second look-up."""

    def __missing__(self, kind: type[cst.CSTNode]) -> Evaluate:
        self[kind] = _unknown
        return _unknown


def _unknown(run: Interpreter, node: Any, env: Env) -> Value:
    return UNKNOWN


EXPRESSIONS = _Evaluators()


class _Executors(dict[type[cst.CSTNode], Execute]):
    """How to execute each type of statement; what nobody handles does nothing."""

    def __missing__(self, kind: type[cst.CSTNode]) -> Execute:
        self[kind] = _nothing
        return _nothing


def _nothing(run: Interpreter, node: Any, env: Env) -> Outcome | None:
    return None


STATEMENTS = _Executors()


def expression(*kinds: type[cst.CSTNode]) -> Callable[[Evaluate], Evaluate]:
    """Register how an expression is evaluated."""

    def register(function: Evaluate) -> Evaluate:
        for kind in kinds:
            EXPRESSIONS[kind] = function
        return function

    return register


def statement(*kinds: type[cst.CSTNode]) -> Callable[[Execute], Execute]:
    """Register how a statement is executed."""

    def register(function: Execute) -> Execute:
        for kind in kinds:
            STATEMENTS[kind] = function
        return function

    return register


class Outcome:
    """How a statement ends: `ended` if nothing after it runs; else what holds from here on."""

    __slots__ = ("condition", "ended", "tests")

    def __init__(
        self, ended: bool = False, tests: frozenset[str] = frozenset(), condition: tuple[str, bool] | None = None
    ) -> None:
        self.ended = ended
        self.tests = tests
        self.condition = condition


ENDED = Outcome(ended=True)


class Frame:
    """One function (or the module) while it is interpreted."""

    __slots__ = (
        "assured", "began", "exits", "function", "global_names", "outer", "parameters", "replaced", "returns",
        "self_name", "sent", "settled", "statement", "trained", "unknown_devices", "usage", "versions", "yields",
    )  # fmt: skip

    def __init__(self, function: Function | None, outer: tuple[Env, ...], usage: Usage) -> None:
        self.function = function
        self.outer = outer
        self.usage = usage
        #: When it began, on the timeline.
        self.began = 0
        #: What the method calls its instance; empty outside of methods.
        self.self_name = ""
        #: The parameters as they come in.
        self.parameters: Env = {}
        #: What was last put into a place of a container, by the place.
        self.replaced: dict[cst.Subscript, Value] = {}
        self.returns: list[tuple[cst.CSTNode, Value]] = []
        self.yields: Value | None = None
        #: Where tensors of each parameter were sent, so that what came with them is known to be elsewhere.
        self.sent: dict[Place, set[Place]] = {}
        #: Where Modules of the caller were sent, so that the function is the one that places things.
        self.settled: set[Place] = set()
        #: Devices that local variables hold and nobody knows where from: the arguments may decide them.
        self.unknown_devices: set[Place] = set()
        #: Conditions that hold since the code raises where they don't.
        self.assured: set[tuple[str, bool]] = set()
        #: How often each name was bound so far, for telling conditions apart.
        self.versions: defaultdict[str, int] = defaultdict(int)
        #: Whether a loop that trains has ended.
        self.trained = False
        #: The assignment under way, where it has one target.
        self.statement: cst.CSTNode | None = None
        self.global_names: set[str] = set()
        #: Environments at `continue` and `break`, one list a loop.
        self.exits: list[list[Env]] = []


class Interpreter:
    """Interprets one module: statement by statement, functions when something asks for their summary."""

    def __init__(self, module: cst.Module, path: str, project: Project | None = None, *, silent: bool = False) -> None:
        self.module = module
        self.path = path
        self.project = project
        #: What it may have read of other files; for those that it imports, the depth is limited.
        self.allowance = None if silent else Allowance()
        #: A module that another one imports is interpreted for its summaries, not for its events.
        self.silent = silent
        self.usage = FileUsage(module)
        self.globals: Env = {}
        self.frame = Frame(None, (), self.usage.scopes[0])
        on_host = self.usage.is_host_program(path, module)
        self.scene = Scene(
            default_device=self.usage.sets_default_device,
            is_test=_is_test_path(path),
            host_only=self.usage.is_host_only or on_host,
            host_program=on_host,
            converts=re.search(r"(?:^|[/\\])(?:convert|export)[^/\\]*\.py$", path) is not None,
        )
        #: Whether the file only defines what others call, in other projects as well.
        self.offers = offers_functions(module, path) and (
            project is None or project.surroundings.is_for_others(path)
        )
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.events: dict[tuple[Any, ...], Event] = {}
        #: The types of those, so that who looks for one need not look where there is none.
        self.kinds: set[type[Event]] = set()
        #: Moves whose result is bound to a loop variable only.
        self.move_uses: dict[cst.CSTNode, Use] = {}
        #: The scenes of device literals.
        self.literals: dict[cst.CSTNode, Scene] = {}
        #: The tuple statements that dropped calls stand in.
        self.rows: dict[cst.CSTNode, cst.Tuple] = {}
        #: Creation nodes of modules that were moved through a list, an attribute or another alias.
        self.moved_elsewhere: set[cst.CSTNode] = set()
        #: Where the current device context puts new tensors; None outside of one.
        self.context_places: tuple[Alternative, ...] | None = None
        #: What each value-producing node of interest evaluated to, for `--show-placement`.
        self.bound: dict[cst.CSTNode, Value] = {}
        #: The values of the sides of `and`/`or`, for the waits that their truth costs.
        self.truths: dict[cst.CSTNode, Value] = {}
        #: Calls of functions of the project, by the call's node.
        self.called: dict[cst.CSTNode, Function] = {}
        #: What names are bound to in the scopes that somebody asked of (see `hazards.loads`).
        self.bindings: dict[cst.CSTNode, dict[str, list[cst.BaseExpression]]] = {}
        #: What `with` items are, by their expression, and the function that they stand in.
        self.contexts: dict[cst.CSTNode, tuple[Value, cst.FunctionDef | None]] = {}
        self.default_is_set = False
        #: What the file sets the default device to.
        self.default_devices: list[Value] = []
        #: Options of the command line that the file declares; None until something asks.
        self.options: dict[str, Option] | None = None
        #: Buffers whose names are computed: the class, the expression for the name, what is registered.
        self.computed_buffers: list[tuple[Class, cst.CSTNode, Value]] = []
        #: What first starts CUDA up in each scope, by the id of its function, 0 for the module.
        self.started: dict[int, Start] = {}
        #: Whose device a function reads, by the function's id: what a caller gives, and so may be anywhere.
        self.asked: set[tuple[int, Place]] = set()
        #: What held where Modules were wrapped in DataParallel or DistributedDataParallel.
        self.wrapped_under: set[tuple[str, bool]] = set()
        #: Where they were.
        self.wraps: set[cst.CSTNode] = set()
        #: Texts that are put together and name no device, by the node that makes them.
        self.texts: dict[cst.CSTNode, DeviceText] = {}
        self.failures: list[tuple[cst.CSTNode, str]] = []
        self.timeline = Timeline()
        #: What is known of the backward calls of functions, where something asked.
        self.backwards: dict[cst.CSTNode, Backwards] = {}
        #: What rounds of loops hand on, by the loop's id.
        self.carried: dict[int, Carried] = {}
        #: The statement that is being executed.
        self.statement: cst.CSTNode | None = None
        self.torch_imported = False
        self.depth = 0

    def may_note_on(self, definition: Function | Class) -> bool:
        """Whether values found here may be kept with a function or class: one that is imported outlives the file."""
        return self.silent or definition.run is self

    def release(self) -> None:
        """Take it apart, definitions and all; nothing can be asked of them any more."""
        for function in self.functions:
            function.release()
        for cls in self.classes:
            cls.release()
        vars(self).clear()

    @property
    def has_default_device(self) -> bool:
        """Whether new tensors go to a device that the code set: for the module's own statements, set so far."""
        return self.default_is_set if self.frame.function is None else self.scene.default_device

    # ------------------------------------------------------------------ values

    def evaluate(self, node: cst.CSTNode, env: Env) -> Value:
        return EXPRESSIONS[type(node)](self, node, env)

    def lookup(self, name: str, env: Env) -> Value | None:
        """The value of a name (or of a dotted name that was assigned), None where it is not bound."""
        value = env.get(name)
        if value is None:
            for outer in self.frame.outer:
                value = outer.get(name)
                if value is not None:
                    break
            else:
                value = self.globals.get(name)
                if value is None:
                    return _BUILTINS.get(name)
        return narrowed(value, self.scene.conditions) if value.places else value

    def with_evidence(self, name: str, value: Value, env: Env) -> Value:
        """What use says of an otherwise unknown value that is bound to `name`."""
        if value.kind is not Kind.UNKNOWN:
            return value
        from torchlint.placement.evidence.kinds import (
            given_as_number,
            given_as_tensor,
            goes_into_module,
            is_collated_tensor,
            is_made_tensor,
            is_part_of_batch,
            kind_from_use,
        )

        usage = self.frame.usage
        kind = kind_from_use(name, usage)
        if kind is Kind.TENSOR and "instance" in value.facts:
            return value  # a Module may hand on what is asked of it to a tensor, or have a `clone` of its own
        if kind is None and not is_made_tensor(name, usage):
            if (value.places and given_as_tensor(name, usage)) or is_collated_tensor(name, value, usage):
                kind = Kind.TENSOR
        if goes_into_module(name, usage, lambda called: self.held(called, env), self.usage.losses):
            return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
        if kind is None:
            counts = given_as_number(name, usage) and not value.facts & {"computed", "grad", "perhaps"}
            return Value(Kind.NUMBER, tests=value.tests) if counts else value
        facts = value.facts
        if kind is Kind.TENSOR and "collated" not in facts and kind_from_use(name, usage, parts=False) is None:
            several = name in usage.through or name in usage.displays or name in usage.entries
            several = several or "[,]" in usage.attributes.get(name, ())  # `video[:, 0]`, as nothing else is asked
            if is_part_of_batch(name, usage) and not several:
                facts |= self.part
        return value.but(kind=kind, certainty=min(value.certainty, Certainty.INFERRED), facts=facts)

    @property
    def part(self) -> frozenset[str]:
        """The facts of what is a tensor only because it is a part of a batch, and is moved."""
        return _PART_BESIDE_SELF_MOVING if self.usage.libraries & _SELF_MOVING else _PART

    def held(self, name: str, env: Env) -> Value | None:
        """What a name, or an attribute of the object whose method runs, holds; None where that is not known."""
        value = self.lookup(name, env)
        owner = self.frame.function.owner if self.frame.function is not None else None
        if value is None and owner is not None and name.startswith(f"{self.frame.self_name}."):
            found = owner.attribute(name.split(".", 1)[1])
            return found[1] if found is not None else None
        return value

    # ------------------------------------------------------------------ statements

    def block(self, body: Iterable[cst.CSTNode], env: Env, *, goes_on: bool = False) -> bool:
        """Run statements; True if the end is not reached. goes_on: what holds at their end holds afterwards."""
        before = self.scene
        ended = False
        for node in body:
            if type(node) is cst.SimpleStatementLine:
                for small in node.body:
                    self.statement = small
                    outcome = STATEMENTS[type(small)](self, small, env)
                    if outcome is not None and outcome.ended:
                        ended = True
            else:
                self.statement = node
                outcome = STATEMENTS[type(node)](self, node, env)
                if outcome is not None:
                    if outcome.ended:
                        ended = True
                    elif outcome.tests or outcome.condition:
                        # The other branch left: what it tested is false from here on.
                        self.scene = self.scene.given(outcome.tests, outcome.condition)
            if ended:
                break
        if not goes_on:
            self.scene = before
        return ended

    def suite(self, body: cst.BaseSuite, env: Env) -> bool:
        if type(body) is cst.IndentedBlock:
            return self.block(body.body, env)
        return self.block([cst.SimpleStatementLine(body=list(body.body))], env)  # type: ignore[arg-type]

    def under(self, tests: frozenset[str], condition: tuple[str, bool] | None) -> _Under:
        """While a condition holds."""
        return _Under(self, tests, condition)

    # ------------------------------------------------------------------ events

    def emit(self, event: Event, *extra: Any) -> None:
        """Let an event leave, once for a node; a later pass over a loop may know more."""
        if type(event) in (Backward, Step):
            self.timeline.gives()
            if type(event) is Backward and on_accelerator(event.value):
                self.timeline.works(event.node)
        if self.silent:
            return
        kind = type(event)
        self.kinds.add(kind)
        key = (kind, event.node, *extra)
        old = self.events.get(key)
        if old is None or (isinstance(old, Move | Sync) and _knows_more(event, old)):
            self.events[key] = event



class _Under:
    """The scene under a condition, for as long as it is entered; a generator would take three times as long."""

    __slots__ = ("_before", "_run", "_within")

    def __init__(self, run: Interpreter, tests: frozenset[str], condition: tuple[str, bool] | None) -> None:
        self._run = run
        self._before = run.scene
        self._within = run.scene.given(tests, condition)

    def __enter__(self) -> None:
        self._run.scene = self._within

    def __exit__(self, *_: object) -> None:
        self._run.scene = self._before


def _knows_more(new: Event, old: Event) -> bool:
    before, after = getattr(old, "value", None), getattr(new, "value", None)
    return before is not None and after is not None and before.kind is Kind.UNKNOWN and after.kind is not Kind.UNKNOWN


_OPPOSITE = {
    "accelerator": "no-accelerator",
    "no-accelerator": "accelerator",
    "periodic": "between",
    "between": "periodic",
    "first": "later",
    "later": "first",
    "training": "inference",
    "inference": "training",
    "flag": "flag",
}


def negated(tests: frozenset[str]) -> frozenset[str]:
    """What is known where a test is false."""
    if not tests:
        return tests
    opposite = frozenset(_OPPOSITE[t] for t in tests if t in _OPPOSITE)
    # `a and step % n` is false for most steps where `a` is false.
    return opposite - {"periodic", "first"} if "several" in tests else opposite


def join_env(a: Env, b: Env) -> Env:
    """The environment where two paths meet. A name that only one of them bound keeps its value."""
    result = dict(a)
    for name, value in b.items():
        old = result.get(name)
        if old is not value:
            result[name] = value if old is None else join(old, value)
    return result


def replace_env(env: Env, new: Env) -> None:
    env.clear()
    env.update(new)


def forget_below(name: str, env: Env) -> None:
    """Drop what is known of `name.attribute`, `name[key]` and `other[name]` once `name` is bound anew."""
    # Every assignment comes through here, and next to no name that is bound has anything below it.
    below = [key for key in env if name in key and key is not name]
    if below:
        beginnings, index = (name + ".", name + "["), f"[{name}]"
        for key in below:
            if key.startswith(beginnings) or key.endswith(index):
                del env[key]


def _is_test_path(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    last = parts[-1]
    return (
        last.startswith("test_")
        or last.endswith("_test.py")
        or last == "conftest.py"
        or "tests" in parts[:-1]
        or "test" in parts[:-1]
    )


def key_of(node: cst.CSTNode) -> str | None:
    """The name under which an environment knows an expression: `x`, `x.y`, `x[key]`, `x["key"]`."""
    if type(node) is not cst.Subscript:
        return dotted(node)
    if len(node.slice) != 1 or type(node.slice[0].slice) is not cst.Index:
        return None
    base, index = dotted(node.value), node.slice[0].slice.value
    if base is None or type(index) not in (cst.Name, cst.SimpleString, cst.Integer):
        return None
    return f"{base}[{index.value}]"  # type: ignore[attr-defined]
