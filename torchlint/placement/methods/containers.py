"""Methods of lists, dicts, devices, strings and arrays."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.events import (
    Attribute,
)
from torchlint.placement.evidence.flags import as_flag
from torchlint.placement.hazards.comparisons import note_text_method
from torchlint.placement.hazards.graphs import keep, keeper_of
from torchlint.placement.hazards.syncs import emit_sync
from torchlint.placement.hazards.texts import composed
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import dotted, string
from torchlint.placement.values import (
    ARRAY,
    DOUBLES,
    NUMBER,
    UNKNOWN,
    Kind,
    Value,
    element_of,
    join,
    sequence,
)

#: How a list grows by one.
GROWING = frozenset(["append", "appendleft", "insert"])


def sequence_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    key = dotted(func.value)
    if name in ("append", "add", "appendleft", "extend", "insert") and arguments.positional:
        given = arguments.positional[-1].value
        if name == "extend":
            given = element_of(given)
        if key is not None:
            old = value.element
            grown = value.but(element=given if old is None else join(old, given), items=None)
            env[key] = grown
            if (
                "." in key
                and run.frame.function is not None
                and run.frame.function.owner is not None
                and key.startswith(f"{run.frame.self_name}.")
            ):
                owner = run.frame.function.owner
                attribute = key.split(".", 1)[1]
                if attribute in owner.attributes:
                    owner.attributes[attribute] = grown
                    run.emit(
                        Attribute(
                            node, run.scene, owner, attribute, grown, "append", arguments.positional[-1].node
                        )
                    )
        kept = arguments.positional[-1].node
        if name in GROWING and isinstance(kept, cst.BaseExpression):
            keep(run, node, kept, given, name, keeper_of(func.value))
        if run.frame.function is not None:
            run.frame.function.writes = True
            run.frame.function.changes |= "made" not in value.facts
        return UNKNOWN
    if name in ("pop", "popleft", "get"):
        return element_of(value)
    if name in ("copy", "__iter__"):
        return value
    if name in ("index", "count"):
        return NUMBER
    return UNKNOWN


def mapping_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    element = value.element or Value(Kind.UNKNOWN, value.places)
    if name == "items":
        return sequence(element=sequence((Value(Kind.STRING), element)))
    if name == "values":
        return sequence(element=element)
    if name == "keys":
        return sequence(element=Value(Kind.STRING))
    if name in ("get", "pop", "setdefault"):
        key = string(arguments.positional[0].node) if arguments.positional else None
        if key is not None and value.keys and key in value.keys:
            return value.keys[key]
        return as_flag(element, key or "")
    if name == "copy":
        return value
    if name in ("to", "cuda", "cpu"):
        # A plain dict has none: this is a batch class that moves itself or returns the moved.
        return value
    if name == "update" and arguments.positional:
        key = dotted(func.value)
        given = arguments.positional[0].value
        if key is not None and given.kind is Kind.MAPPING:
            env[key] = value.but(
                element=join(value.element, given.element) if value.element is not None else given.element
            )
    return UNKNOWN


def device_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    note_text_method(run, node, name, value)
    if name in ("startswith", "endswith", "__eq__", "find"):
        return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
    if value.kind is Kind.STRING:
        return (
            Value(Kind.STRING)
            if name not in ("split", "splitlines")
            else sequence(element=Value(Kind.STRING))
        )
    return UNKNOWN


def string_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if name in ("startswith", "endswith"):
        given = arguments.value("prefix", 0)
        text = given.name if given is not None else None
        if text and text.split(":")[0] in ("cuda", "mps", "xpu", "cpu", "gpu"):
            return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
        return NUMBER
    named = composed(run, node, env) if name == "format" and value.name else None
    if named is not None:
        return named
    if name == "format" and value.name and value.name.split(":")[0] in ("cuda", "mps", "xpu"):
        return Value(Kind.STRING, name=value.name, facts=frozenset({"formatted"}))
    if name == "format":
        for operand in arguments.all():
            emit_sync(run, operand.node, "format", operand.value, hidden=True)
    return Value(Kind.STRING) if name not in ("split", "splitlines") else sequence(element=Value(Kind.STRING))


def array_method(
    run: Interpreter,
    node: cst.Call,
    func: cst.Attribute,
    name: str,
    value: Value,
    arguments: Arguments,
    env: Env,
) -> Value:
    if (
        name
        in ("item", "tolist", "mean", "sum", "max", "min", "std", "argmax", "argmin", "any", "all", "prod")
        and not arguments.all()
    ):
        return NUMBER.at(value.places)
    kept = name in ("copy", "reshape", "squeeze", "flatten", "ravel", "transpose") and "float64" in value.facts
    return (DOUBLES if kept else ARRAY).at(value.places)
