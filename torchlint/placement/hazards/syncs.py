"""Waits of the host for the device: how they are told, what they read, and what asks for the number they give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import Clock, Sync
from torchlint.placement.syntax import assigned_names, descendants, dotted
from torchlint.placement.timeline import read_pending
from torchlint.placement.values import HOST, Alternative, Certainty, Kind, Value, union

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter

#: Attributes that show the same tensor.
_VIEWS = frozenset(["data", "T", "grad", "mT", "H"])


def emit_sync(
    run: Interpreter,
    node: cst.CSTNode,
    api: str,
    value: Value,
    *,
    hidden: bool = False,
    demanded: bool = False,
) -> None:
    """The host waits for `value`, unless it is known to be on the host or is no tensor."""
    if value.kind is Kind.UNKNOWN and "computed" in value.facts:
        value = value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    read_pending(run, node, api, value)
    if value.kind is Kind.UNKNOWN and value.places and not value.on_host:
        run.timeline.waits()
    if value.kind is not Kind.TENSOR or value.on_host:
        return
    idle = run.timeline.is_idle(run.scene)
    run.timeline.waits()
    if not run.scene.conditions:
        run.timeline.reads()
    subject = subject_of(run, node)
    as_loaded = bool(value.facts & {"batch", "collated"}) and not value.places
    if as_loaded or "doubtful" in value.facts or _is_setting(run, subject):  # rather on the host
        value = value.but(certainty=Certainty.GUESSED)
    run.emit(Sync(node, run.scene, api, value, hidden, demanded, subject, run.statement, idle=idle))


def _is_setting(run: Interpreter, name: str) -> bool:
    """Whether a name is an attribute that may be a tensor or something else, and is a tensor where this runs."""
    if not name.startswith(f"{run.frame.self_name}.") or not run.frame.self_name:
        return False
    asking = (f"isinstance({name}, ", f"is_tensor({name})", f"torch.is_tensor({name})")
    return any(truth and condition.startswith(asking) for condition, truth in run.scene.conditions)


def may_wait(value: Value) -> bool:
    """Whether reading a value as a number or text may wait: it is a tensor, or was computed as tensors are."""
    return value.kind is Kind.TENSOR or (value.kind is Kind.UNKNOWN and "computed" in value.facts)


def read_as_text(run: Interpreter, node: cst.BaseExpression, value: Value, api: str = "format") -> None:
    """The text of a value, or of what a tuple or a mapping holds, is asked for."""
    if value.items is not None and type(node) is cst.Tuple and len(node.elements) == len(value.items):
        for element, item in zip(node.elements, value.items, strict=False):
            read_as_text(run, element.value, item, api)
    elif value.kind is Kind.MAPPING and value.element is not None:
        held = [v for v in (value.keys or {}).values() if may_wait(v)] or [value.element]
        emit_sync(run, node, api, held[0], hidden=True)
    else:
        emit_sync(run, node, api, value, hidden=True)


def wait_for_all(run: Interpreter, api: str) -> None:
    """The host waits for all work of the device; behind a clock, on purpose."""
    run.timeline.waits()
    if api == "synchronize" and _takes_times(run):
        run.timeline.drains(run.scene)


def emit_full_sync(run: Interpreter, node: cst.CSTNode, api: str) -> None:
    """The host waits for all work of the device, and the code names the function that does."""
    wait_for_all(run, api)
    streams = not run.usage.mentions.isdisjoint(_OF_STREAMS)
    run.emit(Sync(node, run.scene, api, None, statement=run.statement, streams=streams))


def _takes_times(run: Interpreter) -> bool:
    """Whether the function reads a clock before, so that it has to wait for the device."""
    return any(type(e) is Clock and e.scene.function is run.scene.function for e in run.events.values())


#: What code reads of torch and of tensors that gives work to streams beside the current one
#: (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams).
_OF_STREAMS = frozenset("current_stream wait_stream record_stream wait_event Stream set_stream".split())


def number_read(node: cst.CSTNode) -> Value:
    """The number that the wait at `node` read; it remembers where it was read."""
    return Value(Kind.NUMBER, (Alternative(HOST, 0, node),))


def read_numbers(values: Iterable[Value]) -> tuple[Alternative, ...]:
    """Where the numbers among the values were read."""
    read: tuple[Alternative, ...] = ()
    for value in values:
        if value.kind is Kind.NUMBER:
            read = union(read, value.places)
    return read


def demand(run: Interpreter, value: Value) -> None:
    """What asks for a number on the host is a reason for the wait that read it."""
    if value.kind in (Kind.NUMBER, Kind.ARRAY, Kind.TENSOR):
        for alternative in value.places:
            for event in _read_at(run, alternative.origin):
                event.demanded = True


def _read_at(run: Interpreter, node: object) -> Iterator[Sync]:
    """The waits by which a value was read: of `t.cpu().item()`, both."""
    while isinstance(node, cst.CSTNode):
        event = run.events.get((Sync, node))
        if isinstance(event, Sync):
            yield event
        node = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None


def decide(run: Interpreter, test: cst.BaseExpression, env: Env) -> Iterator[Sync]:
    """The waits that read the numbers which a test compares."""
    for comparison in descendants(test):
        if type(comparison) is not cst.Comparison or type(comparison.comparisons[0].operator) not in _ORDERS:
            continue
        for side in (comparison.left, *(c.comparator for c in comparison.comparisons)):
            value = run.truths.get(side)
            if value is None and isinstance(side, (cst.Name, cst.Subscript)):
                value = run.evaluate(side, env)
            if value is not None and value.kind is Kind.NUMBER:
                for alternative in value.places:
                    yield from _read_at(run, alternative.origin)


def spare(run: Interpreter, value: Value) -> None:
    """A tensor would do where `value`, a number that a wait read, is used."""
    if value.kind is Kind.NUMBER:
        for alternative in value.places:
            event = run.events.get((Sync, alternative.origin))
            if isinstance(event, Sync):
                event.spared = True


def demand_host(run: Interpreter, node: cst.CSTNode) -> None:
    """What asks for a value on the host is a reason for the wait that brought it there."""
    if Sync not in run.kinds:
        return
    for below in descendants(node):
        event = run.events.get((Sync, below))
        if isinstance(event, Sync):
            event.demanded = True


def demand_shown(run: Interpreter, call: cst.Call, env: Env) -> None:
    """Where another library is called for its effect alone, what it shows or writes is needed on the host."""
    if Sync not in run.kinds or not run.scene.stepwise:
        return
    name = dotted(call.func) or ""
    root = run.lookup(name.partition(".")[0], env) if "." in name else None
    if root is None or root.kind is not Kind.API or (root.name or "").partition(".")[0] in _KEEPS_NUMBERS:
        return
    given = {n.value for arg in call.args for n in descendants(arg.value) if type(n) is cst.Name}
    for event in run.events.values():
        if isinstance(event, Sync) and event.api in ("cpu", "numpy") and event.scene.function is run.scene.function:
            statement = event.statement
            if isinstance(statement, cst.Assign) and any(
                not given.isdisjoint(assigned_names(target.target)) for target in statement.targets
            ):
                event.demanded = True


#: Libraries that compute, or that keep the numbers of a run, which they could be given now and then.
_KEEPS_NUMBERS = frozenset("torch numpy math random logging wandb mlflow neptune comet_ml swanlab ray time".split())


def demand_compared(run: Interpreter, test: cst.BaseExpression, env: Env) -> None:
    """Where a loop ends once a number is what it should be, that number is needed in every round."""
    for comparison in descendants(test):
        if type(comparison) is cst.Comparison and type(comparison.comparisons[0].operator) in _ORDERS:
            demand_host(run, comparison)
            for name in descendants(comparison):
                if type(name) is cst.Name and name.value in env:
                    demand(run, env[name.value])


_ORDERS = (cst.Equal, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


def ends_loop(clause: cst.If | cst.Else | None) -> bool:
    """Whether an `if`, or one of the branches that are left where its test is false, ends in a `break`."""
    while clause is not None:
        body = clause.body.body
        last: cst.CSTNode | None = body[-1] if body else None
        if type(last) is cst.SimpleStatementLine:
            last = last.body[-1]
        if type(last) is cst.Break or (type(last) is cst.If and ends_loop(last)):
            return True
        clause = clause.orelse if type(clause) is cst.If else None
    return False


def subject_of(run: Interpreter, node: cst.CSTNode) -> str:
    """The name of what is read, behind all calls, attributes and subscripts; empty where it has none."""
    for _ in range(30):
        name = dotted(node)
        if name is not None:
            head, _dot, last = name.rpartition(".")
            return head if last in _VIEWS else name
        kind = type(node)
        if kind in (cst.Attribute, cst.Subscript):
            node = node.value  # type: ignore[attr-defined]
        elif kind is cst.Call:
            node = _read_by(run, node)  # type: ignore[arg-type]
        else:
            return ""
    return ""


def _read_by(run: Interpreter, call: cst.Call) -> cst.CSTNode:
    """What a call reads: what its method is called on, else its first argument."""
    if type(call.func) is cst.Attribute:
        root: cst.CSTNode = call.func.value
        while type(root) is cst.Attribute:
            root = root.value
        known = run.lookup(root.value, {}) if type(root) is cst.Name else None
        if known is None or known.kind is not Kind.API:
            return call.func.value
    return call.args[0].value if call.args else cst.Pass()
