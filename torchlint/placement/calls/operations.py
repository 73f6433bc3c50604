"""Operations that join several values: where the result lives, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import product
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.calls.accelerators import note_split
from torchlint.placement.calls.owing import note_owed, parameter_of
from torchlint.placement.definitions.records import Joined, Joining
from torchlint.placement.events import Attribute, HostOnly, Leftover, Mix, Operand
from torchlint.placement.hazards.graphs import keep, keep_state
from torchlint.placement.hazards.startup import note_variable
from torchlint.placement.hazards.syncs import emit_sync
from torchlint.placement.syntax import descendants, dotted, string, words
from torchlint.placement.timeline import read_pending
from torchlint.placement.values import (
    ELSEWHERE,
    MOST_ALTERNATIVES,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    is_as_given,
    join,
    union,
    with_rank,
    without_graph,
)

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter

#: A known place speaks louder in a message than a symbolic one.
_LOUDNESS = {Where.NAMED: 0, Where.DEFAULT: 1, Where.OF_MODULE: 2, Where.OF_CALLER: 3, Where.UNKNOWN: 9, Where.HOST: 9}
_SILENT = 9


def tensor_operands(operands: Iterable[Operand]) -> list[Operand]:
    """The operands that are tensors, or Modules that compute with their own; sequences are opened."""
    found: list[Operand] = []
    for operand in operands:
        value = operand.value
        if value.kind in (Kind.TENSOR, Kind.MODULE):
            found.append(operand)
        elif "perhaps" in value.facts:
            # Where it is no tensor, the operation would be none of torch's.
            inferred = min(value.certainty, Certainty.INFERRED)
            found.append(Operand(operand.node, value.but(kind=Kind.TENSOR, certainty=inferred), operand.role))
        elif value.kind is Kind.SEQUENCE:
            inner = value.items if value.items is not None else (value.element,) if value.element is not None else ()
            nodes = _elements(operand.node, len(inner))
            found.extend(
                tensor_operands(
                    Operand(node, item, operand.role) for node, item in zip(nodes, inner) if item is not value
                )
            )
    return found


def _elements(node: cst.CSTNode, count: int) -> Sequence[cst.CSTNode]:
    """The expressions of a list that stands where it is used, else its own, for each of its items."""
    written = node.elements if isinstance(node, cst.List | cst.Tuple) else ()
    if len(written) == count and all(type(e) is cst.Element for e in written):
        return [e.value for e in written]
    return [node] * count


def mix(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    operands: Sequence[Operand],
    *,
    in_place: bool = False,
    strict: bool = False,
    rank: int | str | None = "elementwise",
    within: cst.CSTNode | None = None,
) -> Value:
    """Join tensors in one operation: emits a `Mix` where some may be on the host and others are not.

    in_place: the first operand is written. rank: of the result; "elementwise" derives it from the operands.
    A 0-dim tensor on the host may join any other, except where it is written in place, or where the operation is
    strict: its kernel takes no tensor from elsewhere at all. within: see `Mix`.
    """
    tensors = tensor_operands(operands)
    for operand in tensors:
        read_pending(run, node, api, operand.value)
    raises = _judge(run, node, api, tensors, in_place, strict, within)
    if len(tensors) < len(operands):
        note_owed(run, node, api, operands)
    result = _result(tensors, rank)
    if raises:
        result = result.but(facts=result.facts | {"mixed"})
    if run.scene.no_grad:
        result = without_graph(result)
    if not result.on_host:
        run.timeline.gives()
    if any(p.place.is_named for p in result.places):
        run.timeline.works(node, briefly=True)
    return result


def _judge(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    tensors: Sequence[Operand],
    in_place: bool,
    strict: bool,
    within: cst.CSTNode | None,
) -> bool:
    """Report what is in different places; whether the operation raises wherever another operand is elsewhere."""
    if len(tensors) < 2 or run.scene.only_host:
        return False
    mixed = raises = False
    for position, accused in enumerate(tensors):
        for alternative in accused.value.places:
            if alternative.through is not None and alternative.place.where in (Where.OF_CALLER, Where.UNKNOWN):
                _leave_behind(run, node, api, accused, alternative, tensors)
            if alternative.place in run.frame.sent:
                _left_unsent(run, node, api, accused, alternative, tensors)
            elif run.frame.settled and alternative.place.where is Where.OF_CALLER:
                _left_by_caller(run, node, api, accused, alternative, tensors)
            if not alternative.place.is_host:
                continue
            if not _accuses(run, accused, alternative, in_place and position == 0, strict):
                continue
            against = _witness(accused, alternative, tensors)
            if against is not None:
                mixed = True
                raises |= accused.value.on_host  # so that what comes of it, if anything does, is on the host, too
                joined = Mix(node, run.scene, api, tuple(tensors), (accused, alternative), against, within=within)
                run.emit(joined, alternative.origin)
    if not mixed:
        note_split(run, node, api, tensors, within)
        note_parameters(run, node, tensors)
    return raises


def _witness(
    accused: Operand, host: Alternative, tensors: Sequence[Operand]
) -> tuple[Operand, Alternative] | None:
    """The operand that is most plainly elsewhere while `accused` is on the host."""
    found: tuple[Operand, Alternative] | None = None
    best = (True, _SILENT)
    for witness in tensors:
        if witness is accused or _correlated(accused.value, witness.value):
            continue
        for other in witness.value.places:
            if other.place.where is Where.UNKNOWN or other.place.is_host or host.excludes(other):
                continue
            rank = ("assumed" in witness.value.facts, _LOUDNESS[other.place.where])
            if rank < best:
                found, best = (witness, other), rank
    return found


def _left_unsent(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    operand: Operand,
    alternative: Alternative,
    tensors: Sequence[Operand],
) -> None:
    """A tensor stayed where its caller had it, and joins one on the device that others of the same were sent to."""
    if alternative.rank == 0 or operand.value.kind is not Kind.TENSOR or alternative.through is not None:
        return
    if "assumed" in operand.value.facts and not is_as_given(operand.value):
        return  # what a call gave that nobody knows
    if any(p.place != alternative.place for p in operand.value.places):
        return  # a Module computed it, and what a Module is given was moved
    _emit_leftover(run, node, api, operand, alternative, tensors, run.frame.sent[alternative.place])


def _left_by_caller(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    operand: Operand,
    alternative: Alternative,
    tensors: Sequence[Operand],
) -> None:
    """A caller's tensor joins one on the device that the function itself sends the caller's Module and batches to."""
    value = operand.value
    if alternative.rank == 0 or alternative.through is not None or len(value.places) > 1:
        return
    if value.kind is not Kind.TENSOR and "loss module" not in value.facts:
        return
    if "assumed" in value.facts and "taken" not in value.facts:
        return
    sent = run.frame.settled & set().union(*run.frame.sent.values())
    _emit_leftover(run, node, api, operand, alternative, tensors, sent)


def _emit_leftover(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    operand: Operand,
    alternative: Alternative,
    tensors: Sequence[Operand],
    sent: Set[Place],
) -> None:
    """Report the operand that stayed, where another one is on one of the devices that its like were sent to."""
    if run.usage.mentions & _PREPARING:
        return  # a loader that a framework prepared moves all of its batches
    if api == "loss" and not run.frame.settled:
        return  # a loss of the project's own may move what it gets, as its caller does who moved the model
    for witness in tensors:
        places = witness.value.places
        if witness is not operand and places and all(p.place in sent for p in places):
            run.emit(Leftover(node, run.scene, api, (operand, alternative), (witness, places[0])), "unsent")
            return


#: Methods of frameworks that make loaders whose batches are on the device.
_PREPARING = frozenset(["prepare", "prepare_data_loader", "setup_dataloaders", "process_dataloader"])


def _leave_behind(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    operand: Operand,
    kept: Alternative,
    tensors: Sequence[Operand],
) -> None:
    """An attribute that nobody knows the place of joins what is where the caller or the Module is."""
    if kept.rank == 0:
        return
    for witness in tensors:
        for other in witness.value.places:
            if other.place.where in _GIVEN and other.through is None and "assumed" not in witness.value.facts:
                run.emit(Leftover(node, run.scene, api, (operand, kept), (witness, other)), kept.through)
                return


def _accuses(run: Interpreter, operand: Operand, alternative: Alternative, written: bool, strict: bool) -> bool:
    value = operand.value
    if value.certainty is Certainty.GUESSED:
        return False
    if value.kind is Kind.MODULE:
        return "wrapped" not in value.facts and alternative.origin not in run.moved_elsewhere
    return alternative.rank == 1 or strict or (written and alternative.rank == 0)


def _correlated(a: Value, b: Value) -> bool:
    """Whether both may be in both places, so that one decision probably placed them both."""
    return (
        b.may_be_on_host and any(not p.place.is_host for p in a.places) and any(not p.place.is_host for p in b.places)
    )


#: Places that a call of the function decides.
_GIVEN = (Where.OF_CALLER, Where.OF_MODULE)


def note_parameters(run: Interpreter, node: cst.CSTNode, tensors: Sequence[Operand]) -> None:
    """Remember which parameters an operation joins, so that calls of the function can be judged."""
    function = run.frame.function
    if function is None or len(function.mixes) > 20 or run.scene.only_host or run.scene.tests & _CHOSEN:
        return
    groups = [
        (t.node, {j for j in map(_joined, t.value.places) if j is not None} - run.frame.unknown_devices)
        for t in tensors
        if not t.value.may_be_on_host
        and len(t.value.places) <= 2
        and not any(p.guards for p in t.value.places)
        and ("assumed" not in t.value.facts or "taken" in t.value.facts)
    ]
    for position, (one, group) in enumerate(groups):
        for another, others in groups[position + 1 :]:
            for first, second in product(group, others):
                if first != second and not (isinstance(first, Place) and isinstance(second, Place)):
                    joining = Joining(node, one, another, run.scene.conditions - run.frame.assured)
                    function.mixes.setdefault((first, second), joining)


def note_whatever(run: Interpreter, node: cst.CSTNode, operands: Sequence[Operand]) -> None:
    """An operator joins two parameters of which nothing tells the kind: a call may give tensors for both."""
    names = {name for operand in operands if (name := _with_its_dimensions(operand.node)) is not None}
    given = {parameter_of(operand.value) for operand in operands}
    if len(names) == len(operands) and names == given and not any(run.frame.usage.assigned.get(n) for n in names):
        note_parameters(run, node, operands)


#: Methods that leave a tensor with as many dimensions as it has, or one more.
_KEEPING = frozenset("transpose permute t contiguous unsqueeze float double half long int bool detach clone".split())


def _with_its_dimensions(node: cst.CSTNode) -> str | None:
    """The name whose tensor an expression is, with the dimensions that it came with."""
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in _KEEPING:
        node = node.func.value
    return node.value if type(node) is cst.Name else None


#: Tests by which a run decides about devices.
_CHOSEN = frozenset(["flag", "-flag"])


def _joined(alternative: Alternative) -> Joined | None:
    """What of a function's surroundings decides where something is: a parameter, the Module, a device."""
    if alternative.place.where is Where.OF_CALLER:
        return alternative.place.name if alternative.through is None else None
    return alternative.place if alternative.place.is_named else ""


def _result(tensors: Sequence[Operand], rank: int | str | None) -> Value:
    if not tensors:
        return Value(Kind.TENSOR, (), Certainty.INFERRED)
    known = [t for t in tensors if t.value.places]
    hosts: tuple[Alternative, ...] = ()
    others: tuple[Alternative, ...] = ()
    certainty = Certainty.KNOWN
    facts: frozenset[str] = frozenset()
    for operand in tensors:
        value = operand.value
        certainty = min(certainty, value.certainty)
        facts |= value.facts & {"grad", "filled", "element", "mixed"}
        if value.kind is Kind.MODULE:
            facts |= {"grad"}
        for alternative in value.places:
            if alternative.place.is_host:
                hosts = union(hosts, (alternative,))
            else:
                others = union(others, (alternative,))
    if all(t.value.facts & {"cut", "buffer"} for t in tensors):
        facts |= {"cut"}
    if len(known) > 1:
        facts |= {"joint"}
    if known and all("assumed" in t.value.facts and not is_as_given(t.value) for t in known):
        facts |= {"assumed"}  # where all of them are is a guess, and so is where this is
    if rank == "elementwise":
        rank = _joint_rank(tensors)
    if len(tensors) == 1:
        places = tensors[0].value.places
    elif others:
        # A host operand either is 0-dim or was judged: the result is where the others are.
        places = others
    elif len(known) == len(tensors) and hosts:
        places = tuple(a for a in hosts if a.rank != 0) or hosts
    else:
        places = ()
    return Value(Kind.TENSOR, with_rank(places, rank)[:MOST_ALTERNATIVES], certainty, facts=facts)  # type: ignore[arg-type]


def _joint_rank(tensors: Sequence[Operand]) -> int | None:
    ranks = [p.rank for t in tensors for p in t.value.places or (Alternative(ELSEWHERE),)]
    if any(all(p.rank == 1 for p in t.value.places) and t.value.places for t in tensors):
        return 1
    return 0 if ranks and all(r == 0 for r in ranks) else None




def emit_host_only(run: Interpreter, node: cst.CSTNode, api: str, operand: Operand) -> None:
    """Something takes `operand` from the host alone: note where else it may be, or that its graph forbids it."""
    value = operand.value
    if value.kind is not Kind.TENSOR or value.certainty is Certainty.GUESSED:
        return
    away = [p for p in value.places if p.place.where not in (Where.HOST, Where.UNKNOWN)]
    if away and run.scene.only_host:
        return  # what asked says that nothing is elsewhere here
    if away:
        run.emit(HostOnly(node, run.scene, api, operand, min(away, key=lambda p: _LOUDNESS[p.place.where])))
    elif "grad" in value.facts and "cut" not in value.facts and not run.scene.no_grad and api.startswith("numpy"):
        run.emit(HostOnly(node, run.scene, api, operand, None, trains=run.frame.usage.trains))


def is_given(value: Value) -> bool:
    """Whether something is a part of a batch, or what a Module gave on a device: a tensor where one will do."""
    if value.kind is not Kind.UNKNOWN or not value.places:
        return False
    if value.facts & {"output", "computed"} and all(p.place.is_named for p in value.places):
        return True
    return value.on_host and "collated" in value.facts


def as_tensor_if_moved(value: Value) -> Value:
    """What arithmetic joins with a tensor is one, if it was moved (no Module is added to anything), or on some path, or
    is what a Module gave on a device, or a part of a batch."""
    if value.kind is not Kind.UNKNOWN or not value.places:
        return value
    if value.facts & {"fresh", "perhaps"} or is_given(value):
        return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    if "output" in value.facts and all(p.place.where is Where.OF_MODULE for p in value.places):
        # A layer of the Module's own computed it, and is where the Module is.
        facts = value.facts - {"assumed"}
        return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED), facts=facts)
    return value


def augmented(run: Interpreter, node: cst.AugAssign, left: Value, right: Value, env: Env) -> Value:
    """`left op= right`: in place for a tensor."""
    if left.kind is Kind.TENSOR:
        right = as_tensor_if_moved(right)
    if left.kind is Kind.TENSOR and right.kind is Kind.TENSOR:
        operands = [Operand(node.target, left, "in place"), Operand(node.value, right)]
        result = mix(run, node, type(node.operator).__name__, operands, in_place=True)
        value = result.at(left.places or result.places)
    elif left.kind is Kind.TENSOR:
        value = left
    elif right.kind is Kind.TENSOR and left.kind in (Kind.NUMBER, Kind.UNKNOWN, Kind.NONE):
        value = right
        if left.kind is not Kind.NUMBER:
            # A tensor on the left stays where it is, whatever is added to it.
            away = tuple(p for p in right.places if not p.place.is_host)
            value = right.at(away if left.kind is Kind.UNKNOWN else right.places)
            value = value.but(certainty=min(right.certainty, Certainty.INFERRED))
        value = value.but(facts=value.facts - {"fresh", "leaf", "parameter"})
    elif left.kind is Kind.SEQUENCE:
        value = Value(
            Kind.SEQUENCE,
            element=join(left.element, right.element) if right.element is not None else left.element,
        )
    elif left.kind is right.kind:
        value = left
    else:
        value = NUMBER if Kind.NUMBER in (left.kind, right.kind) and left.kind is not Kind.UNKNOWN else UNKNOWN
    if type(node.operator) is cst.AddAssign:
        target = node.target.value if type(node.target) is cst.Subscript else node.target
        keep(run, node, node.value, right, "+=", dotted(target) or "")
        keep_state(run, node, node.value, right, dotted(target) or "", env)
    return value


def assign_item(run: Interpreter, target: cst.Subscript, value: Value, env: Env) -> None:
    """`base[index] = value`."""
    if type(target.value) is cst.Attribute and target.value.attr.value == "__dict__":
        _assign_in_dict(run, target, value)
        return
    base = run.evaluate(target.value, env)
    if base.kind is Kind.API and base.name == "os.environ" and type(target.slice[0].slice) is cst.Index:
        note_variable(run, target, target.slice[0].slice.value, value)
    plain = [e.slice.value for e in target.slice if type(e.slice) is cst.Index]
    indices = [Operand(i, run.evaluate(i, env), "index") for i in plain]
    name = dotted(target.value)
    if name is not None:
        for known in [k for k in env if k.startswith(f"{name}[")]:
            del env[known]
    if base.kind is Kind.TENSOR:
        _write_slice(run, target, base, indices, value)
        if name is not None:
            env[name] = base.but(facts=base.facts | {"filled"})
        return
    if run.frame.function is not None:
        run.frame.function.writes = True
        run.frame.function.changes |= "made" not in base.facts
    if run.scene.loops:
        run.frame.replaced[target] = value
    if name is None or base.kind not in (Kind.MAPPING, Kind.SEQUENCE, Kind.UNKNOWN):
        return
    index = indices[0].value if len(indices) == 1 else UNKNOWN
    key = index.name if index.kind is Kind.STRING else None
    if base.kind is Kind.UNKNOWN and key is None:
        return
    keys = dict(base.keys or {})
    if key is not None:
        keys[key] = value
    element = (
        value
        if base.element is None and base.kind is not Kind.UNKNOWN
        else join(base.element, value)
        if base.element is not None
        else None
    )
    if key is None and element is not None and base.element is not None and _moves_one(base.element, value):
        element = element.but(certainty=Certainty.GUESSED)  # which of them are still where they were is open
    env[name] = base.but(keys=keys or None, element=element, items=None if key is None else base.items)
    _note_grown(run, target, name, env[name], value)


def _moves_one(held: Value, value: Value) -> bool:
    """Whether an item of a container of tensors of the host is replaced by one that is elsewhere."""
    return held.may_be_on_host and value.kind is Kind.TENSOR and not value.may_be_on_host


def _note_grown(run: Interpreter, node: cst.CSTNode, name: str, grown: Value, value: Value) -> None:
    """An attribute's container got another item."""
    owner = run.frame.function.owner if run.frame.function is not None else None
    instance, _, attribute = name.partition(".")
    if owner is None or instance != run.frame.self_name or attribute not in owner.attributes:
        return
    owner.attributes[attribute] = grown
    if value.kind in (Kind.MODULE, Kind.TENSOR):
        run.emit(Attribute(node, run.scene, owner, attribute, grown, "append"))


def _assign_in_dict(run: Interpreter, target: cst.Subscript, value: Value) -> None:
    """`self.__dict__[name] = value`, which goes round what a Module does with its attributes."""
    owner = run.frame.function.owner if run.frame.function is not None else None
    if owner is None or dotted(target.value) != f"{run.frame.self_name}.__dict__":
        return
    index = target.slice[0].slice
    key = string(index.value) if type(index) is cst.Index else None
    run.emit(Attribute(target, run.scene, owner, key or "", value, "dict"))


def _write_slice(
    run: Interpreter, target: cst.Subscript, base: Value, indices: Sequence[Operand], value: Value
) -> None:
    masks = [i for i in indices if i.value.kind is Kind.TENSOR and not _picks_one(i.value)]
    if masks:
        check_index(run, target, base, masks)
    if value.kind is not Kind.TENSOR:
        return
    written = Operand(target.value, base, "slice")
    masked = any("mask" in i.value.facts for i in masks)
    if masks and not (masked and _is_one_number(value)):
        mix(run, target, "masked assignment", [written, Operand(target, value)], in_place=True)
        if masked and not value.on_host and not all(i.value.on_host for i in masks):
            # A single number of the host is filled in without a look at the mask
            # (aten/src/ATen/native/TensorAdvancedIndexing.cpp, `canDispatchToMaskedFill`).
            api = "masked assignment" if _selects_alike(run, target) else "boolean mask index"
            emit_sync(run, target, api, base if base.places else value, hidden=True)
    elif base.on_host and value.places and not value.may_be_on_host:
        emit_sync(run, target, "slice assignment", value, hidden=True)


def _is_one_number(value: Value) -> bool:
    """Whether a tensor of one element is made of a number, which a masked assignment reads on the host and fills in
    (aten/src/ATen/native/TensorAdvancedIndexing.cpp, `canDispatchToMaskedFill`)."""
    for alternative in value.places:
        node = alternative.origin
        if type(node) is not cst.Call or not node.args or not words(node.func).endswith(("tensor", "Tensor")):
            return False
        data = node.args[0].value
        if not isinstance(data, cst.List | cst.Tuple) or len(data.elements) != 1:
            return False
        only = data.elements[0]
        if isinstance(only, cst.StarredElement) or isinstance(only.value, cst.List | cst.Tuple | cst.ListComp):
            return False
    return bool(value.places)


def _selects_alike(run: Interpreter, target: cst.Subscript) -> bool:
    """Whether what is assigned is computed by operators from what the same index selects: `torch.where` would do."""
    statement, index = run.statement, _index_of(target)
    if type(statement) is not cst.Assign or "…" in index:
        return False
    parts = list(descendants(statement.value))
    selected = (type(p) is cst.Subscript and _index_of(p) == index for p in parts)
    return any(selected) and not any(type(p) is cst.Call for p in parts)


def _index_of(node: cst.Subscript) -> str:
    return ", ".join(words(e.slice.value) if type(e.slice) is cst.Index else "…" for e in node.slice)


def _picks_one(index: Value) -> bool:
    """Whether an index is a 0-dim integer, read like a number: what is written then is copied, wherever it is.

    A source: torch/csrc/autograd/python_variable_indexing.cpp, `applySlicing`.
    """
    return bool(index.places) and all(p.rank == 0 for p in index.places) and "mask" not in index.facts


def check_index(run: Interpreter, node: cst.Subscript, base: Value, indices: Sequence[Operand]) -> None:
    """An accelerator index on a host tensor raises; a host index on an accelerator tensor does not."""
    if base.certainty is Certainty.GUESSED:
        return
    host = next((p for p in base.places if p.place.is_host), None)
    if host is None or host.rank == 0:
        return
    note_owed(run, node, "index", [Operand(node.value, base), *indices])
    for operand in indices:
        index = as_tensor_if_moved(operand.value)  # no Module is an index
        if index.kind is not Kind.TENSOR or index.certainty is Certainty.GUESSED:
            continue
        if _correlated(base, index):
            continue
        whole = "element" not in index.facts
        for other in index.places:
            # A 0-dim index is read like a number, and allowed.
            if other.rank != 1 and not (whole and other.rank is None):
                continue
            if not other.place.is_host and other.place.where is not Where.UNKNOWN and not host.excludes(other):
                operands = (Operand(node.value, base), operand)
                run.emit(Mix(node, run.scene, "index", operands, (operands[0], host), (operands[1], other)))
                return
