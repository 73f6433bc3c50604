"""Autograd graphs that outlive their step: what holds one, and what keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.events import Accumulate
from torchlint.placement.interpreter import key_of
from torchlint.placement.syntax import (
    assigned_names,
    children,
    descendants,
    dotted,
    statements,
    string,
    words,
)
from torchlint.placement.values import UNKNOWN, Kind, Value, Where

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Function
    from torchlint.placement.interpreter import Env, Interpreter

#: Methods whose result hangs on the graph of what they are called on.
_PASSING = frozenset(
    [
        "mean",
        "sum",
        "clone",
        "abs",
        "squeeze",
        "unsqueeze",
        "float",
        "half",
        "double",
        "to",
        "cuda",
        "cpu",
        "view",
        "reshape",
        "pow",
        "sqrt",
        "exp",
        "log",
        "neg",
    ]
)
_DISPLAYS = (cst.List, cst.Tuple, cst.Dict)
_BACKWARD = frozenset(["backward", "manual_backward"])


class Backwards(NamedTuple):
    """What is known of the backward calls in a piece of code.

    losses: the names that backward is called on, or that are handed to it. sources: all names that flow into those.
    holders: names bound once to what holds such a loss: `output` of `output["loss"].backward()`.
    """

    losses: frozenset[str]
    sources: frozenset[str]
    holders: frozenset[str]


def keeper_of(node: cst.BaseExpression) -> str:
    """The name of what holds a list: its own, or that of the mapping it is an item of; empty where it has none."""
    return dotted(node) or (dotted(node.value) if isinstance(node, cst.Subscript) else None) or ""


def returned_loss(run: Interpreter, function: Function, statement: cst.CSTNode, value: Value) -> Value:
    """What a function returns, which hangs on a graph if the function itself has run a backward on it."""
    given = statement.value if isinstance(statement, cst.Return) else None
    name = dotted(given) if given is not None else None
    if name is None or value.kind not in (Kind.TENSOR, Kind.UNKNOWN) or "cut" in value.facts:
        return value
    if name not in backwards(run, function.node).losses:
        return value
    return value.but(facts=value.facts | {"loss", "grad"})


def keep(
    run: Interpreter, node: cst.CSTNode, kept: cst.BaseExpression, value: Value, how: str, into: str
) -> None:
    """`value`, the value of `kept`, is added to `into`: tell where its graph outlives the step with it."""
    held = value.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.OWNED, Kind.MAPPING) or isinstance(kept, _DISPLAYS)
    if not held or run.scene.no_grad or not into or "cut" in value.facts:
        return
    carriers = set(_carriers(kept))
    if not carriers:
        return
    function = run.frame.function
    if function is not None and into.startswith(f"{run.frame.self_name}."):
        for name in carriers.intersection(function.parameters):
            if not run.frame.usage.assigned.get(name):
                function.keeps.add(name)
    scene = run.scene
    loop = scene.loops[-1] if scene.evaluating and scene.loops else scene.step_loop
    trains = scene.stepwise and not scene.evaluating
    # To evaluate with gradients is to keep every batch's graph, whole, until the sum goes.
    evaluates = scene.evaluating and bool(scene.loops) and {"loss", "grad"} <= value.facts
    evaluates = evaluates and not _has_part_without(loop)
    if not (trains or evaluates) or scene.is_test or not _outlives(run, into, loop):
        return
    whole: cst.CSTNode = function.node if function is not None else run.module
    here = backwards(run, whole)
    if not (carriers & here.losses or {"loss", "grad"} <= value.facts):
        if not isinstance(kept, cst.Name) or kept.value not in here.holders:
            return
        how = "within"
    around = backwards(run, run.module) if "." in into else here
    if into not in around.sources and not _is_cut_elsewhere(whole, into):
        run.emit(Accumulate(node, run.scene, value, how, into, kept, _is_renewed(loop, into)))


def keep_sum(run: Interpreter, node: cst.Assign, value: Value, env: Env) -> None:
    """`total = total + loss`, and `self.mean = 0.9 * self.mean + 0.1 * x.mean()`, which `forward` does once a step."""
    target = dotted(node.targets[0].target)
    if target is None or target not in _carriers(node.value):
        return
    added = _beside(node.value, target)
    if added is not None:
        keep(run, node, added, value, "=", target)
        keep_state(run, node, added, value, target, env)


def keep_carried(run: Interpreter, node: cst.Assign, value: Value) -> None:
    """`out, hidden = model(x, hidden)`: the next step's backward goes through this step's graph, which is freed."""
    call, loop, scene = node.value, run.scene.step_loop, run.scene
    if loop is None or type(call) is not cst.Call or scene.no_grad or scene.is_test:
        return
    if not isinstance(loop, cst.For | cst.While):
        return
    if not scene.loops or scene.loops[-1] is not loop or not scene.stepwise or scene.evaluating or scene.tests:
        return
    given = {a.value.value for a in call.args if type(a.value) is cst.Name and not a.star}
    for position, target in enumerate(_parts(node.targets[0].target)):
        name = target.value if type(target) is cst.Name else ""
        part = value.items[position] if value.items is not None and position < len(value.items) else value
        if name not in given or "grad" not in _first(part).facts or not _is_carried(loop, node, name):
            continue
        here = backwards(run, loop)
        others = {n for other in _parts(node.targets[0].target) for n in _targets(other)} - {name}
        if here.losses and others & here.sources:
            run.emit(Accumulate(call, scene, _first(part), "carried", name, call))


def _parts(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a target takes apart; itself, where it is a single one."""
    return [e.value for e in target.elements] if isinstance(target, cst.Tuple | cst.List) else [target]


def _first(value: Value) -> Value:
    """A tensor, or the first of those that a state is made of."""
    return value.items[0] if value.kind is Kind.SEQUENCE and value.items else value


def _is_carried(loop: cst.For | cst.While, assignment: cst.Assign, name: str) -> bool:
    """Whether a name goes from round to round as one assignment leaves it: nothing else binds it, or cuts it off."""
    for node in descendants(loop.body):
        if isinstance(node, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr | cst.CompFor):
            targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
            if node is not assignment and any(name in _targets(t) for t in targets):
                return False
        elif isinstance(node, cst.Attribute) and node.attr.value in _CUTTING and name in _names(node.value):
            return False
        elif isinstance(node, cst.Call) and node is not assignment.value and (dotted(node.func) or "").endswith("_"):
            if name in _names(node):
                return False
    return True


#: What takes a tensor off its graph in place.
_CUTTING = frozenset(["detach_", "data", "requires_grad_"])


def keep_state(
    run: Interpreter, node: cst.CSTNode, kept: cst.BaseExpression, value: Value, into: str, env: Env
) -> None:
    """A Module adds what it computes to its own state: tell it where the graph of every step hangs on it."""
    function, scene = run.frame.function, run.scene
    if scene.role not in ("forward", "loss") or scene.no_grad or scene.is_test or function is None:
        return
    own = f"{run.frame.self_name}."
    if function.owner is None or not into.startswith(own) or _is_bound_by(function.node.body, into):
        return
    if any(_is_cut_elsewhere(cls.node, into) for cls in function.owner.lineage()):
        return
    if any(name.startswith("torchmetrics.") for name in function.owner.kind_names):
        return  # a Metric updates its state without gradients
    code = function.node.body
    names = [n for n in _carriers(kept) if not n.startswith(own) and not _is_without_graph(code, n)]
    carriers = [env.get(name, UNKNOWN) for name in names]
    if value.kind is Kind.TENSOR and "cut" not in value.facts and any(map(_may_hold_a_graph, carriers)):
        run.emit(Accumulate(node, scene, value, "state", into, kept, _is_set_elsewhere(function, into[len(own) :])))


def _has_part_without(loop: cst.CSTNode | None) -> bool:
    """Whether a loop computes under no_grad: what stands beside that hangs on no graph of the model."""
    items = (n for n in descendants(loop) if type(n) is cst.WithItem) if loop is not None else ()
    return any(words(item.item).partition("(")[0].endswith(("no_grad", "inference_mode")) for item in items)


def _is_set_elsewhere(function: Function, name: str) -> bool:
    """Whether another method than the constructor gives the attribute a value, so that it begins anew at times."""
    return function.owner is not None and bool(function.owner.writers_of(name) - {"__init__", function.name})


def _is_without_graph(code: cst.CSTNode, name: str) -> bool:
    """Whether a name holds whole numbers, or what was computed under no_grad and only from itself since."""
    if _COUNTS.search(name):
        return True
    bound = list(_bindings(code, name))
    off = max((i for i, (_, without) in enumerate(bound) if without), default=None)
    if off is not None and all(name in _names(value) for value, _ in bound[off + 1 :]):
        return True
    return bool(bound) and all(_WHOLE.search(words(value)) is not None for value, _ in bound)


#: Names of whole numbers.
_COUNTS = re.compile(r"(?:^|_)(?:len|lens|lengths?|counts?|counter|numel|sizes?)$")
#: What ends in a tensor of whole numbers.
_WHOLE = re.compile(r"\.(?:long|int|bool|argmax|numel)\([^()]*\)$|dtype=torch\.(?:long|int\d*|bool)\b[^()]*\)$")


def _bindings(code: cst.CSTNode, name: str, without: bool = False) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What a piece of code binds a name to, in order, and whether gradients are off there."""
    for node in children(code):
        if isinstance(node, cst.Assign) and any(dotted(t.target) == name for t in node.targets):
            yield node.value, without
        off = isinstance(node, cst.With) and any("no_grad" in words(i.item) for i in node.items)
        yield from _bindings(node, name, without or off)


def _is_cut_elsewhere(code: cst.CSTNode, name: str) -> bool:
    """Whether a piece of code cuts what `name` holds off its graph: `x.detach_()`, `x = x.detach()`, for each part."""
    for node in descendants(code):
        if isinstance(node, cst.Call) and dotted(node.func) == f"{name}.detach_":
            return True
        if isinstance(node, cst.Assign) and any(dotted(t.target) == name for t in node.targets):
            if name in _names(node.value) and next(_carriers(node.value), None) is None and _detaches(node.value):
                return True
    return False


def _detaches(node: cst.CSTNode) -> bool:
    return any(
        isinstance(below, cst.Attribute) and below.attr.value in ("detach", "detach_", "data")
        for below in (node, *descendants(node))
    )


def _may_hold_a_graph(value: Value) -> bool:
    """Whether a value is a tensor with a graph, or one of the caller's, who may train what it comes from."""
    if value.kind is not Kind.TENSOR or "cut" in value.facts:
        return False
    return "grad" in value.facts or any(p.place.where is Where.OF_CALLER for p in value.places)


def _beside(node: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """What a sum adds to `name`, or to a multiple of it."""
    if type(node) is not cst.BinaryOperation or not isinstance(node.operator, cst.Add | cst.Subtract):
        return None
    sides = [side for side in (node.left, node.right) if name not in _carriers(side)]
    return sides[0] if len(sides) == 1 else None


def _carriers(node: cst.BaseExpression) -> Iterator[str]:
    """The names whose graph an expression hangs on; none where it is cut, or where that is not known."""
    name = dotted(node)
    if name is not None:
        if not name.endswith((".data", ".grad")):
            yield name
    elif type(node) is cst.Subscript:
        entry = key_of(node)
        if entry is not None and entry[-2] in "\"'":
            yield entry  # `output["loss"]`
    elif type(node) is cst.BinaryOperation:
        yield from _carriers(node.left)
        yield from _carriers(node.right)
    elif type(node) is cst.UnaryOperation:
        yield from _carriers(node.expression)
    elif isinstance(node, cst.List | cst.Tuple | cst.Dict):
        for element in node.elements:
            yield from _carriers(element.value)
    elif (
        type(node) is cst.Call
        and type(node.func) is cst.Attribute
        and node.func.attr.value in _PASSING
    ):
        yield from _carriers(node.func.value)


def _outlives(run: Interpreter, into: str, loop: cst.CSTNode | None) -> bool:
    """Whether a name is bound outside of the step, so that what it holds is there in the next one."""
    if isinstance(loop, cst.For | cst.While):
        return not _is_bound_by(loop.body, into)
    function = run.frame.function
    if function is None or "." not in into:
        return function is not None and into in run.frame.global_names
    return not _is_bound_by(function.node.body, into)


def _is_renewed(loop: cst.CSTNode | None, name: str) -> bool:
    """Whether the loop sets `name` to a number or an empty list now and then, which frees what it held."""
    if not isinstance(loop, cst.For | cst.While):
        return False
    return any(
        isinstance(node, cst.Assign)
        and any(dotted(t.target) == name for t in node.targets)
        and name not in _names(node.value)
        for node in descendants(loop.body)
    )


def _is_bound_by(body: cst.BaseSuite, name: str) -> bool:
    """Whether every run of a block binds `name` anew."""
    for statement in statements(body):
        if isinstance(statement, cst.With):
            if _is_bound_by(statement.body, name):
                return True
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,):
            if isinstance(small, cst.Assign):
                targets = [t.target for t in small.targets]
            elif isinstance(small, cst.AnnAssign) and small.value is not None:
                targets = [small.target]
            else:
                continue
            if small.value is not None and name in _names(small.value):
                continue  # it grows
            if any(name == dotted(t) or name in assigned_names(t) for t in targets):
                return True
    return False


def backwards(run: Interpreter, code: cst.CSTNode) -> Backwards:
    """What is known of the backward calls in a function or a module, computed once."""
    found = run.backwards.get(code)
    if found is None:
        found = run.backwards[code] = _find(code)
    return found


def _find(code: cst.CSTNode) -> Backwards:
    losses: set[str] = set()
    sources: set[str] = set()
    holders: set[str] = set()
    flows: list[tuple[set[str], set[str]]] = []
    own = set(map(id, _of_scope(code)))
    for node in descendants(code):
        if isinstance(node, cst.Call):
            for given in _backwarded(node):
                sources.update(_names(given))
                if id(node) in own:
                    losses.update(_carriers(given))
                    holders.update(_holder(given))
        elif isinstance(node, cst.Assign):
            flows.append(({n for t in node.targets for n in _targets(t.target)}, set(_names(node.value))))
        elif isinstance(node, cst.AugAssign):
            flows.append((set(_targets(node.target)), set(_names(node.value))))
        elif isinstance(node, (cst.For, cst.CompFor)):
            flows.append((set(_targets(node.target)), set(_names(node.iter))))
    changed = True
    while changed:
        changed = False
        for targets, origins in flows:
            if targets & sources and not origins <= sources:
                sources |= origins
                changed = True
    bound = [name for targets, _ in flows for name in targets]
    once = frozenset(name for name in holders if bound.count(name) == 1)
    return Backwards(frozenset(losses), frozenset(sources), once)


def _holder(loss: cst.BaseExpression) -> Iterator[str]:
    """The name of what holds a loss that backward runs on: `output["loss"]`, `output.loss`."""
    if isinstance(loss, cst.Subscript):
        index = loss.slice[0].slice
        whole = loss.value if isinstance(index, cst.Index) and string(index.value) == "loss" else None
    else:
        whole = loss.value if isinstance(loss, cst.Attribute) and loss.attr.value == "loss" else None
    if isinstance(whole, cst.Name):
        yield whole.value


def _of_scope(code: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of a function or a module, those of functions within it left out: their names are their own."""
    stack = [*children(code)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, cst.FunctionDef | cst.Lambda):
            stack.extend(children(node))


def _backwarded(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The expressions whose backward a call runs."""
    func = call.func
    name = (
        func.attr.value
        if isinstance(func, cst.Attribute)
        else func.value
        if isinstance(func, cst.Name)
        else ""
    )
    if name in _BACKWARD and isinstance(func, cst.Attribute):
        yield from (a.value for a in call.args if a.keyword is None or a.keyword.value in ("loss", "tensors"))
        yield _unscaled(func.value)
    elif "loss_scaler" in name and call.args:
        yield call.args[0].value


def _unscaled(node: cst.BaseExpression) -> cst.BaseExpression:
    """`loss` for `scaler.scale(loss)`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        if node.func.attr.value in ("scale", "scale_loss"):
            return node.args[0].value
    return node


def _targets(node: cst.CSTNode) -> Iterator[str]:
    name = dotted(node)
    if name is not None:
        yield name
    elif isinstance(node, cst.Subscript):
        yield from _targets(node.value)
    else:
        yield from assigned_names(node)


def _names(node: cst.CSTNode) -> Iterator[str]:
    """The names in an expression, dotted ones whole, and with them what they are attributes of."""
    name = dotted(node)
    if name is not None:
        yield name
        while "." in name:
            name = name.rpartition(".")[0]
            yield name
        return
    if isinstance(node, cst.Attribute):
        yield from _names(node.value)
        return
    for child in children(node):
        if not (isinstance(node, cst.Arg) and child is node.keyword):
            yield from _names(child)
