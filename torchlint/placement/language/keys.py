"""Going through a container: whether there is a first round, what each gives, what is left once all was replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.syntax import assigned_names, descendants, dotted, words
from torchlint.placement.values import Certainty, Kind, Value, element_of

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter


def round_of(
    run: Interpreter, source: cst.BaseExpression, target: cst.CSTNode, value: Value, *bodies: cst.CSTNode
) -> Value:
    """What going through `value` gives each time: keys, where the bodies look things up in it by them.

    `{key: features[key] for key in features}`
    """
    name = dotted(source)
    if value.kind is not Kind.UNKNOWN or name is None or name not in run.frame.usage.indexed:
        return element_of(value)
    bound = set(assigned_names(target))
    for body in bodies:
        for node in descendants(body):
            if type(node) is cst.Subscript and dotted(node.value) == name and _names_in(node.slice) & bound:
                return Value(Kind.STRING)
    return element_of(value)


def _names_in(index: Sequence[cst.CSTNode]) -> set[str]:
    return {n.value for part in index for n in descendants(part) if type(n) is cst.Name}


#: Ways to go through a container, each place once: itself, its keys or items, its positions.
_EACH = re.compile(r"(?:(?:list|tuple|sorted|enumerate|range|len|tqdm)\()*([\w.]+?)(?:\.(?:keys|items)\(\))?\)*$")


def replace_all(run: Interpreter, loop: cst.For, env: Env) -> None:
    """What a container holds once a loop through it has replaced each of its tensors.

    `for key in batch: batch[key] = batch[key].to(device)`
    """
    through = _EACH.match(words(loop.iter))
    held = env.get(through[1]) if through is not None else None
    if through is None or held is None or held.kind not in (Kind.OWNED, Kind.MAPPING, Kind.SEQUENCE):
        return
    bound = set(assigned_names(loop.target))
    for target, value in run.frame.replaced.items():
        if dotted(target.value) != through[1] or not _names_in(target.slice) & bound or value.kind is not Kind.TENSOR:
            continue
        if any(node is target for node in descendants(loop.body)):
            always = any(_assigns(line, target) for line in loop.body.body)
            element = value if always else value.but(certainty=Certainty.GUESSED)  # which ones were left is open
            env[through[1]] = held.but(element=element, items=None, keys=None)


def _assigns(line: cst.CSTNode, target: cst.Subscript) -> bool:
    return type(line) is cst.SimpleStatementLine and any(node is target for node in descendants(line))


#: What goes through what it is given.
_THROUGH = frozenset(["enumerate", "reversed", "zip", "list", "range", "len"])


def goes_over_some(run: Interpreter, source: cst.BaseExpression) -> bool:
    """Whether a loop has a first round: it goes over things at hand, or over the layers of the Module itself."""
    kind = type(source)
    if kind in (cst.Tuple, cst.List):
        return bool(source.elements)  # type: ignore[attr-defined]
    if kind is cst.Call:
        given = source.args if (dotted(source.func) or "") in _THROUGH else ()  # type: ignore[attr-defined]
        return bool(given) and all(a.star == "" and goes_over_some(run, a.value) for a in given)
    if kind is cst.Integer:
        return int(source.value, 0) > 0  # type: ignore[attr-defined]
    function = run.frame.function
    if kind not in (cst.Attribute, cst.Subscript) or function is None or function.owner is None:
        return False
    return function.owner.is_module and words(source).startswith(f"{run.frame.self_name}.")
