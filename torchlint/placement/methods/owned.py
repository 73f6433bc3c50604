"""Methods of what a framework owns or has prepared."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.events import (
    Backward,
    Move,
    Use,
)
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.methods.containers import mapping_method
from torchlint.placement.methods.moves import MOVES, PLACING, target_of
from torchlint.placement.syntax import dotted
from torchlint.placement.values import (
    UNKNOWN,
    Kind,
    Value,
    sequence,
    with_rank,
)


def owned_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if name in MOVES:
        key = dotted(func.value)
        moved = value
        if name in PLACING and value.element is not None:
            target, _ = target_of(run, node, name, value, arguments)
            if target is not None:
                moved = value.but(element=value.element.at(with_rank(target, 1)))
        run.emit(
            Move(
                node,
                run.scene,
                name,
                func.value,
                value,
                moved,
                name in PLACING,
                use=run.move_uses.get(node, Use.USED),
            )
        )
        if key is not None:
            env[key] = moved
        return moved
    if name in ("items", "values", "keys", "get", "pop"):
        return mapping_method(
            run, node, func, name, Value(Kind.MAPPING, element=value.element), arguments, env
        )
    if name == "backward":
        passed = arguments.find("loss", 0)
        loss = passed.node if passed is not None and isinstance(passed.node, cst.BaseExpression) else None
        what = passed.value if passed is not None else UNKNOWN
        run.emit(Backward(node, run.scene, what, owner=value.name or "framework", loss=loss))
        return UNKNOWN
    if name == "prepare":
        given = [o.value for o in arguments.positional]
        made = tuple(prepared(v) for v in given)
        return made[0] if len(made) == 1 else sequence(made)
    if name in ("decode", "batch_decode", "encode") and name != "encode":
        return Value(Kind.STRING)
    wanted = arguments.value("return_tensors")
    if wanted is not None and wanted.name == "pt":
        from torchlint.placement.calls.dispatch import batch_encoding

        return batch_encoding(node)
    return UNKNOWN


def prepared(value: Value) -> Value:
    """What `accelerator.prepare` gives: a Module that moves its inputs, a loader whose batches are moved."""
    if value.kind is Kind.MODULE:
        return value.but(places=(), facts=value.facts | {"wrapped"}, ref=None)
    if value.kind is Kind.LOADER:
        return Value(Kind.LOADER)
    if value.kind is Kind.OPTIMIZER:
        return value.but(facts=value.facts | {"owned"})
    return Value(Kind.UNKNOWN)
