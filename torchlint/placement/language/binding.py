"""What a name, an attribute or the names of a tuple hold from now on."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.hazards.helpers import note_positions
from torchlint.placement.interpreter import (
    Env,
    Interpreter,
    forget_below,
    key_of,
)
from torchlint.placement.syntax import (
    dotted,
    parameters,
)
from torchlint.placement.values import (
    NUMBER,
    Certainty,
    Kind,
    Value,
    element_of,
    sequence,
)


def bind(
    run: Interpreter,
    target: cst.CSTNode,
    value: Value,
    env: Env,
    source: cst.BaseExpression | None,
    *,
    augmented: bool = False,
) -> None:
    """Give the target a value, with all that follows for attributes and containers."""
    kind = type(target)
    if kind is cst.Name:
        name: str = target.value  # type: ignore[attr-defined]
        value = run.with_evidence(name, value, env)
        if value.kind is Kind.UNKNOWN and _is_annotated_number(run, name):
            value = NUMBER
        if not augmented:
            forget_below(name, env)
        env[name] = value
        run.frame.versions[name] += 1
        if name in run.frame.global_names:
            run.globals[name] = value
        if value.places:
            run.bound[target] = value
    elif kind is cst.Attribute:
        _bind_attribute(run, target, value, env, source, augmented)  # type: ignore[arg-type]
    elif kind in (cst.Tuple, cst.List):
        _unpack(run, target, value, env, source)
    elif kind is cst.StarredElement:
        bind(run, target.value, sequence(element=element_of(value)), env, None)  # type: ignore[attr-defined]
    elif kind is cst.Subscript:
        from torchlint.placement.calls.operations import assign_item

        assign_item(run, target, value, env)  # type: ignore[arg-type]


def _is_annotated_number(run: Interpreter, name: str) -> bool:
    """Whether a name is a parameter that its annotation makes a number: what it is bound to is one, too."""
    function, given = run.frame.function, run.frame.parameters.get(name)
    if function is None or given is None or given.kind is not Kind.NUMBER:
        return False
    return any(p.name.value == name and p.annotation is not None for p in parameters(function.node))


def _is_first_of_constructor(run: Interpreter, name: str) -> bool:
    """Whether a constructor gives its object an attribute that it had not: tests of it mean the same in all methods."""
    function = run.frame.function
    if function is None or function.name != "__init__" or name in run.frame.versions:
        return False
    return name.startswith(f"{run.frame.self_name}.") and name.count(".") == 1


def _bind_attribute(
    run: Interpreter,
    target: cst.Attribute,
    value: Value,
    env: Env,
    source: cst.BaseExpression | None,
    augmented: bool,
) -> None:
    name = key_of(target)
    if target.attr.value == "requires_grad":
        _require_grad(run, target.value, source, env)
    if name is not None:
        value = run.with_evidence(name, value, env)
        forget_below(name, env)
        env[name] = value
        first = _is_first_of_constructor(run, name)
        run.frame.versions[name] += 0 if first else 1
        if value.places:
            run.bound[target] = value
    if target.attr.value == "data":
        _replace_data(target.value, value, env)
    if run.frame.function is not None:
        run.frame.function.writes = run.frame.function.changes = True
    owner = run.frame.function.owner if run.frame.function is not None else None
    if owner is not None and type(target.value) is cst.Name and target.value.value == run.frame.self_name:
        from torchlint.placement.definitions.classes import assign_attribute

        assign_attribute(run, owner, target, value, source, env, augmented)
    elif type(target.value) is cst.Name or type(target.value) is cst.Attribute:
        from torchlint.placement.definitions.classes import assign_foreign_attribute

        assign_foreign_attribute(run, target, value, env)


def _replace_data(node: cst.CSTNode, value: Value, env: Env) -> None:
    """`x.data = y` puts `x` where `y` is."""
    name = dotted(node)
    held = env.get(name) if name is not None else None
    if name is not None and held is not None and held.kind is Kind.TENSOR:
        env[name] = held.but(places=value.places)


def _require_grad(run: Interpreter, node: cst.CSTNode, source: cst.BaseExpression | None, env: Env) -> None:
    """`x.requires_grad = True` makes a leaf of a tensor that was computed from nothing."""
    name = dotted(node)
    held = env.get(name) if name is not None else None
    if name is None or held is None or held.kind is not Kind.TENSOR or source is None or dotted(source) != "True":
        return
    if "grad" not in held.facts:
        env[name] = held.but(facts=held.facts | {"grad", "leaf"})


def _unpack(
    run: Interpreter, target: cst.CSTNode, value: Value, env: Env, source: cst.BaseExpression | None = None
) -> None:
    elements = target.elements  # type: ignore[attr-defined]
    if (
        value.items is None
        and type(source) is cst.Tuple
        and not any(type(e) is cst.StarredElement for e in elements)
    ):
        # `b, n, device = *x.shape, x.device`: what follows the last star goes to the last targets.
        given = [e.value for e in reversed(source.elements)]
        stars = [i for i, e in enumerate(reversed(source.elements)) if type(e) is cst.StarredElement]
        for element, node in zip(reversed(elements), given[: stars[0]] if stars else []):
            bind(run, element.value, run.evaluate(node, env), env, node)
        elements = elements[: len(elements) - stars[0]] if stars else elements
    if any(type(e) is cst.StarredElement for e in elements):
        note_positions(run, value)
    starred = next((i for i, e in enumerate(elements) if type(e) is cst.StarredElement), None)
    for position, element in enumerate(elements):
        if (value.items is not None and starred is None and len(value.items) == len(elements)) or (
            value.items is not None
            and starred is not None
            and position < starred
            and position < len(value.items)
        ):
            part = value.items[position]
        elif value.items is not None and starred is not None and position > starred:
            part = (
                value.items[position - len(elements)]
                if len(value.items) >= len(elements) - 1
                else element_of(value)
            )
        elif "batch" in value.facts:
            part = Value(Kind.UNKNOWN, value.places, Certainty.INFERRED, facts=frozenset({"collated"}))
        else:
            part = element_of(value)
        bind(
            run,
            element if type(element) is cst.StarredElement else element.value,
            part if type(element) is not cst.StarredElement else value,
            env,
            None,
        )
