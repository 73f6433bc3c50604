"""What expressions evaluate to."""

from __future__ import annotations

from typing import Any

import libcst as cst

from torchlint.placement.apis import api_value
from torchlint.placement.branches import choose, condition_of
from torchlint.placement.classes import class_attribute, instance_attribute
from torchlint.placement.comparisons import compare_devices, device_of, mark_compared, note_uncalled
from torchlint.placement.conditions import narrow, truth_test
from torchlint.placement.devices import is_vendor
from torchlint.placement.events import DeviceName, GradUse, Operand
from torchlint.placement.flags import as_flag
from torchlint.placement.frameworks_bridge import framework_attribute
from torchlint.placement.guards import frequency_tests, tests_of
from torchlint.placement.helpers import note_filter
from torchlint.placement.interpreter import Env, Interpreter, expression, key_of, negated
from torchlint.placement.operations import as_tensor_if_moved, check_index, mix
from torchlint.placement.statements import bind
from torchlint.placement.syncs import demand, demand_host, emit_sync, read_as_text
from torchlint.placement.syntax import dotted, integer, string, words
from torchlint.placement.timeline import read_pending, time_between
from torchlint.placement.values import (
    ARRAY,
    NONE,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    element_of,
    guarded,
    join,
    narrowed,
    sequence,
    tensor,
    union,
    with_rank,
)

#: What names that a star import brings stand for by custom.
_BY_CUSTOM = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy"}
_DEVICE_FAMILIES = ("cuda", "mps", "xpu", "hpu", "npu")
_MADE = frozenset({"made"})
_TENSOR_VIEWS = frozenset(["T", "mT", "H", "mH", "data", "grad", "real", "imag"])
_HOST_ATTRIBUTES = frozenset(
    ["ndim", "dtype", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "names", "is_sparse"]
)


@expression(cst.Name)
def name(run: Interpreter, node: cst.Name, env: Env) -> Value:
    text = node.value
    if text in ("True", "False"):
        return Value(Kind.NUMBER, name=text)
    if text == "None":
        return NONE
    value = run.lookup(text, env)
    if value is None and (text == "torch" or (text in _BY_CUSTOM and run.usage.star_imports)):
        return Value(Kind.API, name=_BY_CUSTOM[text])
    return as_flag(UNKNOWN if value is None else value, text)


@expression(cst.Attribute)
def attribute(run: Interpreter, node: cst.Attribute, env: Env) -> Value:
    text = dotted(node)
    if text is not None:
        known = env.get(text)
        if known is not None:
            return as_flag(narrowed(known, run.scene.conditions), node.attr.value)
    base = run.evaluate(node.value, env)
    return as_flag(attribute_of(run, base, node.attr.value, node, env), node.attr.value)


def attribute_of(run: Interpreter, base: Value, attr: str, node: cst.Attribute, env: Env) -> Value:
    """The attribute `attr` of a value."""
    if base.kind is Kind.API:
        return api_value(f"{base.name}.{attr}")
    if base.kind is Kind.CLASS and base.ref is not None:
        return class_attribute(run, base.ref, attr)
    if base.ref is not None and base.kind in (Kind.MODULE, Kind.OBJECT):
        found = instance_attribute(run, base, attr, node)
        if found is not None:
            return found
    known = framework_attribute(base, attr, node)
    if known is not None:
        return known
    if attr == "device":
        return _device_attribute(base, node)
    if base.kind is Kind.DEVICE:
        return (
            Value(Kind.STRING, base.places, base.certainty, facts=frozenset({"device type"}))
            if attr == "type"
            else NUMBER
        )
    if attr == "training":
        return Value(Kind.NUMBER, tests=frozenset({"training"}))
    if attr in ("is_cuda", "is_mps", "is_xpu"):
        return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
    if base.kind is Kind.TENSOR:
        if attr == "grad" and "moved leaf" in base.facts:
            run.emit(GradUse(node, run.scene, "grad", base))
        return _tensor_attribute(base, attr)
    if attr == "shape" or attr == "ndim":
        return sequence(element=NUMBER) if attr == "shape" else NUMBER
    if base.kind is Kind.ARRAY:
        return ARRAY if attr in ("T", "real", "imag", "flat") else NUMBER
    if base.kind is Kind.MODULE:
        if attr in ("weight", "bias", "in_proj_weight", "running_mean", "running_var"):
            return tensor(with_rank(base.places, 1), Certainty.INFERRED, frozenset({"parameter"}))
        return Value(Kind.UNKNOWN, base.places if _is_symbolic(base) else ())
    if base.kind is Kind.UNKNOWN and base.places and attr in ("T", "mT", "H", "mH"):
        return base.but(facts=base.facts & {"assumed", "perhaps"})
    if base.kind in (Kind.UNKNOWN, Kind.OWNED, Kind.MAPPING):
        # What a batch or an output holds lives where it does.
        places = tuple(p._replace(rank=None) for p in base.places)
        return Value(Kind.UNKNOWN, places, min(base.certainty, Certainty.INFERRED), facts=_handed_on(base))
    return UNKNOWN


def _is_symbolic(value: Value) -> bool:
    return bool(value.places) and not value.may_be_on_host


def _device_attribute(base: Value, node: cst.Attribute) -> Value:
    places = tuple(p._replace(rank=None) for p in base.places)
    if not places:
        places = (Alternative(Place(Where.NAMED, words(node)), None, node),)
    return Value(Kind.DEVICE, places, base.certainty, facts=device_of(base))


def _tensor_attribute(base: Value, attr: str) -> Value:
    if attr == "shape":
        return sequence(element=NUMBER)
    if attr in _HOST_ATTRIBUTES:
        return Value(Kind.DTYPE) if attr == "dtype" else NUMBER
    if attr in _TENSOR_VIEWS:
        facts = base.facts - {"grad", "leaf"} if attr in ("data", "grad") else base.facts - {"leaf"}
        if attr == "grad":
            facts |= {"of grad"}
        return base.but(facts=facts - {"fresh"})
    if attr in ("values", "indices"):  # of the named tuple that max, sort, topk give
        return base
    return UNKNOWN


@expression(cst.Subscript)
def subscript(run: Interpreter, node: cst.Subscript, env: Env) -> Value:
    value = _subscript(run, node, env)
    index = node.slice[0].slice
    key = string(index.value) if type(index) is cst.Index else None
    return value if key is None else as_flag(value, key)


def _subscript(run: Interpreter, node: cst.Subscript, env: Env) -> Value:
    base = run.evaluate(node.value, env)
    key = key_of(node)
    if key is not None and key in env:
        return narrowed(env[key], run.scene.conditions)
    plain = [e.slice.value for e in node.slice if type(e.slice) is cst.Index]
    indices = [run.evaluate(i, env) for i in plain]
    for element in node.slice:
        if type(element.slice) is cst.Slice:
            for bound in (element.slice.lower, element.slice.upper):
                if bound is not None:
                    demand(run, run.evaluate(bound, env))
                    demand_host(run, bound)
    for index in indices:
        if base.kind is not Kind.TENSOR:
            demand(run, index)
    if base.kind is Kind.TENSOR:
        return _index_tensor(run, node, base, plain, indices)
    single = len(node.slice) == 1 and len(plain) == 1
    if base.kind is Kind.MAPPING or base.keys:
        key = string(plain[0]) if single else None
        if key is not None and base.keys and key in base.keys:
            return base.keys[key]
        if base.element is not None:
            return base.element
        return Value(Kind.UNKNOWN, base.places, base.certainty)
    if base.kind is Kind.SEQUENCE:
        position = integer(plain[0]) if single else None
        if position is not None and base.items is not None and -len(base.items) <= position < len(base.items):
            return base.items[position]
        if not single:
            return base.but(items=None)
        return element_of(base)
    if base.kind is Kind.ARRAY:
        return ARRAY
    if base.kind is Kind.OWNED:
        return base.element if base.element is not None else Value(Kind.UNKNOWN, base.places, base.certainty)
    if base.kind is Kind.MODULE:
        return (
            base.element
            if base.element is not None
            else Value(Kind.UNKNOWN, base.places if _is_symbolic(base) else ())
        )
    if base.kind is Kind.STRING:
        return Value(Kind.STRING)
    if base.kind is Kind.UNKNOWN:
        places = base.places if "batch" in base.facts else tuple(p._replace(rank=None) for p in base.places)
        # What was moved and has several dimensions is a tensor.
        kind = Kind.TENSOR if len(node.slice) > 1 and "fresh" in base.facts and places else Kind.UNKNOWN
        return Value(kind, places, min(base.certainty, Certainty.INFERRED), facts=_handed_on(base))
    return UNKNOWN


_UNSURE = frozenset({"assumed", "perhaps", "given"})
_GIVEN = frozenset({"given"})


def _handed_on(base: Value) -> frozenset[str]:
    """The facts of a part of something: whether it is as a caller gave it, among others."""
    whole = any(fact.startswith("like:") for fact in base.facts)
    return base.facts & _UNSURE | (_GIVEN if whole else frozenset())


_ELEMENT = frozenset({"element"})


def _index_tensor(run: Interpreter, node: cst.Subscript, base: Value, plain: list[Any], indices: list[Value]) -> Value:
    tensors = [i for i in indices if i.kind is Kind.TENSOR]
    if tensors:
        check_index(run, node, base, tensors)
        for index, value in zip(plain, indices):
            if value.kind is Kind.TENSOR and ("mask" in value.facts or type(index) is cst.Comparison):
                emit_sync(run, node, "boolean mask index", value if not value.on_host else base, hidden=True)
    only_slices = all(type(e.slice) is cst.Slice for e in node.slice)
    if only_slices or any(v.kind is Kind.NONE for v in indices):
        rank: int | None = (
            1 if any(p.rank == 1 for p in base.places) or any(v.kind is Kind.NONE for v in indices) else None
        )
    elif (
        (tensors and all(p.rank == 1 for t in tensors for p in t.places) and all(t.places for t in tensors))
        or any(type(e.slice) is cst.Slice for e in node.slice)
        or (all(v.kind is Kind.SEQUENCE for v in indices) and indices)
    ):
        rank = 1
    else:
        rank = None
    facts = base.facts - {"leaf", "fresh", "parameter"} | (_ELEMENT if rank is None else frozenset())
    return base.but(places=with_rank(base.places, rank), facts=facts, items=None)


#: What a number keeps through arithmetic: that it was read off a clock.
_KEPT_BY_ARITHMETIC = frozenset({"clock"})
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
    return value


def _operate(run: Interpreter, node: cst.BinaryOperation, left_node: cst.CSTNode, a: Value, b: Value) -> Value:
    operator = type(node.operator)
    for value in (a, b):
        read_pending(run, node, "operator", value)
    if operator is cst.Modulo and a.kind not in (Kind.TENSOR, Kind.STRING):
        if a.kind is Kind.UNKNOWN and b.kind is Kind.TENSOR:
            return b.but(facts=b.facts & {"grad"})
        return _MODULO
    if operator is cst.Modulo and a.kind is Kind.STRING:
        read_as_text(run, node.right, b)
        return Value(Kind.STRING)
    if a.kind is Kind.TENSOR or b.kind is Kind.TENSOR:
        a, b = _as_input(run, left_node, a), _as_input(run, node.right, b)
        if Kind.UNKNOWN in (a.kind, b.kind):
            known = a if a.kind is Kind.TENSOR else b
            # The other one may be a tensor elsewhere: then the result is there.
            unsure = known.on_host or known.certainty is Certainty.GUESSED
            if known.on_host and run.scene.role == "init" and "assumed" not in (a.facts | b.facts):
                # The arguments of a constructor are rather numbers, and nothing is elsewhere yet.
                places = with_rank(known.places, 1 if all(p.rank == 1 for p in known.places) else None)
                return known.but(places=places, certainty=Certainty.INFERRED, facts=known.facts & {"grad", "cut"})
            if unsure and _may_hold_tensor(b if known is a else a):
                return known.but(places=(), facts=(known.facts & {"grad", "loss", "cut"}) | {"doubtful"})
            return known.but(
                places=with_rank(known.places, None),
                facts=(known.facts & {"grad", "loss", "cut", "doubtful"}),
            )
        result = mix(
            run,
            node,
            operator.__name__,
            [Operand(left_node, a), Operand(node.right, b)],
            rank="elementwise" if operator is not cst.MatrixMultiply else None,
        )
        if "loss" in a.facts | b.facts and all(v.kind is not Kind.TENSOR or "loss" in v.facts for v in (a, b)):
            return result.but(facts=result.facts | {"loss"})
        return result
    if a.kind is b.kind and a.kind in (Kind.NUMBER, Kind.ARRAY, Kind.STRING):
        if a.kind is Kind.NUMBER:
            if operator is cst.BitAnd:
                return _MODULO
            if operator is cst.Subtract and "clock" in a.facts and "clock" in b.facts:
                time_between(run, node, a, b)
            return Value(Kind.NUMBER, union(a.places, b.places), facts=(a.facts | b.facts) & _KEPT_BY_ARITHMETIC)
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
    if {a.kind, b.kind} <= {Kind.UNKNOWN, Kind.NUMBER} and not any(p.place.is_host for v in (a, b) for p in v.places):
        # Whatever it is that is computed with, the result is where it is.
        places = tuple(p._replace(rank=None) for p in union(a.places, b.places))
        return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=(a.facts | b.facts) & _OF_A_COMPUTATION)
    return UNKNOWN


def _as_input(run: Interpreter, node: cst.CSTNode, value: Value) -> Value:
    """A forward's first argument that arithmetic joins with a tensor, and nothing calls a number, is one."""
    function = run.frame.function
    value = as_tensor_if_moved(value)
    if value.kind is not Kind.UNKNOWN or type(node) is not cst.Name or run.scene.role != "forward" or function is None:
        return value
    name = node.value
    if name not in function.parameters[:1] or f"like:{name}" not in value.facts:
        return value
    usage = run.frame.usage
    if name in usage.called or name in usage.unpacked or "[str]" in usage.attributes.get(name, ()):
        return value
    if any(given == name for given, _, _, _ in usage.torch_arguments):
        return value  # it would be known for a tensor, were it given to something that takes tensors
    return value.but(kind=Kind.TENSOR)


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
    for side in (node.left, *(c.comparator for c in node.comparisons)):
        mark_compared(run, side)
    if _asks_for_none(values, operators):
        return NUMBER
    if not any(o in _TRUTH_ONLY for o in operators):
        values = [as_tensor_if_moved(v) for v in values]
    if any(v.kind is Kind.TENSOR for v in values) and not any(o in _TRUTH_ONLY for o in operators):
        nodes = [node.left, *(c.comparator for c in node.comparisons)]
        values = [_as_input(run, n, v) for n, v in zip(nodes, values)]
        result = mix(run, node, "compare", [Operand(n, v) for n, v in zip(nodes, values)])
        if any(v.kind is Kind.UNKNOWN for v in values) and result.on_host:
            return result.but(places=(), facts=frozenset({"mask", "cut", "doubtful"}))
        return result.but(facts=frozenset({"mask", "cut"}))
    for value in values:
        read_pending(run, node, "compare", value)
    tests = _comparison_tests(run, node, values, operators)
    if any(o in _TRUTH_ONLY for o in operators) or not _may_be_elementwise(values):
        return Value(Kind.NUMBER, tests=tests)
    # What is compared may be tensors, and then the result is one.
    places = union(*(tuple(p._replace(rank=None) for p in v.places) for v in (values[0], values[-1])))
    facts = (values[0].facts | values[-1].facts) & _OF_A_COMPUTATION
    return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=facts, tests=tests)


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
    for value in values:
        if "modulo" not in value.facts:
            tests |= value.tests
        if value.kind is Kind.DEVICE or "device type" in value.facts:
            tests.add("accelerator")
        for text in (value, *(value.items or ())):
            if text.kind is Kind.STRING and text.name and _names_device(text.name):
                tests.add("accelerator")
    denied = any(o in (cst.NotEqual, cst.IsNot, cst.NotIn) for o in operators)
    if "accelerator" in tests and denied is not any(map(_is_cpu, values)):
        tests.discard("accelerator")
        tests.add("no-accelerator")
    return frozenset(tests)


def _names_device(text: str) -> bool:
    """Whether a text is a device, or the type of a tensor on one."""
    return text.split(":")[0] in (*_DEVICE_FAMILIES, "cpu", "gpu") or text.startswith("torch.cuda.")


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
    return value.but(facts=value.facts - {"fresh", "leaf", "parameter"}) if value.kind is Kind.TENSOR else value


@expression(cst.IfExp)
def conditional(run: Interpreter, node: cst.IfExp, env: Env) -> Value:
    test = run.evaluate(node.test, env)
    truth_test(run, node.test, test)
    key = condition_of(run, node.test)
    opposite = (key[0], not key[1]) if key is not None else None
    tests = tests_of(node.test, test)
    taken, skipped = dict(env), dict(env)
    narrow(run, node.test, taken, skipped)
    with run.under(tests, key):
        yes = run.evaluate(node.body, taken)
    with run.under(negated(tests), opposite):
        no = run.evaluate(node.orelse, skipped)
    if {yes.kind, no.kind} <= {Kind.STRING, Kind.DEVICE} and yes.kind is not Kind.NONE:
        chosen = _choice(run, node, test, yes, no)
        if chosen is not None:
            return chosen
    if yes.kind is no.kind is Kind.NUMBER:
        return Value(Kind.NUMBER, tests=test.tests if test.tests else yes.tests & no.tests)
    if yes.kind is Kind.NUMBER and no.kind is Kind.UNKNOWN and _asks_for_tensor(node.test):
        return yes  # `x.item() if isinstance(x, torch.Tensor) else x`: a number either way
    if (yes.kind is Kind.NONE and no.kind is Kind.UNKNOWN) or (no.kind is Kind.NONE and yes.kind is Kind.UNKNOWN):
        return yes if no.kind is Kind.NONE else no
    return join(*choose(yes, no, test.tests, key))


def _asks_for_tensor(test: cst.BaseExpression) -> bool:
    """Whether a test is `isinstance(x, torch.Tensor)` or `torch.is_tensor(x)`."""
    if type(test) is not cst.Call:
        return False
    name = (dotted(test.func) or "").rsplit(".", 1)[-1]
    kinds = test.args[-1].value if test.args else test
    return name == "is_tensor" or (name == "isinstance" and (dotted(kinds) or "").endswith("Tensor"))


def _choice(run: Interpreter, node: cst.IfExp, test: Value, yes: Value, no: Value) -> Value | None:
    """`"cuda" if torch.cuda.is_available() else "cpu"`: a device that is somewhere, nobody knows where."""
    texts = [v.name for v in (yes, no) if v.kind is Kind.STRING and v.name]
    families = {t.split(":")[0] for t in texts}
    if not families & {*_DEVICE_FAMILIES, "cpu", "gpu"} and Kind.DEVICE not in (yes.kind, no.kind):
        return None
    vendor = next((t for t in texts if t.split(":")[0] in _DEVICE_FAMILIES), "")
    if vendor and "cpu" in families and len(texts) == 2:
        run.emit(DeviceName(node, run.scene, vendor.split(":")[0], "choice", _decider(node.test, test), literal=vendor))
    places = (Alternative(Place(Where.NAMED, words(node) if "…" not in words(node) else "device"), None, node),)
    facts = yes.facts & no.facts & {"torch.device"} if yes.kind is no.kind else frozenset()
    return Value(Kind.DEVICE, places, facts=facts, tests=test.tests)


def _decider(node: cst.BaseExpression, test: Value) -> str:
    """What a choice of a device rests on: `not cpu`, another `comparison`, `is_available`, a `flag`."""
    while type(node) is cst.UnaryOperation:
        node = node.expression
    if type(node) is cst.Comparison and len(node.comparisons) == 1:
        texts = (string(node.left), string(node.comparisons[0].comparator))
        if any(t is not None and (t == "cpu" or is_vendor(t)) for t in texts):
            return "not cpu" if "cpu" in texts else "comparison"
    if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "startswith":
        return "comparison"
    if test.tests & {"accelerator", "no-accelerator"}:
        return "is_available"
    return "flag"


@expression(cst.Tuple, cst.List, cst.Set)
def display(run: Interpreter, node: cst.Tuple | cst.List | cst.Set, env: Env) -> Value:
    items = tuple(run.evaluate(e.value, env) for e in node.elements)
    if any(type(e) is cst.StarredElement for e in node.elements):
        element: Value | None = None
        for e, item in zip(node.elements, items):
            part = element_of(item) if type(e) is cst.StarredElement else item
            element = part if element is None else join(element, part)
        return Value(Kind.SEQUENCE, element=element)
    value = sequence(items)
    return value.but(facts=_MADE | {"fresh"} if items and all("fresh" in i.facts for i in items) else _MADE)


@expression(cst.Dict)
def dictionary(run: Interpreter, node: cst.Dict, env: Env) -> Value:
    element: Value | None = None
    keys: dict[str, Value] = {}
    for item in node.elements:
        value = run.evaluate(item.value, env)
        if type(item) is cst.DictElement:
            run.evaluate(item.key, env)
            key = string(item.key)
            if key is not None:
                keys[key] = value
        else:
            value = element_of(value)
        element = value if element is None else join(element, value)
    return Value(Kind.MAPPING, element=element, keys=keys or None, facts=_MADE)


def _comprehend(run: Interpreter, clause: cst.CompFor, env: Env) -> frozenset[str]:
    """Bind the names of a comprehension; returns what going through it says, as a loop does."""
    iterable = run.evaluate(clause.iter, env)
    tests = iterable.tests
    bind(run, clause.target, element_of(iterable), env, None)
    for test in clause.ifs:
        value = run.evaluate(test.test, env)
        truth_test(run, test.test, value)
        narrow(run, test.test, env, {})
        tests |= value.tests
    return tests | _comprehend(run, clause.inner_for_in, env) if clause.inner_for_in is not None else tests


@expression(cst.ListComp, cst.GeneratorExp, cst.SetComp)
def comprehension(run: Interpreter, node: cst.ListComp, env: Env) -> Value:
    inner = dict(env)
    with run.under(_comprehend(run, node.for_in, inner), None):
        element = run.evaluate(node.elt, inner)
    made = Value(Kind.SEQUENCE, element=element, facts=element.facts & {"fresh"} | _MADE)
    return note_filter(run, node, node.elt, made)


@expression(cst.DictComp)
def dict_comprehension(run: Interpreter, node: cst.DictComp, env: Env) -> Value:
    inner = dict(env)
    with run.under(_comprehend(run, node.for_in, inner), None):
        run.evaluate(node.key, inner)
        element = run.evaluate(node.value, inner)
    made = Value(Kind.MAPPING, element=element, facts=element.facts & {"fresh"} | _MADE)
    return note_filter(run, node, node.value, made)


@expression(cst.Integer, cst.Float, cst.Imaginary)
def number(run: Interpreter, node: cst.CSTNode, env: Env) -> Value:
    return NUMBER


@expression(cst.SimpleString)
def text(run: Interpreter, node: cst.SimpleString, env: Env) -> Value:
    value = string(node)
    if value is not None and is_vendor(value):
        run.literals[node] = run.scene
        if value.startswith("mps"):
            run.emit(DeviceName(node, run.scene, "mps", "mention", literal=value), "mention")
        return Value(Kind.STRING, name=value, ref=node)
    return Value(Kind.STRING, name=value)


@expression(cst.ConcatenatedString)
def concatenated(run: Interpreter, node: cst.ConcatenatedString, env: Env) -> Value:
    for part in (node.left, node.right):
        run.evaluate(part, env)
    return Value(Kind.STRING)


@expression(cst.FormattedString)
def formatted(run: Interpreter, node: cst.FormattedString, env: Env) -> Value:
    family: str | None = None
    for part in node.parts:
        if type(part) is cst.FormattedStringExpression:
            value = run.evaluate(part.expression, env)
            emit_sync(run, part.expression, "f-string", value, hidden=True)
        elif type(part) is cst.FormattedStringText and family is None:
            family = part.value.split(":")[0] if ":" in part.value else None
    if family in _DEVICE_FAMILIES:
        return Value(Kind.STRING, name=f"{family}:", facts=frozenset({"formatted"}))
    return Value(Kind.STRING)


@expression(cst.NamedExpr)
def named(run: Interpreter, node: cst.NamedExpr, env: Env) -> Value:
    value = run.evaluate(node.value, env)
    bind(run, node.target, value, env, node.value)
    return value


@expression(cst.StarredElement)
def starred(run: Interpreter, node: cst.StarredElement, env: Env) -> Value:
    return run.evaluate(node.value, env)


@expression(cst.Lambda)
def lambda_(run: Interpreter, node: cst.Lambda, env: Env) -> Value:
    inner = dict(env)
    for parameter in (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params):
        inner[parameter.name.value] = UNKNOWN
    scene = run.scene
    # It runs later, perhaps never in this loop.
    run.scene = scene._replace(loops=(), hot=False, stepwise=False)
    result = run.evaluate(node.body, inner)
    run.scene = scene
    return Value(Kind.FUNCTION, element=result)


@expression(cst.Await)
def await_(run: Interpreter, node: cst.Await, env: Env) -> Value:
    return run.evaluate(node.expression, env)


@expression(cst.Yield)
def yield_(run: Interpreter, node: cst.Yield, env: Env) -> Value:
    if node.value is None:
        return UNKNOWN
    if type(node.value) is cst.From:
        value = element_of(run.evaluate(node.value.item, env))
    else:
        value = run.evaluate(node.value, env)
    run.frame.yields = value if run.frame.yields is None else join(run.frame.yields, value)
    return UNKNOWN
