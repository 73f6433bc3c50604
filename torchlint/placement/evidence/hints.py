"""What the words of calls, assignments and subscripts give away before anything is interpreted."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.placement.syntax import (
    words,
)


def is_given_gradient(call: cst.Call) -> bool:
    """Whether a backward starts from a gradient of its own: it computes a Jacobian row by row, and trains nothing."""
    return any(
        (arg.keyword is not None and arg.keyword.value == "gradient")
        or (arg.keyword is None and "grad" in words(arg.value).rsplit(".", 1)[-1].lower())
        for arg in call.args
    )


_DTYPE = re.compile(
    r"dtype|(?:^|\.)(?:float|double|half|bfloat|int|uint|long|short|bool|complex|c?float)\d*$"
)


def is_dtype(arg: cst.Arg) -> bool:
    """Whether an argument of `to` says nothing of a device."""
    if arg.keyword is not None:
        return arg.keyword.value != "device"
    return _DTYPE.search(words(arg.value)) is not None


def pairs_of(target: cst.BaseExpression, value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """The names that an assignment binds, each with what it gets, as far as both stand there."""
    if type(target) is cst.Name:
        return [(target.value, value)]
    if type(target) is cst.Tuple and type(value) is cst.Tuple and len(target.elements) == len(value.elements):
        pairs = zip(target.elements, value.elements)
        return [(t.value.value, v.value) for t, v in pairs if type(t.value) is cst.Name]
    return []


def widens(element: cst.SubscriptElement) -> bool:
    return type(element.slice) is cst.Index and words(element.slice.value) in ("None", "np.newaxis")


def picked_by(node: cst.BaseExpression) -> str | None:
    """The name in `table[name]`, at the bottom of a chain of methods and of functions of one argument."""
    while True:
        if type(node) is cst.Call:
            if type(node.func) is cst.Attribute and not (
                len(node.args) == 1 and _has_subscript(node.args[0])
            ):
                node = node.func.value
            elif len(node.args) == 1:
                node = node.args[0].value
            else:
                return None
        elif type(node) is cst.Subscript and len(node.slice) == 1 and type(node.slice[0].slice) is cst.Index:
            index = node.slice[0].slice.value
            return index.value if type(index) is cst.Name else None
        else:
            return None


def _has_subscript(argument: cst.Arg) -> bool:
    return type(argument.value) is cst.Subscript


def is_non_blocking(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "non_blocking"


def is_lengths(arg: cst.Arg, position: int) -> bool:
    """Whether an argument of `pack_padded_sequence` is the lengths."""
    return position == 1 if arg.keyword is None else arg.keyword.value == "lengths"


def is_host_type(node: cst.Call) -> bool:
    """Whether `set_default_tensor_type` is given a type of the CPU, which leaves new tensors on the host."""
    if not node.args or not words(node.func).endswith("set_default_tensor_type"):
        return False
    text = words(node.args[0].value).strip("\"'")
    return text.endswith("Tensor") and "." in text and "cuda" not in text
