"""What a test says: which values it narrows, and whether reading its truth waits for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.hazards.comparisons import note_uncalled
from torchlint.placement.hazards.syncs import emit_sync, may_wait, spare
from torchlint.placement.interpreter import key_of, negated
from torchlint.placement.language.guards import tests_of
from torchlint.placement.syntax import dotted
from torchlint.placement.values import NONE, UNKNOWN, Certainty, Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter

_TENSOR_TYPES = ("Tensor", "FloatTensor", "LongTensor")


def narrow(run: Interpreter, test: cst.BaseExpression, taken: Env, skipped: Env) -> None:
    """Note in both branches' environments what the test says of names."""
    kind = type(test)
    if kind is cst.UnaryOperation and type(test.operator) is cst.Not:  # type: ignore[attr-defined]
        narrow(run, test.expression, skipped, taken)  # type: ignore[attr-defined]
    elif kind is cst.BooleanOperation:
        nowhere: Env = {}
        if type(test.operator) is cst.And:  # type: ignore[attr-defined]
            narrow(run, test.left, taken, nowhere)  # type: ignore[attr-defined]
            narrow(run, test.right, taken, nowhere)  # type: ignore[attr-defined]
        else:
            narrow(run, test.left, nowhere, skipped)  # type: ignore[attr-defined]
            narrow(run, test.right, nowhere, skipped)  # type: ignore[attr-defined]
    elif kind is cst.Call:
        _narrow_by_call(run, test, taken, skipped)  # type: ignore[arg-type]
    elif kind is cst.Comparison:
        _narrow_by_none(run, test, taken, skipped)  # type: ignore[arg-type]
        _narrow_by_type(run, test, taken, skipped)  # type: ignore[arg-type]


def _narrow_by_call(run: Interpreter, test: cst.Call, taken: Env, skipped: Env) -> None:
    function = (dotted(test.func) or "").rsplit(".", 1)[-1]
    if not test.args:
        return
    asked = test.args[0].value
    name = key_of(asked)
    if name is None or function not in ("isinstance", "is_tensor"):
        return
    value = run.lookup(name, taken) or run.evaluate(asked, taken)
    if function == "is_tensor":
        _split(name, value, Kind.TENSOR, taken, skipped)
    elif len(test.args) > 1:
        _split_by_types(name, value, test.args[1].value, taken, skipped)


def _narrow_by_type(run: Interpreter, test: cst.Comparison, taken: Env, skipped: Env) -> None:
    """`type(x) == torch.Tensor`, `type(x) in (list, tuple)`; what is of another type may be of a subclass."""
    asking = test.left
    if type(asking) is not cst.Call or dotted(asking.func) != "type" or len(asking.args) != 1:
        return
    name = key_of(asking.args[0].value)
    if name is None or len(test.comparisons) != 1:
        return
    operator, types = type(test.comparisons[0].operator), test.comparisons[0].comparator
    if operator in (cst.NotEqual, cst.IsNot, cst.NotIn):
        taken, skipped = skipped, taken
    value = run.lookup(name, taken) or run.evaluate(asking.args[0].value, taken)
    nowhere: Env = {}
    _split_by_types(name, value, types, taken, nowhere)


def _split_by_types(name: str, value: Value, types: cst.BaseExpression, taken: Env, skipped: Env) -> None:
    listed = [e.value for e in types.elements] if type(types) is cst.Tuple else [types]
    named = [(dotted(t) or "").rsplit(".", 1)[-1] for t in listed]
    if all(n.endswith(_TENSOR_TYPES) or n == "Parameter" for n in named):
        _split(name, value, Kind.TENSOR, taken, skipped)
    elif all(n.endswith("Module") or n in ("DataParallel", "DistributedDataParallel") for n in named):
        _split(name, value, Kind.MODULE, taken, skipped)
    elif all(n in ("int", "float", "bool") for n in named):
        taken[name] = Value(Kind.NUMBER)
    elif all(n == "str" for n in named):
        taken[name] = Value(Kind.STRING)
        if value.kind is Kind.DEVICE:
            skipped[name] = value.but(facts=value.facts - {"text"} | {"torch.device"})
    elif value.kind is Kind.DEVICE and all(n == "device" for n in named):
        taken[name] = value.but(facts=value.facts - {"text"} | {"torch.device"})
        skipped[name] = Value(Kind.STRING)
    elif all(n in ("dict", "Mapping", "OrderedDict") for n in named):
        taken[name] = Value(Kind.MAPPING, element=value.element or Value(Kind.UNKNOWN, value.places))
    elif all(n in ("list", "tuple", "Sequence", "Iterable") for n in named):
        taken[name] = Value(
            Kind.SEQUENCE, element=value.element or Value(Kind.UNKNOWN, value.places), items=value.items
        )
    elif all(n == "ndarray" for n in named):
        taken[name] = Value(Kind.ARRAY)
    elif all(n for n in named) and value.kind is Kind.UNKNOWN:
        taken[name] = Value(Kind.OBJECT)


def _split(name: str, value: Value, kind: Kind, taken: Env, skipped: Env) -> None:
    taken[name] = value if value.kind is kind else value.but(kind=kind, certainty=Certainty.KNOWN)
    if value.kind is kind and value.certainty is Certainty.KNOWN:
        return
    if value.kind is kind or value.kind is Kind.UNKNOWN:
        skipped[name] = Value(Kind.UNKNOWN)


def _narrow_by_none(run: Interpreter, test: cst.Comparison, taken: Env, skipped: Env) -> None:
    if len(test.comparisons) != 1:
        return
    comparison = test.comparisons[0]
    name = dotted(test.left)
    if name is None or type(comparison.comparator) is not cst.Name or comparison.comparator.value != "None":
        return
    if type(comparison.operator) in (cst.Is, cst.Equal):
        is_none, is_not_none = taken, skipped
    elif type(comparison.operator) in (cst.IsNot, cst.NotEqual):
        is_none, is_not_none = skipped, taken
    else:
        return
    if "." not in name or name in is_none:
        is_none[name] = NONE  # else what the branch does may change it unseen, and the other path says nothing of it
    value = is_not_none.get(name)
    if value is not None and value.kind is Kind.NONE:
        is_not_none[name] = Value(Kind.UNKNOWN)


def truth_test(run: Interpreter, node: cst.BaseExpression, value: Value) -> None:
    """A condition reads the truth of `value`: a tensor's is a wait for the device."""
    kind = type(node)
    if kind is cst.UnaryOperation and type(node.operator) is cst.Not:  # type: ignore[attr-defined]
        truth_test(run, node.expression, value)  # type: ignore[attr-defined]
        return
    note_uncalled(run, node, value)
    if kind is cst.BooleanOperation:
        left = run.truths.get(node.left, UNKNOWN)  # type: ignore[attr-defined]
        truth_test(run, node.left, left)  # type: ignore[attr-defined]
        tests = tests_of(node.left, left)  # type: ignore[attr-defined]
        with run.under(tests if type(node.operator) is cst.And else negated(tests), None):  # type: ignore[attr-defined]
            truth_test(run, node.right, run.truths.get(node.right, UNKNOWN))  # type: ignore[attr-defined]
        return
    spare(run, value)
    if not may_wait(value):
        return
    if kind in (cst.Name, cst.Attribute) and not (
        "loss" in value.facts or any(p.rank == 0 for p in value.places)
    ):
        # The truth of a tensor with more than one element raises; a bare name is rather a list or None.
        return
    emit_sync(run, node, "if", value, hidden=True)
