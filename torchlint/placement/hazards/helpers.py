"""Move helpers: functions of the project whose only purpose is to hand back moved copies."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.events import Filter
from torchlint.placement.interpreter import Interpreter
from torchlint.placement.syntax import children, dotted, statements, words
from torchlint.placement.values import Kind, Value

#: Builtins that make a container of what they are given.
_MAKERS = frozenset(["dict", "list", "tuple", "set", "OrderedDict", "type"])


def helper_style(function: Function) -> str:
    """What a function that only moves hands back.

    `container`: a new container of moved copies. `value`: the moved copy of its argument, which is the argument
    itself if that is a Module. `rebinds`: nothing; it binds its own name for the argument to the moved copy.
    Empty: the function does something else, or not only that.
    """
    if function.rebinds and not function.changes and not function.generator:
        return "rebinds" if all(value.kind is Kind.NONE for _, value in function.returns) else ""
    if not function.moves_values or function.changes or function.generator or function.moved:
        return ""
    if function.run.usage.of(function.node).trains:
        return ""
    styles = {_style(function, node, value) for node, value in function.returns}
    if "other" in styles:
        return ""
    return "value" if "value" in styles else "container" if "container" in styles else ""


def _style(function: Function, node: cst.CSTNode, value: Value) -> str:
    """How one exit fits: `container`, `value`, `neutral` (what says nothing) or `other`."""
    returned = node.value if isinstance(node, cst.Return) else None
    if returned is None or value.kind in (Kind.NONE, Kind.STRING, Kind.NUMBER):
        return "neutral"
    if type(returned) is cst.Name and returned.value == _receiver(function):
        return "other"
    if type(returned) is cst.Tuple:
        return "container" if any(map(_may_be_moved, value.items or ())) else "other"
    if "made" in value.facts or _makes_container(returned):
        return "container"
    if "fresh" in value.facts:
        return "value"
    if type(returned) is cst.Name and returned.value in function.parameters:
        # On one of the ways to the exit its name was bound to the moved copy.
        return "value" if any(p.place.is_named for p in value.places) else "neutral"
    called = type(returned) is cst.Call and (dotted(returned.func) or "").rsplit(".", 1)[-1]
    if called == function.name:
        return "neutral"
    if value.kind is Kind.OBJECT and called and function.owner is not None and value.ref is function.owner:
        return "container"
    return "other"


def _may_be_moved(value: Value) -> bool:
    return "fresh" in value.facts or value.kind in (Kind.TENSOR, Kind.SEQUENCE, Kind.MAPPING)


def _receiver(function: Function) -> str:
    parameters = [*function.node.params.posonly_params, *function.node.params.params]
    return parameters[0].name.value if function.owner is not None and parameters else ""


def _makes_container(node: cst.BaseExpression) -> bool:
    if type(node) is not cst.Call:
        return False
    if type(node.func) is cst.Call:
        return dotted(node.func.func) == "type"
    return (dotted(node.func) or "").rsplit(".", 1)[-1] in (*_MAKERS, "__class__")


def makes_a_copy(node: cst.Call) -> bool:
    """Whether a call of something unknown can do no more than make a new value: `type(batch)(…)`."""
    return _makes_container(node)


# ---------------------------------------------------------------------- filters


def note_filter(run: Interpreter, node: cst.BaseComp, element: cst.BaseExpression, result: Value) -> Value:
    """Emit a `Filter` where a comprehension moves its elements and leaves out those that can't be moved."""
    clause = node.for_in
    name = dotted(clause.target)
    if clause.inner_for_in is not None or name is None:
        test = next((t for t in clause.ifs), None)
        name = _tested(test.test) if test is not None else None
    if name is None or not any(_tested(t.test) == name for t in clause.ifs) or not _moves(element, name):
        return result
    how = next(words(t.test).partition("(")[0] for t in clause.ifs if _tested(t.test) == name)
    run.emit(Filter(node, run.scene, how, result))
    return result.but(facts=result.facts | {"filtered"}, ref=node)


def _tested(test: cst.BaseExpression) -> str | None:
    """`x` in `hasattr(x, "to")`, `isinstance(x, torch.Tensor)` and `torch.is_tensor(x)`."""
    if type(test) is not cst.Call or not test.args:
        return None
    if (dotted(test.func) or "").rsplit(".", 1)[-1] not in ("hasattr", "isinstance", "is_tensor"):
        return None
    return dotted(test.args[0].value)


def _moves(node: cst.CSTNode, name: str) -> bool:
    if (
        type(node) is cst.Call
        and type(node.func) is cst.Attribute
        and node.func.attr.value in ("to", "cuda", "cpu")
    ):
        return dotted(node.func.value) == name
    return any(_moves(child, name) for child in children(node))


def note_nested(run: Interpreter, function: Function, bound: dict[str, Value]) -> None:
    """A call of a helper that moves the tensors of a container passes one that holds others: those it leaves alone."""
    if function.run is not run or run.scene.is_test:
        return
    body = statements(function.node.body)
    last = body[-1].body[-1] if body and type(body[-1]) is cst.SimpleStatementLine else None
    made = last.value if type(last) is cst.Return else None
    if not isinstance(made, cst.DictComp | cst.ListComp) or made.for_in.inner_for_in is not None:
        return
    chosen = made.value if isinstance(made, cst.DictComp) else made.elt
    source = dotted(made.for_in.iter) if type(made.for_in.iter) is not cst.Call else dotted(made.for_in.iter.func)
    given = bound.get((source or "").removesuffix(".items"))
    if type(chosen) is not cst.IfExp or given is None:
        return
    name = dotted(chosen.orelse)
    if name is None or _tested(chosen.test) != name or not _moves(chosen.body, name):
        return
    parts = [*(given.keys or {}).values(), *(given.items or ())]
    if any(p.kind in (Kind.SEQUENCE, Kind.MAPPING) and "made" in p.facts and _holds_data(p) for p in parts):
        run.emit(Filter(chosen, run.scene, "nested", given))


def _holds_data(value: Value) -> bool:
    """Whether a container holds tensors, or parts of what a caller or a loader gave."""
    inner = [*(value.items or ()), *(value.keys or {}).values()]
    return any(v.kind is Kind.TENSOR or (v.kind is Kind.UNKNOWN and v.places) for v in inner)


def note_positions(run: Interpreter, value: Value) -> None:
    """What a filter left over is taken apart by position, so that what it left out shifts the rest."""
    if "filtered" in value.facts:
        event = run.events.get((Filter, value.ref))
        if isinstance(event, Filter):
            event.by_position = True
