"""What becomes of the result of a move: dropped with its statement, bound to what nothing reads, bound in vain."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.placement.events import Move, Use
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import assigned_names, children, descendants, dotted, words
from torchlint.placement.values import Certainty, Kind

_MOVES = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "type_as",
        "xpu",
        "mps",
        "npu",
        "hpu",
    ]
)
#: Methods that give another copy, which is dropped with the moved one.
_CASTS = _MOVES | {"long", "int", "bool", "short", "contiguous", "detach", "clone"}


def mark_dropped(run: Interpreter, call: cst.Call, env: Env, row: cst.Tuple | None) -> None:
    """A call is a statement of its own, or stands in a tuple that is: nothing keeps its result."""
    if run.scene.expects_error:
        return
    run.move_uses[call] = Use.DROPPED if _is_held(run, call, env) else Use.TEMPORARY
    if row is not None:
        run.rows[call] = row
    inner = _moved_inside(call)
    if inner is not None:
        # `x.cuda().zero_()`: what changes the copy in place changes nothing that is kept.
        run.move_uses[inner] = run.move_uses[call]
        run.move_uses[call] = Use.TEMPORARY


def _moved_inside(call: cst.Call) -> cst.Call | None:
    """The move in a dropped chain of methods that do no more than change or copy the moved copy."""
    outer, found = call, None
    while type(outer.func) is cst.Attribute and type(outer.func.value) is cst.Call:
        name = outer.func.attr.value
        if not (name in _CASTS or (name.endswith("_") and not name.startswith("_"))):
            return None
        outer = outer.func.value
        if type(outer.func) is cst.Attribute and outer.func.attr.value in _MOVES:
            found = outer
    return found


def _is_held(run: Interpreter, call: cst.Call, env: Env) -> bool:
    """Whether a variable holds what a method is called on, or what that was derived from by other methods."""
    held: cst.CSTNode = call.func
    while type(held) is cst.Attribute or type(held) is cst.Subscript:
        held = held.value
        if type(held) is cst.Call:
            held = held.func
            if type(held) is cst.Name:
                return False  # what a function gives is held by nothing
    if type(call.func) is not cst.Attribute or type(held) is not cst.Name:
        return False
    value = run.lookup(held.value, env)
    return value is None or value.kind not in (Kind.API, Kind.FUNCTION, Kind.CLASS)


def mark_dropped_elements(run: Interpreter, comprehension: cst.BaseComp) -> None:
    """`[t.to(device) for t in tensors]` as a statement: nothing keeps the moved elements."""
    if run.scene.expects_error:
        return
    element = comprehension.value if isinstance(comprehension, cst.DictComp) else None
    if isinstance(comprehension, cst.BaseSimpleComp):
        element = comprehension.elt
    moved = _receiver(element) if type(element) is cst.Call else None
    if moved is not None and element is not None and moved in assigned_names(comprehension.for_in.target):
        run.move_uses[element] = Use.DROPPED


def mark_never_run(run: Interpreter, call: cst.Call) -> None:
    """`map(lambda t: t.to(device), tensors)` as a statement: `map` waits to be gone through, so that nothing moves.

    Not even a Module would, whatever it is that is moved.
    """
    function = call.args[0].value if type(call.func) is cst.Name and call.func.value == "map" and call.args else None
    if type(function) is not cst.Lambda or run.scene.expects_error:
        return
    moved, event = _receiver(function.body), run.events.get((Move, function.body))
    if isinstance(event, Move) and moved in {p.name.value for p in function.params.params}:
        event.use = Use.NEVER
        event.value = event.value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED)


def _receiver(call: cst.BaseExpression) -> str | None:
    """The name on which a move is called; None for anything else."""
    if type(call) is cst.Call and type(call.func) is cst.Attribute and call.func.attr.value in _MOVES:
        return dotted(call.func.value)
    return None


def mark_unread(run: Interpreter, node: cst.Assign) -> None:
    """Mark `x = x.to(device)` in a function that does not read `x` afterwards: its caller's stays where it is."""
    function = run.frame.function
    if function is None or len(node.targets) != 1:
        return
    target, value = node.targets[0].target, node.value
    if type(value) is not cst.Call and type(value) is not cst.Tuple:
        return
    targets = [e.value for e in target.elements] if type(target) is cst.Tuple else [target]
    values = [e.value for e in value.elements] if type(value) is cst.Tuple else [value]
    if len(targets) != len(values):
        return
    for name_node, call in zip(targets, values, strict=True):
        name = dotted(name_node)
        if name is None or "." in name or _receiver(call) != name or name in run.frame.global_names:
            continue
        if name in function.parameters and _reads(function.node, name) == 1:
            run.move_uses[call] = Use.UNREAD
            function.rebinds = True


def _reads(function: cst.FunctionDef, name: str) -> int:
    """How often a function mentions a name otherwise than by binding it; what asks for all its names counts, too."""
    count = 0
    for node in descendants(function.body):
        kind = type(node)
        if kind is cst.Name and node.value == name:  # type: ignore[attr-defined]
            count += 1
        elif kind is cst.AssignTarget:
            count -= sum(n == name for n in assigned_names(node.target))  # type: ignore[attr-defined]
        elif kind is cst.Name and node.value in ("locals", "vars"):  # type: ignore[attr-defined]
            count += 2
    return count


#: Names of what gives batches.
_LOADS = re.compile(r"load|_iter\b|\bbatches\b|\bdl\b", re.IGNORECASE)


def _has_rows_of_rows(target: cst.BaseAssignTargetExpression) -> bool:
    """`i, (x, y)`: a number, and the parts of a batch."""
    return type(target) is cst.Tuple and any(type(part.value) is cst.Tuple for part in target.elements)


def mark_loop_variable(run: Interpreter, loop: cst.For) -> None:
    """Mark `for t in xs: …; t = t.to(d)` where nothing reads `t` afterwards: `xs` keeps the old one.

    What a loader gives is made anew for each round, and nobody looks for it there.
    """
    names = set(assigned_names(loop.target))
    if _LOADS.search(words(loop.iter)) is not None or _has_rows_of_rows(loop.target):
        return
    used = run.frame.usage.attributes
    if all(_MOVES.isdisjoint(used.get(name, ())) for name in names):
        return
    last: cst.CSTNode | None = loop
    while isinstance(last, cst.For | cst.If):
        if last.orelse is not None:
            return
        if type(last.body) is not cst.IndentedBlock:
            last = last.body
            break
        last = next((s for s in reversed(last.body.body) if _mentions(s, names)), None)
    if not isinstance(last, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        return
    if type(last.body[-1]) is not cst.Assign:
        return
    assignment = last.body[-1]
    target, value = assignment.targets[0].target, assignment.value
    name = dotted(target)
    if len(assignment.targets) != 1 or name is None or _receiver(value) != name:
        return
    if name not in names:
        return
    scope = run.frame.function.node.body if run.frame.function is not None else run.module
    if not _occurs_outside(scope, name):
        run.move_uses[value] = Use.LOOP_VARIABLE


def _mentions(node: cst.CSTNode, names: set[str]) -> bool:
    return any(type(n) is cst.Name and n.value in names for n in descendants(node))


def _occurs_outside(node: cst.CSTNode, name: str) -> bool:
    """Whether a name occurs other than in loops and comprehensions that bind it themselves."""
    if type(node) is cst.Name:
        return node.value == name
    if type(node) is cst.Attribute or type(node) is cst.Arg:
        return _occurs_outside(node.value, name)
    if type(node) is cst.For and name in assigned_names(node.target):
        return _occurs_outside(node.iter, name)
    if isinstance(node, cst.BaseComp) and name in assigned_names(node.for_in.target):
        return False
    return any(_occurs_outside(child, name) for child in children(node))
