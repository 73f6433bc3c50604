"""Texts that name devices: what they come to where the code says so, and which of them torch refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.devices import is_vendor
from torchlint.placement.events import DeviceText
from torchlint.placement.evidence.options import option_default
from torchlint.placement.syntax import dotted, mentions, string
from torchlint.placement.values import VENDORS, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter

#: Types of devices, whose texts have an index or none
#: (c10/core/Device.cpp: `parse_type`, and `Device(const std::string&)` for the index).
_TYPES = VENDORS | {"cpu", "meta", "gpu"}
_INDEX = re.compile(r"0|[1-9]\d*")
#: What is no type of a device, and taken for one: a bare number, a vendor's name, a type in capitals or with a number.
_MISTAKEN = re.compile(r"\d+|gpu|nvidia|None|(?:CUDA|CPU|GPU|MPS)|(?:cuda|gpu)\d+")


class Known(NamedTuple):
    """What a text comes to. default: the option's or parameter's default that it takes that from, if any."""

    text: str
    default: cst.CSTNode | None = None
    name: str = ""


def is_refused(text: str) -> bool:
    """Whether torch takes a text for no device, whatever the machine has."""
    kind, colon, index = text.partition(":")
    if _MISTAKEN.fullmatch(kind):
        return True
    return kind in _TYPES and bool(colon) and _INDEX.fullmatch(index) is None


def known_text(run: Interpreter, node: cst.CSTNode, env: Env) -> Known | None:
    """What an expression's text is, put together from literals and defaults; None where that is not known."""
    literal = string(node)
    if literal is not None:
        return Known(literal)
    if type(node) is cst.FormattedString:
        parts = [
            Known(p.value) if type(p) is cst.FormattedStringText else _formatted(run, p, env) for p in node.parts
        ]
        return _joined(parts)
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Add:
        return _joined([known_text(run, node.left, env), known_text(run, node.right, env)])
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Modulo:
        return _filled(known_text(run, node.left, env), re.compile("%[sd]"), known_text(run, node.right, env))
    if type(node) is cst.Call and len(node.args) == 1 and not node.args[0].star:
        given = node.args[0].value
        if dotted(node.func) == "str":
            return known_text(run, given, env)
        if type(node.func) is cst.Attribute and node.func.attr.value == "format":
            return _filled(known_text(run, node.func.value, env), re.compile(r"\{0?\}"), known_text(run, given, env))
    return _named(run, node, env)


def _formatted(run: Interpreter, part: cst.CSTNode, env: Env) -> Known | None:
    plain = type(part) is cst.FormattedStringExpression and part.format_spec is None and part.conversion is None
    return known_text(run, part.expression, env) if plain else None  # type: ignore[attr-defined]


def _joined(parts: list[Known | None]) -> Known | None:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    default = next((p for p in known if p.default is not None), None)
    text = "".join(p.text for p in known)
    return Known(text) if default is None else default._replace(text=text)


def _filled(pattern: Known | None, gap: re.Pattern[str], given: Known | None) -> Known | None:
    """A text whose only gap is filled."""
    if pattern is None or given is None or len(gap.findall(pattern.text)) != 1:
        return None
    start, _, end = gap.sub("\0", pattern.text).partition("\0")
    return given._replace(text=f"{start}{given.text}{end}")


def _named(run: Interpreter, node: cst.CSTNode, env: Env) -> Known | None:
    """What a name holds, or what an option or a parameter does where nobody gives it."""
    name = dotted(node)
    if name is None:
        return None
    if any(mentions(condition, {name}) for condition, _ in run.scene.conditions):
        return None  # the code tells it apart
    value = env.get(name) or (run.lookup(name, env) if "." not in name else None)
    function = run.frame.function
    if function is not None and name in function.parameters:
        given = function.defaults.get(name)
        if given is None or value is not run.frame.parameters.get(name) or not _is_text(given):
            return None
        return Known(given.name or "", function.node, name)
    if value is not None and _is_text(value):
        return Known(value.name or "")
    option = option_default(run, node)
    return Known(option.default, option.node, name) if option is not None and option.default else None


def _is_text(value: Value) -> bool:
    return value.kind is Kind.STRING and bool(value.name) and "formatted" not in value.facts


def composed(run: Interpreter, node: cst.BaseExpression, env: Env) -> Value | None:
    """The value of a text that is put together to name a device, and names none; None where all is well."""
    known = known_text(run, node, env)
    if known is None or not is_refused(known.text) or known.text.partition(":")[0] not in _TYPES:
        return None
    run.texts[node] = DeviceText(node, run.scene, known.text, known.name, known.default)
    kind = known.text.partition(":")[0]
    facts = frozenset({"formatted", "refused"})
    return Value(Kind.STRING, name=f"{kind}:" if is_vendor(kind) else None, facts=facts, ref=node)


def note_text(run: Interpreter, value: Value) -> None:
    """A text is used as a device that torch refuses."""
    if "refused" in value.facts and value.ref in run.texts:
        run.emit(run.texts[value.ref])


def note_device_text(run: Interpreter, node: cst.BaseExpression, value: Value, env: Env) -> None:
    """What a function of torch gets as a device and nothing else."""
    if "refused" in value.facts:
        note_text(run, value)
        return
    known = known_text(run, node, env)
    if known is not None and is_refused(known.text):
        run.emit(DeviceText(node, run.scene, known.text, known.name, known.default))
    kind, colon, _ = _start(node).partition(":") if known is None else ("", "", "")
    if colon and _MISTAKEN.fullmatch(kind):
        run.emit(DeviceText(node, run.scene, f"{kind}:…"))  # whatever the index turns out to be


def _start(node: cst.CSTNode) -> str:
    """What a text begins with, as far as it stands in the code."""
    literal = string(node)
    if literal is not None:
        return literal
    if type(node) is cst.FormattedString:
        first = next(iter(node.parts), None)
        return first.value if type(first) is cst.FormattedStringText else ""
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Add:
        return _start(node.left)
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Modulo:
        return _start(node.left).partition("%")[0]
    if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "format":
        return _start(node.func.value).partition("{")[0]
    return ""
