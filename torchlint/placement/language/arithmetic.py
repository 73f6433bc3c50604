"""Operators: arithmetic, comparisons, `and`, `or`, `not`."""

from __future__ import annotations

from typing import Any

import libcst as cst

from torchlint.placement.calls.operations import as_tensor_if_moved, mix, note_parameters, note_whatever
from torchlint.placement.calls.owing import note_owed
from torchlint.placement.events import Operand
from torchlint.placement.evidence.kinds import has_shape
from torchlint.placement.hazards.comparisons import (
    are_never_equal,
    compare_chain,
    compare_devices,
    is_left_out,
    mark_compared,
    note_no_index,
    note_uncalled,
)
from torchlint.placement.hazards.syncs import emit_sync, read_as_text, read_numbers, spare
from torchlint.placement.hazards.texts import composed
from torchlint.placement.interpreter import Env, Interpreter, expression, negated
from torchlint.placement.language.branches import condition_of
from torchlint.placement.language.conditions import narrow
from torchlint.placement.language.displays import DEVICE_FAMILIES
from torchlint.placement.language.guards import frequency_tests, tests_of
from torchlint.placement.syntax import dotted, integer, words
from torchlint.placement.timeline import read_pending, time_between
from torchlint.placement.values import (
    ARRAY,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    guarded,
    join,
    sequence,
    union,
    with_rank,
)

#: What a number keeps through arithmetic: that it was read off a clock.
_KEPT_BY_ARITHMETIC = frozenset({"clock"})


#: Operators that make a mask of two.
_LOGICAL = (cst.BitAnd, cst.BitOr, cst.BitXor)


_MODULO = Value(Kind.NUMBER, facts=frozenset({"modulo"}), tests=frozenset({"between"}))


@expression(cst.BinaryOperation)
def binary(run: Interpreter, node: cst.BinaryOperation, env: Env) -> Value:
    """A chain of operators, its left spine walked in a loop since it may have thousands of terms."""
    spine: list[cst.BinaryOperation] = []
    left: cst.BaseExpression = node
    while type(left) is cst.BinaryOperation:
        spine.append(left)
        left = left.left
    value = run.evaluate(left, env)
    left_node = left
    for operation in reversed(spine):
        right = run.evaluate(operation.right, env)
        value = _operate(run, operation, left_node, value, right)
        left_node = operation
    return (composed(run, node, env) or value) if value.kind is Kind.STRING else value


def _operate(
    run: Interpreter, node: cst.BinaryOperation, left_node: cst.CSTNode, a: Value, b: Value
) -> Value:
    operator = type(node.operator)
    for value in (a, b):
        read_pending(run, node, "operator", value)
    if "no index" in a.facts | b.facts and Kind.NONE in (a.kind, b.kind):
        note_no_index(run, node, a, b)
    if operator is cst.Modulo and a.kind not in (Kind.TENSOR, Kind.STRING):
        if a.kind is Kind.UNKNOWN and b.kind is Kind.TENSOR:
            return b.but(facts=b.facts & {"grad"})
        return _MODULO
    if operator is cst.Modulo and a.kind is Kind.STRING:
        read_as_text(run, node.right, b)
        return Value(Kind.STRING)
    if a.kind is b.kind is Kind.UNKNOWN and "perhaps" in a.facts | b.facts:
        # Where one of them is a tensor, this joins the other one with it.
        a, b = _as_input(run, left_node, a), _as_input(run, node.right, b)
    if a.kind is Kind.TENSOR or b.kind is Kind.TENSOR:
        a, b = _as_input(run, left_node, a), _as_input(run, node.right, b)
        spare(run, a)
        spare(run, b)
        if Kind.UNKNOWN in (a.kind, b.kind):
            if any(p.place.where is Where.OF_CALLER for v in (a, b) if v.kind is Kind.UNKNOWN for p in v.places):
                note_parameters(run, node, [Operand(left_node, a), Operand(node.right, b)])
            known = a if a.kind is Kind.TENSOR else b
            # The other one may be a tensor elsewhere: then the result is there.
            unsure = known.on_host or known.certainty is Certainty.GUESSED
            if known.on_host and run.scene.role == "init" and "assumed" not in (a.facts | b.facts):
                # The arguments of a constructor are rather numbers, and nothing is elsewhere yet.
                places = with_rank(known.places, 1 if all(p.rank == 1 for p in known.places) else None)
                return known.but(
                    places=places, certainty=Certainty.INFERRED, facts=known.facts & {"grad", "cut"}
                )
            if unsure and _may_hold_tensor(b if known is a else a):
                note_owed(run, node, operator.__name__, [Operand(left_node, a), Operand(node.right, b)])
                return known.but(places=(), facts=(known.facts & {"grad", "loss", "cut"}) | {"doubtful"})
            kept = known.facts & (
                {"mask", "cut", "element"} if operator in _LOGICAL else {"grad", "loss", "cut", "doubtful", "element"}
            ) | known.facts & {"mixed"}
            return known.but(places=with_rank(known.places, None), facts=kept)
        result = mix(
            run,
            node,
            operator.__name__,
            [Operand(left_node, a), Operand(node.right, b)],
            strict=operator is cst.MatrixMultiply,
            rank="elementwise" if operator is not cst.MatrixMultiply else None,
        )
        if operator in _LOGICAL and all("mask" in v.facts for v in (a, b)):
            return result.but(facts=result.facts | {"mask", "cut"})
        if "loss" in a.facts | b.facts and all(
            v.kind is not Kind.TENSOR or "loss" in v.facts for v in (a, b)
        ):
            return result.but(facts=result.facts | {"loss"})
        return result
    if a.kind is b.kind is Kind.UNKNOWN:
        note_whatever(run, node, [Operand(left_node, a), Operand(node.right, b)])
    if a.kind is b.kind and a.kind in (Kind.NUMBER, Kind.ARRAY, Kind.STRING):
        if a.kind is Kind.NUMBER:
            if operator is cst.BitAnd:
                return _MODULO
            if operator is cst.Subtract and "clock" in a.facts and "clock" in b.facts:
                time_between(run, node, a, b)
            return Value(
                Kind.NUMBER, union(a.places, b.places), facts=(a.facts | b.facts) & _KEPT_BY_ARITHMETIC
            )
        return Value(a.kind)
    if a.kind is Kind.SEQUENCE and b.kind is Kind.SEQUENCE and operator is cst.Add:
        items = (*a.items, *b.items) if a.items is not None and b.items is not None else None
        return sequence(
            items,
            None if items is not None else join(a.element, b.element) if a.element and b.element else None,
        )
    if a.kind is Kind.SEQUENCE and operator is cst.Multiply:
        return a.but(items=None)
    if Kind.ARRAY in (a.kind, b.kind):
        return ARRAY
    if Kind.STRING in (a.kind, b.kind):
        return Value(Kind.STRING)
    if {a.kind, b.kind} <= {Kind.UNKNOWN, Kind.NUMBER} and not any(
        p.place.is_host for v in (a, b) for p in v.places
    ):
        # Whatever it is that is computed with, the result is where it is.
        places = with_rank(union(a.places, b.places), None)
        return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=(a.facts | b.facts) & _OF_A_COMPUTATION)
    return UNKNOWN


def _as_input(run: Interpreter, node: cst.CSTNode, value: Value) -> Value:
    """A forward's first argument that arithmetic joins with a tensor, and nothing calls a number, is one."""
    function = run.frame.function
    value = as_tensor_if_moved(value)
    if value.kind is Kind.UNKNOWN and type(node) is cst.Name and has_shape(node.value, run.frame.usage):
        if f"like:{node.value}" in value.facts:
            return value.but(kind=Kind.TENSOR)
    if value.kind is not Kind.UNKNOWN or run.scene.role != "forward" or function is None or not function.parameters:
        return value
    name = function.parameters[0]
    if type(node) is cst.Name:
        whole = node.value == name and f"like:{name}" in value.facts
    else:  # what was computed from it
        whole = not value.facts & _OF_PARTS and any(
            p.place == Place(Where.OF_CALLER, name) for p in value.places
        )
    if not whole:
        return value
    usage = run.frame.usage
    if name in usage.called or name in usage.unpacked or "[str]" in usage.attributes.get(name, ()):
        return value
    if name in usage.torch_arguments:
        return value  # it would be known for a tensor, were it given to something that takes tensors
    facts = value.facts | {"mask"} if type(node) is cst.Comparison else value.facts
    return value.but(kind=Kind.TENSOR, facts=facts)


#: The facts of what is a part of an argument, or came of a call that nobody knows.
_OF_PARTS = frozenset({"assumed", "given", "taken"})


def _may_hold_tensor(value: Value) -> bool:
    return value.kind is Kind.UNKNOWN


_TRUTH_ONLY = (cst.Is, cst.IsNot, cst.In, cst.NotIn)


@expression(cst.Comparison)
def comparison(run: Interpreter, node: cst.Comparison, env: Env) -> Value:
    left = run.evaluate(node.left, env)
    values = [left, *(run.evaluate(c.comparator, env) for c in node.comparisons)]
    operators = [type(c.operator) for c in node.comparisons]
    if len(values) == 2:
        compare_devices(run, node, left, values[1], operators[0])
    else:
        compare_chain(run, node, values, operators)
    for side in (node.left, *(c.comparator for c in node.comparisons)):
        mark_compared(run, side)
    if _asks_for_none(values, operators):
        return NUMBER
    if not any(v.kind is Kind.TENSOR for v in values) and any(
        _is_of_numpy(run, n, env) for n in (node.left, *(c.comparator for c in node.comparisons))
    ):
        return NUMBER  # what NumPy computes is compared with what is on the host, too
    if not any(o in _TRUTH_ONLY for o in operators):
        values = [as_tensor_if_moved(v) for v in values]
    if any(v.kind is Kind.TENSOR for v in values) and not any(o in _TRUTH_ONLY for o in operators):
        nodes = [node.left, *(c.comparator for c in node.comparisons)]
        values = [_as_input(run, n, v) for n, v in zip(nodes, values)]
        for value in values:
            spare(run, value)
        result = mix(run, node, "compare", [Operand(n, v) for n, v in zip(nodes, values)])
        if any(v.kind is Kind.UNKNOWN for v in values) and result.on_host:
            return result.but(places=(), facts=frozenset({"mask", "cut", "doubtful"}))
        return result.but(facts=frozenset({"mask", "cut"}))
    for value in values:
        read_pending(run, node, "compare", value)
    if operators[-1] in (cst.In, cst.NotIn) and values[0].kind is not Kind.STRING and "batch" not in values[-1].facts:
        emit_sync(run, node, "in", values[-1], hidden=True)  # Tensor.__contains__ asks whether any element is equal
    if len(values) == 2 and operators[0] not in _TRUTH_ONLY and all(v.kind is Kind.UNKNOWN for v in values):
        note_whatever(run, node, [Operand(node.left, left), Operand(node.comparisons[0].comparator, values[1])])
    tests = _comparison_tests(run, node, values, operators)
    if any(o in _TRUTH_ONLY for o in operators) or not _may_be_elementwise(values):
        return Value(Kind.NUMBER, read_numbers(values), tests=tests)
    # What is compared may be tensors, and then the result is one.
    places = union(*(with_rank(v.places, None) for v in (values[0], values[-1])))
    facts = (values[0].facts | values[-1].facts) & _OF_A_COMPUTATION
    return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=facts, tests=tests)


def _is_of_numpy(run: Interpreter, node: cst.CSTNode, env: Env) -> bool:
    """Whether an expression is a call of a function of NumPy."""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute:
        return False
    name = dotted(node.func)
    root = run.lookup(name.split(".")[0], env) if name is not None else None
    return root is not None and root.kind is Kind.API and (root.name or "").startswith("numpy")


def _asks_for_none(values: list[Value], operators: list[Any]) -> bool:
    """`x != None`, as a tensor understands it, too."""
    return len(values) == 2 and values[1].kind is Kind.NONE and operators[0] in (cst.Equal, cst.NotEqual)


_OF_A_COMPUTATION = frozenset({"assumed", "grad", "computed"})


def _may_be_elementwise(values: list[Value]) -> bool:
    kinds = {v.kind for v in values}
    return Kind.UNKNOWN in kinds and kinds <= {Kind.UNKNOWN, Kind.NUMBER, Kind.SEQUENCE}


def _comparison_tests(
    run: Interpreter, node: cst.Comparison, values: list[Value], operators: list[Any]
) -> frozenset[str]:
    tests: set[str] = set(frequency_tests(node, values, operators, run.frame.usage.counters))
    if "training" in values[0].tests and operators[0] in (cst.Is, cst.Equal):
        holds = dotted(node.comparisons[0].comparator) == "True"
        return values[0].tests if holds else negated(values[0].tests)
    if len(values) == 2 and operators[0] is cst.Is and dotted(node.comparisons[0].comparator) == "True":
        tests |= tests_of(node.left, values[0])
    for value in values:
        if "modulo" not in value.facts:
            tests |= value.tests
        if value.kind is Kind.DEVICE or "device type" in value.facts:
            tests.add("accelerator")
        for text in (value, *(value.items or ())):
            if text.kind is Kind.STRING and text.name and _names_device(text.name):
                tests.add("accelerator")
    of_index = _asked_of_index(node)
    if of_index:
        return frozenset(tests - {"accelerator"} | {of_index})
    denied = any(o in (cst.NotEqual, cst.IsNot, cst.NotIn) for o in operators)
    if denied and len(values) == 2 and are_never_equal(*values):
        tests.discard("accelerator")  # it holds everywhere, and so asks for nothing
    if "accelerator" in tests and denied is not any(map(_is_cpu, values)):
        tests.discard("accelerator")
        tests.add("no-accelerator")
    return frozenset(tests)


#: What says of the index of a device that there is one: the CPU's is -1 (`Tensor.get_device`).
_HAS_INDEX = {(cst.GreaterThan, -1), (cst.GreaterThanEqual, 0), (cst.NotEqual, -1)}
_HAS_NONE = {(cst.LessThan, 0), (cst.LessThanEqual, -1), (cst.Equal, -1)}


def _asked_of_index(node: cst.Comparison) -> str:
    """What `device > -1`, `x.get_device() < 0` and their like ask for."""
    asked = dotted(node.left.func) if type(node.left) is cst.Call else dotted(node.left)
    last = (asked or "").rpartition(".")[2].lower()
    if len(node.comparisons) != 1 or not (last in _INDICES or last.endswith("device")):
        return ""
    key = type(node.comparisons[0].operator), integer(node.comparisons[0].comparator)
    return "accelerator" if key in _HAS_INDEX else "no-accelerator" if key in _HAS_NONE else ""


_INDICES = frozenset(["device_id", "device_index", "cuda", "gpu", "gpu_id", "get_device", "dev"])


def _names_device(text: str) -> bool:
    """Whether a text is a device, or the type of a tensor on one."""
    return text.split(":")[0] in (*DEVICE_FAMILIES, "cpu", "gpu") or text.startswith("torch.cuda.")


def _is_cpu(value: Value) -> bool:
    """Whether a value is the CPU's name, its device, or a list of nothing else."""
    if value.items:
        return all(map(_is_cpu, value.items))
    if value.kind is Kind.STRING:
        return bool(value.name) and value.name.split(":")[0] == "cpu"  # type: ignore[union-attr]
    return value.kind is Kind.DEVICE and value.on_host


@expression(cst.BooleanOperation)
def boolean(run: Interpreter, node: cst.BooleanOperation, env: Env) -> Value:
    left = run.evaluate(node.left, env)
    omitted = is_left_out(run, node.left, left)
    scene = run.scene
    is_and = type(node.operator) is cst.And
    left_tests = tests_of(node.left, left)
    tests = left_tests if is_and else negated(left_tests)
    key = condition_of(run, node.left)
    if key is not None and not is_and:
        key = (key[0], not key[1])
    taken, skipped = dict(env), dict(env)
    narrow(run, node.left, taken, skipped)
    with run.under(tests, key):
        right = run.evaluate(node.right, taken if is_and else skipped)
    run.scene = scene
    run.truths[node.left], run.truths[node.right] = left, right
    note_uncalled(run, node.left, left)
    note_uncalled(run, node.right, right)
    if key is not None:
        left, right = guarded(left, key[0], not key[1]), guarded(right, *key)
    if Kind.TENSOR in (left.kind, right.kind) and left.kind in (Kind.TENSOR, Kind.NONE, Kind.UNKNOWN):
        return join(left, right)
    if Kind.DEVICE in (left.kind, right.kind) and not is_and:
        # `device or self.device`: a device whatever the caller gave, None included.
        chosen = left if left.kind is Kind.DEVICE else right
        if omitted:
            chosen = chosen.but(facts=chosen.facts | right.facts & {"torch.device"})
        return chosen.at((Alternative(Place(Where.NAMED, words(node)), None, node),))
    if left.kind is right.kind and left.kind in (Kind.DEVICE, Kind.STRING):
        return join(left, right)
    if Kind.DEVICE in (left.kind, right.kind):
        return left if left.kind is Kind.DEVICE else right
    both = left_tests | tests_of(node.right, right)
    if is_and and both:
        both |= {"several"}
    return Value(Kind.NUMBER if left.kind is right.kind is Kind.NUMBER else Kind.UNKNOWN, tests=both)


@expression(cst.UnaryOperation)
def unary(run: Interpreter, node: cst.UnaryOperation, env: Env) -> Value:
    value = run.evaluate(node.expression, env)
    if type(node.operator) is cst.Not:
        note_uncalled(run, node.expression, value)
        if value.kind is Kind.TENSOR:
            run.truths[node] = value
            return value
        return Value(Kind.NUMBER, tests=negated(tests_of(node.expression, value)))
    return (
        value.but(facts=value.facts - {"fresh", "leaf", "parameter"}) if value.kind is Kind.TENSOR else value
    )
