"""Tests that can't say what they are meant to: devices compared with strings, availability asked for by name only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.devices import is_vendor
from torchlint.placement.events import Compare, DeviceName
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import descendants, dotted, mentions, string
from torchlint.placement.values import NUMBER, VENDORS, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.definitions.records import Function
    from torchlint.placement.interpreter import Interpreter

_EQUAL = (cst.Equal, cst.NotEqual)
_IS = (cst.Is, cst.IsNot)
_IN = (cst.In, cst.NotIn)
_ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
#: Methods of texts that a torch.device has not.
_OF_TEXT = frozenset(
    "startswith endswith split rsplit partition rpartition lower upper strip replace find index isdigit removeprefix"
    " join encode casefold".split()
)


def compare_devices(
    run: Interpreter, node: cst.Comparison, left: Value, right: Value, operator: type[cst.BaseCompOp]
) -> None:
    """Note a comparison of a device with what it is never equal to."""
    text = next((v for v in (left, right) if v.kind is Kind.STRING), None)
    device = next((v for v in (left, right) if v.kind is Kind.DEVICE), None)
    if operator in _IS and text is not None and text.name and is_device_text(text.name):
        run.emit(Compare(node, run.scene, "device is str", left, right))
    elif operator in _IS and "torch.device" in left.facts & right.facts:
        run.emit(Compare(node, run.scene, "device is device", left, right))
    elif text is not None and device is not None:
        if _may_be_text(run, node, text):
            return
        given: tuple[str, str] | tuple[()] | None = _given_by_callers(run, node, device)
        if "torch.device" in device.facts:
            # An annotation binds nobody, and what is asked for a text that names no device is given that, too.
            annotated = given if given and given[1] == "torch.device" else None
            if annotated is not None and text.name and not is_device_text(text.name):
                return
            given = (annotated[0], "no text") if annotated is not None else ()
        if given is None:
            return
        if operator in _EQUAL and not is_device_of_text(text) and text.name:
            run.emit(Compare(node, run.scene, "device == str", left, right, *given))
        elif operator in _IN and text is left:
            run.emit(Compare(node, run.scene, "str in device", left, right, *given))
    elif operator in _ORDER and "no index" in left.facts | right.facts:
        note_no_index(run, node, left, right)
    elif operator in _IN and device is left and "torch.device" in left.facts and _are_devices(right):
        run.emit(Compare(node, run.scene, "device in texts", left, right))
    elif operator in _EQUAL and "text of tensor's device" in left.facts | right.facts:
        if {left.name, right.name} & VENDORS:
            run.emit(Compare(node, run.scene, "text == unindexed", left, right))
    elif operator in _EQUAL and are_never_equal(left, right):
        run.emit(Compare(node, run.scene, "tensor's device == unindexed", left, right))
    elif operator in _EQUAL and "without index" in left.facts | right.facts:
        names = [v.name or "" for v in (left, right) if v.kind is Kind.STRING]
        if any(":" in name and is_device_text(name) for name in names):
            run.emit(Compare(node, run.scene, "type == indexed", left, right))


def compare_chain(
    run: Interpreter, node: cst.Comparison, values: Sequence[Value], operators: Sequence[type[cst.BaseCompOp]]
) -> None:
    """Note that a chain (`x.device == y.device == "cuda"`) compares a tensor's device with a text."""
    for left, right, operator in zip(values, values[1:], operators):
        texts = [v for v in (left, right) if v.kind is Kind.STRING and is_device_text(v.name or "")]
        devices = [v for v in (left, right) if "of tensor" in v.facts]
        if operator in _EQUAL and texts and devices and not is_device_of_text(texts[0]):
            run.emit(Compare(node, run.scene, "device == str", left, right))
            return


def _may_be_text(run: Interpreter, node: cst.Comparison, text: Value) -> bool:
    """Whether what is compared with a text may be one: the text names no device ("auto"), or it is a setting.

    What a file assigns a text to somewhere is text wherever nothing binds it to a device before.
    """
    if text.name and not is_device_text(text.name) and text.name.partition(":")[0] != "gpu":
        return True
    sides = (dotted(node.left), dotted(node.comparisons[0].comparator))
    for name in sides:
        if name is not None and "." in name:
            texts = _assigned(run, name)
            if texts == {True} or (not texts and is_setting(name.rpartition(".")[0])):
                return True
    return False


def is_setting(name: str) -> bool:
    """Whether a name is one for what a program was asked for: `args`, `self.config`."""
    return name.rpartition(".")[2].lower().strip("_") in _SETTINGS


def _assigned(run: Interpreter, name: str) -> set[bool]:
    """Whether what a file assigns to an attribute is a text, for each time that it does."""
    return {
        string(node.value) is not None
        for node in descendants(run.module)
        if type(node) is cst.Assign and any(dotted(target.target) == name for target in node.targets)
    }


#: Names of what programs keep their settings in.
_SETTINGS = frozenset(
    "args arg cfg config configs conf opt opts option options hparams hps params flags settings namespace".split()
)


def _given_by_callers(run: Interpreter, node: cst.CSTNode, device: Value) -> tuple[str, str] | None:
    """The parameter that a device is, or is the `device` of, and which kind of value makes it a torch.device."""
    function = run.frame.function
    sides = [node.left, node.comparisons[0].comparator] if isinstance(node, cst.Comparison) else [node]
    names = [name for name in map(dotted, sides) if name is not None]
    if function is None or len(names) != 1:
        return None
    name, _, attribute = names[0].partition(".")
    if run.frame.usage.assigned.get(name):
        return None
    if name not in function.parameters or any(_tells_kinds(c, name) for c, _ in run.scene.conditions):
        return None
    if attribute == "device" and function.kinds.get(name) is Kind.UNKNOWN:
        return name, "tensor"
    return (name, "torch.device") if not attribute and device.kind in (Kind.DEVICE, Kind.UNKNOWN) else None


def _tells_kinds(condition: str, name: str) -> bool:
    """Whether a condition asks what kind of value a name holds."""
    return mentions(condition, {name}) and any(word in condition for word in ("isinstance", "type", "hasattr"))


def is_given(run: Interpreter, compare: Compare, function: Function) -> bool:
    """Whether all calls of a function pass for a parameter what makes it, or its `device`, a torch.device.

    Of one that is annotated as a device: whether none passes a text.
    """
    given = [call.get(compare.given) for call in function.calls]
    if compare.wanted == "no text":
        return not any(v is not None and v.kind is Kind.STRING for v in given)
    if compare.wanted == "tensor":
        callers = [run.usage.of(s.function) for s in function.called_from if s.function is not None]
        tensors = {f"like:{name}" for usage in callers for name in usage.torch_arguments}
        return bool(given) and all(v is not None and (_is_tensor(v) or tensors & v.facts) for v in given)
    return bool(given) and all(
        v is not None and v.kind is Kind.DEVICE and "torch.device" in v.facts for v in given
    )


def _is_tensor(value: Value) -> bool:
    return value.kind is Kind.TENSOR and value.certainty is not Certainty.GUESSED


def is_left_out(run: Interpreter, node: cst.CSTNode, value: Value) -> bool:
    """Whether an expression is a parameter that is None where the caller leaves it out."""
    function, name = run.frame.function, dotted(node) or ""
    default = function.defaults.get(name) if function is not None else None
    return default is not None and default.kind is Kind.NONE and value is run.frame.parameters.get(name)


def note_text_method(run: Interpreter, node: cst.Call, name: str, device: Value) -> None:
    """A device is asked for what texts have: a torch.device has no such method."""
    if name not in _OF_TEXT or not isinstance(node.func, cst.Attribute):
        return
    given = _given_by_callers(run, node.func.value, device) if "torch.device" not in device.facts else ()
    if given is not None:
        run.emit(Compare(node, run.scene, "method of text", device, device, *given))


def note_no_index(run: Interpreter, node: cst.CSTNode, left: Value, right: Value) -> None:
    """Something is computed with the index of a device that has none: `torch.device("cuda").index` is None."""
    if not any(".index" in condition for condition, _ in run.scene.conditions):
        run.emit(Compare(node, run.scene, "no index", left, right))


def part_of_device(run: Interpreter, node: cst.Attribute, device: Value, attr: str) -> Value:
    """The type or the index of a device."""
    if attr in ("type", "index") and "text" in device.facts:
        run.emit(Compare(node, run.scene, "attribute of text", device, device))
    if attr == "type":
        facts = frozenset({"device type", "without index"})
        return Value(Kind.STRING, device.places, device.certainty, facts=facts)
    if attr == "index" and {"no index", "torch.device"} <= device.facts:
        return Value(Kind.NONE, facts=frozenset({"no index"}))
    return NUMBER


def facts_of_texts(*texts: str) -> frozenset[str]:
    """What is known of a device that one of these texts names: whether it has no index, whichever it is."""
    plain = all(is_device_text(text) and ":" not in text for text in texts)
    return frozenset({"no index"}) if plain else frozenset()


def are_never_equal(left: Value, right: Value) -> bool:
    """Whether one is a tensor's device, which has a number on an accelerator, and the other one without."""
    sorts = {"of tensor", "unindexed"}
    return sorts <= left.facts | right.facts and not sorts & left.facts & right.facts


def _are_devices(value: Value) -> bool:
    """Whether a value is a display of strings that name devices."""
    return bool(value.items) and all(
        v.kind is Kind.STRING and is_device_text(v.name or "") for v in value.items or ()
    )


def is_device_text(text: str) -> bool:
    """Whether a string is one that torch.device takes."""
    return text == "cpu" or text.startswith("cpu:") or is_vendor(text)


def is_device_of_text(text: Value) -> bool:
    """Whether a string was made of a device (`str(device)`, `device.type`)."""
    return bool(text.facts & {"device type", "device text"})


def note_uncalled(run: Interpreter, node: cst.BaseExpression, value: Value) -> None:
    """A function that asks whether a device is there is tested itself: it is always true."""
    if value.kind is not Kind.API or value.name is None:
        return
    name = torch_api.canonical(value.name)
    if name.startswith("torch.") and name.rsplit(".", 1)[-1] in _ASKING:
        run.emit(Compare(node, run.scene, "uncalled", value))


_ASKING = frozenset(
    ["is_available", "is_built", "is_initialized", "is_bf16_supported", "device_count", "is_nccl_available"]
)


def mark_compared(run: Interpreter, side: cst.BaseExpression) -> None:
    """A device that is made to be compared with is not one that the code uses: `x.device == torch.device("cuda")`."""
    made = side.value if type(side) is cst.Attribute else side
    if type(made) is cst.Call:
        for arg in made.args:
            event = run.events.get((DeviceName, arg.value))
            if isinstance(event, DeviceName) and event.api == "torch.device":
                event.what = "compared"


def sort_of_device(text: str | None, has_index: bool) -> frozenset[str]:
    """What is known of a `torch.device(text)`: `unindexed` where it names an accelerator without a number.

    The device of a tensor on an accelerator always has its number, so that the two are never equal.
    """
    if text is None or has_index:
        return frozenset({"torch.device"})
    unindexed = frozenset({"unindexed"}) if text in VENDORS else frozenset()
    return frozenset({"torch.device"}) | facts_of_texts(text) | unindexed


def device_of(base: Value) -> frozenset[str]:
    """What is known of the `device` of a value: that of a tensor is a torch.device, with a number if it has any."""
    if base.kind is Kind.TENSOR and base.certainty is not Certainty.GUESSED:
        return frozenset({"torch.device", "of tensor"})
    return frozenset()
