"""What only the end of a file knows: Modules that were moved after all, and what the callers of a function pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from functools import cached_property

import libcst as cst

from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import (
    Compare,
    Draw,
    Event,
    HostOnly,
    Late,
    Leftover,
    Load,
    Mix,
    Move,
    Parallel,
    Return,
    Sync,
)
from torchlint.placement.evidence.elsewhere import mark_names
from torchlint.placement.evidence.steps import doubt_waits
from torchlint.placement.hazards.comparisons import is_given
from torchlint.placement.hazards.generators import is_accelerator
from torchlint.placement.hazards.late_layers import is_moved_again
from torchlint.placement.hazards.loads import is_written_before
from torchlint.placement.hazards.own_files import mark_own_files
from torchlint.placement.hazards.startup import past_visible
from torchlint.placement.hazards.timers import note_decorated
from torchlint.placement.hazards.wrappers import is_left_behind
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.scene import Scene
from torchlint.placement.values import Certainty, Kind, Place, Value, Where

#: Roles of functions that others than the file's own code call.
_CALLED_FROM_OUTSIDE = frozenset(["forward", "step", "loss"])
#: What a helper copies to the host it mostly shows or writes there.
_COPIES = frozenset(["cpu", "numpy"])


def settle(run: Interpreter) -> Iterator[Event]:
    """The events of a file in program order, without those that later code refutes."""
    mark_own_files(run)
    mark_names(run)
    note_decorated(run)
    yield from past_visible(run)
    functions = {id(function.node): function for function in run.functions}
    helpers = _of_steps(run.functions)
    seldom = _called_seldom(run.functions)
    once = _called_once(run.functions)
    moved_at_once = set(_moved_at_once(run)) if Mix in run.kinds else set()
    on_host = {
        (id(event.scene.function), event.away.place)
        for event in (run.events.values() if HostOnly in run.kinds else ())
        if isinstance(event, HostOnly) and event.away is not None and event.away.place.where is Where.OF_CALLER
        and "handed" not in event.operand.value.facts
    }
    sent = {
        p.place
        for event in (run.events.values() if Leftover in run.kinds else ())
        if isinstance(event, Move) and event.moves_device and "taken" in event.value.facts
        for p in event.target
    }
    programs = _Programs(run)
    arriving = set(_arriving(run)) if Sync in run.kinds else set()
    doubt_waits(run)
    for event in run.events.values():
        if isinstance(event, Sync) and event.value is not None and _is_to_arrive(event, arriving):
            event.value = event.value.but(certainty=Certainty.GUESSED)
        if isinstance(event, Mix | Return | HostOnly) and not event.scene.host_only and programs.stay_on_host:
            event.scene = event.scene._replace(host_only=True)
        if isinstance(event, Leftover) and event.batch and event.other[1].place not in sent:
            continue
        if isinstance(event, Compare) and event.given:
            asking = functions.get(id(event.scene.function))
            if asking is None or not is_given(run, event, asking):
                continue
        if isinstance(event, Parallel) and event.how == "unmoved":
            if event.origin in run.moved_elsewhere or not is_left_behind(event, run.events.values()):
                continue
        if isinstance(event, Late) and is_moved_again(event, run.events.values()):
            continue
        if isinstance(event, Draw) and event.onto == "default":
            if not run.default_devices or not all(map(is_accelerator, run.default_devices)):
                continue
        if isinstance(event, Mix):
            if event.host[1].origin in run.moved_elsewhere:
                continue
            if _is_moved_from_outside(run, event):
                continue
            if _is_moved_after(event, moved_at_once):
                continue  # who moves the result takes both operands to be on the host
            if (id(event.scene.function), event.other[1].place) in on_host:
                continue  # NumPy is handed the same tensor as it is
            function = functions.get(id(event.scene.function))
            if "called" in event.other[0].value.facts and not (function and _gives_module(function, event)):
                continue
            if function is not None:
                passed = _passed(function, event)
                if passed == "host" and event.scene.role not in _CALLED_FROM_OUTSIDE:
                    continue
                event.confirmed = passed == "away"
                event.open = _is_open(function, event, passed)
            event.asked = event.asked or _is_asked(run, event)
            event.follows = programs.set_default_device
        elif isinstance(event, HostOnly) and event.away is not None and event.away.place.where is Where.OF_CALLER:
            function = functions.get(id(event.scene.function))
            name = event.away.place.name
            if event.api.startswith("numpy"):
                event.confirmed = function is not None and _all_away(functions, function, name)
                if "handed" in event.operand.value.facts and not event.confirmed:
                    continue
            elif function is not None:
                event.confirmed = _lengths_passed(function, name)
        elif isinstance(event, Sync) and id(event.scene.function) in helpers and _is_a_read(event):
            event.scene = event.scene._replace(stepwise=True)
        elif isinstance(event, Sync) and id(event.scene.function) in seldom:
            event.scene = event.scene._replace(tests=event.scene.tests | {"periodic"})
        elif isinstance(event, Load):
            event.written = is_written_before(run, functions, event)
        elif id(event.scene.function) in once and isinstance(event, Move) and not event.scene.loops:
            event.scene = event.scene._replace(tests=event.scene.tests | {"first"})
        elif _costs_in_each_step(event) and (
            _is_rare(run, event.scene)
            or (isinstance(event, Move) and _is_passed(functions.get(id(event.scene.function)), event.scene))
        ):
            event.scene = event.scene._replace(tests=event.scene.tests | {"rare"})
        yield event


class _Programs:
    """What the programs around a file do with devices, asked for once something hangs on it."""

    def __init__(self, run: Interpreter) -> None:
        self._project, self._path = run.project, run.path

    @cached_property
    def stay_on_host(self) -> bool:
        """Whether the file is part of programs that never speak of a device."""
        return self._project is not None and self._project.surroundings.stays_on_host(self._path)

    @cached_property
    def set_default_device(self) -> bool:
        """Whether programs that run the file's code on an accelerator make that the default device."""
        return self._project is not None and self._project.surroundings.has_default_device(self._path)


def _is_moved_from_outside(run: Interpreter, mix: Mix) -> bool:
    """Whether an object keeps a Module that another file of the project moves by the attribute's name."""
    accused, host = mix.host
    if accused.value.kind is not Kind.MODULE or type(host.through) is not cst.Attribute or run.project is None:
        return False
    return run.project.surroundings.moves_attribute(host.through.attr.value, run.path)


def _is_moved_after(mix: Mix, moved_at_once: Set[cst.CSTNode]) -> bool:
    """Whether what a mix gives is moved where it stands, and the code does not itself make the index of its table
    where the caller has something: `table[torch.randint(…, device=x.device)].to(x.device)`."""
    if mix.node not in moved_at_once or mix.other[1].place.where is not Where.OF_CALLER:
        return False
    origin = mix.other[1].origin
    if mix.api != "index" or type(origin) is not cst.Call:
        return True
    return not any(arg.keyword is not None and arg.keyword.value == "device" for arg in origin.args)


def _is_asked(run: Interpreter, mix: Mix) -> bool:
    """Whether the function asks where its caller has what joins, or its class is written for devices.

    A Module's methods ask for many things; of a plain class, one question or a device that it keeps is enough.
    """
    if (id(mix.scene.function), mix.other[1].place) in run.asked:
        return True
    owner = mix.scene.owner
    if not isinstance(owner, Class) or owner.is_module or owner.is_data:
        return False
    if any("device" in name for cls in owner.lineage() for name in cls.attributes):
        return True
    asking = {function for function, _ in run.asked}
    return any(id(method.node) in asking for cls in owner.lineage() for method in cls.methods.values())


def _gives_module(function: Function, mix: Mix) -> bool:
    """Whether every call passes a Module on a device for what the function calls."""
    given = [call.get(mix.other[1].place.name) for call in function.calls]
    return bool(given) and all(
        v is not None
        and v.kind is Kind.MODULE
        and not v.facts & {"wrapped", "quantised"}
        and bool(v.places)
        and all(p.place.is_named for p in v.places)
        for v in given
    )


def _is_a_read(sync: Sync) -> bool:
    """Whether a wait is for a number, rather than for data."""
    return sync.api not in _COPIES or sync.spared


def _of_steps(functions: Iterable[Function]) -> set[int]:
    """The functions that run for every batch since a training step calls them."""
    return {
        id(function.node)
        for function in functions
        if function.role in ("function", "loss")
        and any(s.every_step and (s.hot or s.role == "step") for s in function.called_from)
    }


def _called_seldom(functions: Iterable[Function]) -> set[int]:
    """The forwards that the file itself calls, and only now and then: a penalty of every sixteenth step, a layer of
    what generates."""
    asked = [f for f in functions if f.role in ("forward", "loss", "function") and f.called_from]
    trained = {id(f.node) for f in asked if any(s.every_step for s in f.called_from)}
    inferring = {id(f.node) for f in functions if _INFERS.search(f.name) and id(f.node) not in trained}
    return {
        id(function.node)
        for function in asked
        if function.role != "function"
        and all("periodic" in scene.tests or id(scene.function) in inferring for scene in function.called_from)
    }


#: What methods are called that only use a model.
_INFERS = re.compile(r"(?:^|_)(?:infer|inference|generate|decode|predict|sample)(?:_|$)")


def _called_once(functions: Iterable[Function]) -> set[int]:
    """The functions of no class that only a program's own statements call, themselves or through others, in no loop."""
    asked = [f for f in functions if f.owner is None and f.role in ("function", "loss") and f.called_from]
    once: set[int] = set()
    while True:
        more = {
            id(f.node)
            for f in asked
            if id(f.node) not in once
            and all(not s.loops and (s.role == "script" or id(s.function) in once) for s in f.called_from)
        }
        if not more:
            return once
        once |= more


def _costs_in_each_step(event: Event) -> bool:
    """Whether an event is a wait in every step, or what the host made is copied to the device in a forward."""
    if isinstance(event, Sync):
        return event.scene.every_step
    return isinstance(event, Move) and event.moves_device and event.value.kind is Kind.TENSOR and event.value.on_host


def _is_rare(run: Interpreter, scene: Scene) -> bool:
    """Whether a forward is of a class that the project never calls, or only now and then."""
    if run.project is None or scene.role not in ("forward", "loss") or not isinstance(scene.owner, Class):
        return False
    if scene.owner.is_autograd_function and run.project.surroundings.never_applies(scene.owner.name, run.path):
        return True
    return bool(run.project.surroundings.how_often(scene.owner.name, run.path))


def _is_passed(function: Function | None, scene: Scene) -> bool:
    """Whether code stands in for a tensor that every call in the file passes, and the caller of none may leave out."""
    if function is None or not function.calls:
        return False
    asked = {text for text, truth in scene.conditions if truth and text.endswith(" Is None")}
    for name in {text.removesuffix(" Is None") for text in asked}.intersection(function.parameters):
        passed = [call.get(name) for call in function.calls]
        if all(v is not None and v.kind is Kind.TENSOR and "optional" not in v.facts for v in passed):
            return True
    return False


def _arriving(run: Interpreter) -> Iterator[tuple[int, Place]]:
    """What each function itself sends to a device that it names, of what its callers give: it comes from the host."""
    for event in run.events.values():
        if isinstance(event, Move) and event.moves_device and all(p.place.is_named for p in event.target):
            for alternative in event.value.places:
                if alternative.place.where is Where.OF_CALLER:
                    yield id(event.scene.function), alternative.place


def _is_to_arrive(sync: Sync, arriving: Set[tuple[int, Place]]) -> bool:
    """Whether what is read has not been sent yet, or only other parts of it are."""
    places = sync.value.places if sync.value is not None else ()
    return bool(places) and all((id(sync.scene.function), p.place) in arriving for p in places)


def _moved_at_once(run: Interpreter) -> Iterator[cst.CSTNode]:
    """The calls and operations whose result is moved where it stands."""
    for event in run.events.values():
        if isinstance(event, Move) and event.moves_device:
            node: cst.CSTNode = event.receiver
            while True:
                yield node
                if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                    node = node.func.value
                elif isinstance(node, cst.Subscript):
                    node = node.value
                else:
                    break


def _passed(function: Function, mix: Mix) -> str:
    """Where the calls within the file have what the witness of a mix is: `host`, `away`, or empty where they differ."""
    place = mix.other[1].place
    if place.where is not Where.OF_CALLER:
        return ""
    found = {_where(call.get(place.name)) for call in function.calls}
    return found.pop() if len(found) == 1 else "away" if "away" in found else ""


def _is_open(function: Function, mix: Mix, passed: str) -> bool:
    """Whether there are callers, and nothing tells where what they pass is; those that pass on what they got say no
    more and no less than the function itself."""
    if not function.calls or passed or function.owner is not None:
        return False
    given = [call.get(mix.other[1].place.name) for call in function.calls]
    return not all(v is not None and _is_handed_on(v) for v in given)


def _is_handed_on(value: Value) -> bool:
    """Whether a caller passes what it got itself, or computed from that."""
    if any(fact.startswith("like:") for fact in value.facts):
        return True
    computed = value.kind is Kind.TENSOR and "assumed" not in value.facts and bool(value.places)
    return computed and all(p.place.where is Where.OF_CALLER for p in value.places)


def _lengths_passed(function: Function, name: str) -> bool:
    """Whether every call passes a tensor that is off the host, or computed from what a caller has on its device."""
    found = [call.get(name) for call in function.calls]
    if not found:
        return False
    return all(
        v is not None
        and v.kind in (Kind.TENSOR, Kind.UNKNOWN)
        and "assumed" not in v.facts
        and (_where(v) == "away" or (v.kind is Kind.TENSOR and _is_computed(v)))
        for v in found
    )


def _all_away(functions: dict[int, Function], function: Function, name: str, depth: int = 0) -> bool:
    """Whether every call within the file passes a tensor that is on a device, or an argument of which that is true."""
    found = [call.get(name) for call in function.calls]
    callers = [functions.get(id(scene.function)) for scene in function.called_from]
    return bool(found) and all(
        v is not None and (_is_put_away(v) or (depth < _DEEPEST and _comes_from_away(functions, callers, v, depth)))
        for v in found
    )


#: How many helpers deep an argument is followed.
_DEEPEST = 3


def _is_put_away(value: Value) -> bool:
    sure = value.certainty is not Certainty.GUESSED and not value.facts & {"assumed", "perhaps", "doubtful"}
    return sure and value.kind is Kind.TENSOR and _where(value) == "away"


def _comes_from_away(
    functions: dict[int, Function], callers: list[Function | None], value: Value, depth: int
) -> bool:
    """Whether a value is an argument of a caller, which all of its calls pass from a device."""
    like = [fact[5:] for fact in value.facts if fact.startswith("like:")]
    known = [c for c in callers if c is not None and like and like[0] in c.parameters]
    return bool(known) and all(_all_away(functions, c, like[0], depth + 1) for c in known)


def _is_computed(value: Value) -> bool:
    """Whether a tensor was computed from an argument, rather than handed on as it came."""
    handed_on = any(fact.startswith("like:") for fact in value.facts) or "assumed" in value.facts
    return bool(value.places) and not handed_on and all(p.place.where is Where.OF_CALLER for p in value.places)


def _where(value: Value | None) -> str:
    if value is not None and value.kind is Kind.NONE:
        return "host"  # there is nothing to meet
    if value is not None and value.kind is Kind.SEQUENCE and not value.places:
        value = value.element
    if value is None or not value.places:
        return ""
    if value.on_host:
        return "host"
    if value.may_be_on_host or any(p.place.where is Where.OF_CALLER for p in value.places):
        return ""
    return "away"
