"""What a program's own command line gives where its user says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.syntax import argument, descendants, dotted, literal, string

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter


class Option(NamedTuple):
    """An option that `add_argument` declares. default: its text, where that is one and stays one.

    literal: its default as it is written, where that is a literal; a flag that is switched on is off without it.
    """

    default: str
    node: cst.CSTNode
    literal: str = ""


#: What sets the attributes of a parsed command line otherwise.
_OVERRIDING = frozenset(["set_defaults", "setattr", "update"])


def option_default(run: Interpreter, node: cst.CSTNode) -> Option | None:
    """The default of the option that an expression such as `args.device` reads, if nothing else may set it."""
    name = dotted(node)
    return None if name is None else option_of(run, name)


def option_of(run: Interpreter, name: str) -> Option | None:
    """The option that a dotted name reads, if nothing else may set it."""
    if "." not in name:
        return None
    if run.options is None:
        run.options = _declared(run) if "add_argument" in run.usage.mentions else {}
    owner, _, attribute = name.rpartition(".")
    holder = run.lookup(owner, {}) if "." not in owner else None
    if holder is not None and (holder.ref is not None or holder.places):
        return None
    return run.options.get(attribute)


def _declared(run: Interpreter) -> dict[str, Option]:
    """The options of a file whose default is a text, by the attribute that holds them."""
    found: dict[str, Option] = {}
    for node in descendants(run.module):
        if type(node) is cst.Call:
            called = (dotted(node.func) or "").rpartition(".")[2]
            if called in _OVERRIDING:
                return {}
            if called == "add_argument":
                _add(found, node)
    return {name: option for name, option in found.items() if name not in run.usage.assigned_of_others}


def _add(found: dict[str, Option], call: cst.Call) -> None:
    """Note what one `add_argument` declares; what is declared twice is not known."""
    flags = [text for a in call.args if a.keyword is None and (text := string(a.value)) is not None]
    named = argument(call, "dest")
    long = next((f for f in flags if f.startswith("--")), flags[0] if flags else "")
    attribute = string(named) if named is not None else long.lstrip("-").replace("-", "_")
    default, kind = argument(call, "default"), argument(call, "type")
    text = string(default) if default is not None else None
    if not attribute or any(a.star for a in call.args):
        return
    if attribute in found:
        found[attribute] = Option("", call)
    elif text is None or (kind is not None and dotted(kind) != "str"):
        found[attribute] = Option("", call, _default(call, default))  # a number, or what its type makes of the text
    else:
        found[attribute] = Option(text, default or call, repr(text))


def _default(call: cst.Call, default: cst.BaseExpression | None) -> str:
    """The default of an option that is no text, as it is written."""
    action = argument(call, "action")
    if default is None:
        return "False" if action is not None and string(action) == "store_true" else ""
    return "" if string(default) is not None else literal(default)
