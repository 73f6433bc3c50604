"""Small readings of LibCST nodes: semantic children, dotted names, conditions, literals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator

import libcst as cst

# Fields that hold only white space and punctuation; walking them costs more than the rest of a tree.
_PUNCTUATION = (
    "whitespace", "lpar", "rpar", "comma", "semicolon", "leading_lines", "lbrace", "rbrace", "lbracket", "rbracket",
    "equal", "dot", "header", "footer", "lines_after", "indent", "colon", "newline", "first_colon", "second_colon",
    "trailing", "star", "asynchronous",
)  # fmt: skip


class _SemanticFields(dict[type, tuple[str, ...]]):
    """The fields that hold code, by node type; nothing for what is no node, or holds only a word or a number."""

    def __missing__(self, node_type: type) -> tuple[str, ...]:
        fields: tuple[str, ...] = ()
        if issubclass(node_type, cst.CSTNode) and dataclasses.is_dataclass(node_type):
            fields = tuple(f.name for f in dataclasses.fields(node_type) if not f.name.startswith(_PUNCTUATION))
        if node_type in _WORDS or issubclass(node_type, (cst.BaseBinaryOp, cst.BaseCompOp, cst.BaseUnaryOp)):
            fields = ()
        if node_type is cst.Name:
            fields = ("value",)
        self[node_type] = fields
        return fields


_WORDS = frozenset(
    [cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.Pass, cst.Break, cst.Continue, cst.Comment]
)
_FIELDS = _SemanticFields()
#: The fields of a node type that hold code, in order.
semantic_fields: Callable[[type], tuple[str, ...]] = _FIELDS.__getitem__


class _IsNode(dict[type, bool]):
    """Whether a type is one of nodes: `isinstance` asks LibCST's abstract classes, which take their time."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = known = issubclass(kind, cst.CSTNode)
        return known


_is_node: Callable[[type], bool] = _IsNode().__getitem__


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes below that hold code."""
    found: list[cst.CSTNode] = []
    for field in semantic_fields(type(node)):
        child = getattr(node, field)
        kind = type(child)
        if _is_node(kind):
            found.append(child)
        elif kind is list or kind is tuple:
            found += child
    return found


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all below it, outermost first."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        # Written out rather than by `children`: a good part of all time is spent here.
        for field in reversed(semantic_fields(type(top))):
            child = getattr(top, field)
            kind = type(child)
            if _is_node(kind):
                stack.append(child)
            elif kind is list or kind is tuple:
                stack += child[::-1]


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` for names and attributes of names, None for anything else."""
    kind = type(node)
    if kind is cst.Name:
        return node.value  # type: ignore[attr-defined, no-any-return]
    if kind is not cst.Attribute:
        return None
    text: str = node.attr.value  # type: ignore[attr-defined]
    node = node.value  # type: ignore[attr-defined]
    while type(node) is cst.Attribute:
        text = f"{node.attr.value}.{text}"
        node = node.value
    return f"{node.value}.{text}" if type(node) is cst.Name else None


def words(node: cst.CSTNode) -> str:
    """A short text of an expression for messages and keys: names, attributes, calls, subscripts, literals."""
    kind = type(node)
    if kind is cst.Name:
        return node.value  # type: ignore[attr-defined, no-any-return]
    if kind is cst.Attribute:
        return f"{words(node.value)}.{node.attr.value}"  # type: ignore[attr-defined]
    if kind is cst.Call:
        inner = ", ".join(
            (a.star + (f"{a.keyword.value}=" if a.keyword else "") + words(a.value)) for a in node.args  # type: ignore[attr-defined]
        )
        return f"{words(node.func)}({inner})"  # type: ignore[attr-defined]
    if kind is cst.Subscript:
        return f"{words(node.value)}[…]"  # type: ignore[attr-defined]
    if kind in (cst.Integer, cst.Float, cst.SimpleString):
        return node.value  # type: ignore[attr-defined, no-any-return]
    if kind is cst.Comparison and len(node.comparisons) == 1:  # type: ignore[attr-defined]
        compared = node.comparisons[0]  # type: ignore[attr-defined]
        return f"{words(node.left)} {type(compared.operator).__name__} {words(compared.comparator)}"  # type: ignore[attr-defined]
    if kind is cst.BooleanOperation:
        word = "and" if type(node.operator) is cst.And else "or"  # type: ignore[attr-defined]
        return f"{words(node.left)} {word} {words(node.right)}"  # type: ignore[attr-defined]
    return "…"


def string(node: cst.CSTNode) -> str | None:
    """The text of a plain string literal, None for anything else (bytes too)."""
    if type(node) is not cst.SimpleString:
        return None
    raw = node.value
    if raw[0] in "\"'" and "\\" not in raw:
        # By far the most strings: evaluating them as Python does costs twenty times as much.
        quotes = 3 if raw[:3] in ('"""', "'''") and len(raw) >= 6 else 1
        return raw[quotes:-quotes]
    value = node.evaluated_value
    return value if isinstance(value, str) else None


def integer(node: cst.CSTNode) -> int | None:
    """The value of an integer literal, with its sign."""
    if type(node) is cst.Integer:
        return int(node.value.replace("_", ""), 0)
    if type(node) is cst.UnaryOperation and type(node.operator) is cst.Minus:
        inner = integer(node.expression)
        return None if inner is None else -inner
    return None


def literal(node: cst.CSTNode) -> str:
    """A text, a number, a truth or `None` as it is written, texts in single quotes; empty for anything else."""
    if isinstance(node, cst.SimpleString | cst.Integer | cst.Float):
        return node.value.replace('"', "'")
    return node.value if type(node) is cst.Name and node.value in ("None", "True", "False") else ""


def parameters(function: cst.FunctionDef | cst.Lambda) -> tuple[cst.Param, ...]:
    """The named parameters of a function in order."""
    given = function.params
    return (*given.posonly_params, *given.params, *given.kwonly_params)


def conjuncts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of a test that all hold where it does."""
    if type(test) is cst.BooleanOperation and type(test.operator) is cst.And:
        yield from conjuncts(test.left)
        yield from conjuncts(test.right)
    else:
        yield test


def condition(test: cst.BaseExpression) -> tuple[str, bool] | None:
    """A test as (text, truth), None where its text would not say the same twice."""
    truth = True
    while type(test) is cst.UnaryOperation and type(test.operator) is cst.Not:
        test, truth = test.expression, not truth
    if type(test) is cst.Comparison and len(test.comparisons) == 1:
        left, right = words(test.left), _listed(test.comparisons[0].comparator)
        operator = type(test.comparisons[0].operator)
        if "…" in left or "…" in right:
            return None
        if operator in (cst.IsNot, cst.NotEqual, cst.NotIn):
            opposite = {cst.IsNot: cst.Is, cst.NotEqual: cst.Equal, cst.NotIn: cst.In}[operator]
            return f"{left} {opposite.__name__} {right}", not truth
        return f"{left} {operator.__name__} {right}", truth
    text = words(test)
    return None if "…" in text else (text, truth)


def _listed(node: cst.BaseExpression) -> str:
    """The words of an expression; of a display of literals, those of its elements."""
    if not isinstance(node, cst.Tuple | cst.List | cst.Set):
        return words(node)
    return f"({', '.join(words(e.value) for e in node.elements)})"


_WORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def mentions(condition: str, names: Collection[str]) -> bool:
    """Whether a condition's text speaks of one of the names, or of what hangs on one."""
    for word in _WORD.findall(condition):
        while word:
            if word in names:
                return True
            word = word.rpartition(".")[0]
    return False


def statements(body: cst.BaseSuite) -> tuple[cst.CSTNode, ...]:
    """The statements of a suite; those of a one-line suite as they stand."""
    return tuple(body.body)


def assigned_names(target: cst.CSTNode) -> Iterator[str]:
    """The names that an assignment target binds."""
    if type(target) is cst.Name:
        yield target.value
    elif type(target) in (cst.Tuple, cst.List):
        for element in target.elements:  # type: ignore[attr-defined]
            yield from assigned_names(element.value)
    elif type(target) is cst.StarredElement:
        yield from assigned_names(target.value)


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    """The argument passed as keyword `name`, or at `position`."""
    place = 0
    for arg in call.args:
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return arg.value
        elif arg.star:
            place = 1000
        else:
            if position is not None and place == position:
                return arg.value
            place += 1
    return None


#: Methods that give a tensor of what is one, and that are called on a name on its way into a function.
_SHAPING = frozenset(
    "view reshape flatten squeeze unsqueeze transpose permute contiguous float long int bool double half expand"
    " expand_as detach clone t".split()
)


def shaped(node: cst.BaseExpression) -> str | None:
    """The name in `name` and in `name.view(…).long()`; None for anything else."""
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in _SHAPING:
        node = node.func.value
    return dotted(node)


def entry_of(node: cst.BaseExpression) -> str | None:
    """`batch` in `batch[0]`, `batch["labels"]` and `batch[key]`; None for anything else."""
    if type(node) is not cst.Subscript or type(node.value) is not cst.Name or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    plain = type(index) is cst.Index and type(index.value) in (cst.Integer, cst.SimpleString, cst.Name)
    return node.value.value if plain else None


_COMMENT = re.compile(r"#.*")


def without_comments(module: cst.Module) -> str:
    """A module's text without its comments. To write it out takes about as long as to parse it."""
    return _COMMENT.sub("", module.code)
