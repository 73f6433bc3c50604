"""Names, attributes, conditional expressions, lambdas, `await` and `yield`."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.definitions.classes import class_attribute, instance_attribute, saved_by_forward
from torchlint.placement.devices import TYPE_OF_TENSOR, is_type_of_tensor, is_vendor
from torchlint.placement.events import DeviceName, GradUse
from torchlint.placement.evidence.choices import may_be_of_others
from torchlint.placement.evidence.flags import as_flag, speaks_of_accelerators
from torchlint.placement.hazards.comparisons import (
    device_of,
    facts_of_texts,
    is_left_out,
    is_setting,
    part_of_device,
)
from torchlint.placement.hazards.wrappers import BEHIND, note_behind
from torchlint.placement.interpreter import Env, Interpreter, expression, negated
from torchlint.placement.knowledge.apis import api_value
from torchlint.placement.knowledge.frameworks_bridge import OF_GRAPH, OF_GRAPHS, framework_attribute
from torchlint.placement.language.binding import bind
from torchlint.placement.language.branches import choose, condition_of
from torchlint.placement.language.conditions import narrow, truth_test
from torchlint.placement.language.displays import DEVICE_FAMILIES
from torchlint.placement.language.guards import tests_of
from torchlint.placement.language.subscripts import handed_on, is_symbolic
from torchlint.placement.syntax import (
    dotted,
    parameters,
    string,
    words,
)
from torchlint.placement.torch_functions.distributions import distribution_attribute
from torchlint.placement.values import (
    ARRAY,
    DISTRIBUTION,
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
    join,
    narrowed,
    place_named,
    sequence,
    tensor,
    with_rank,
)

#: What names that a star import brings stand for by custom.
_BY_CUSTOM = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy"}


_TENSOR_VIEWS = frozenset(["T", "mT", "H", "mH", "data", "grad", "real", "imag"])


_HOST_ATTRIBUTES = frozenset(
    ["ndim", "dtype", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "names", "is_sparse"]
)


_CONSTANTS = {"True": Value(Kind.NUMBER, name="True"), "False": Value(Kind.NUMBER, name="False"), "None": NONE}


_OF_MODULE = frozenset({"of module"})


@expression(cst.Name)
def name(run: Interpreter, node: cst.Name, env: Env) -> Value:
    text = node.value
    constant = _CONSTANTS.get(text)
    if constant is not None:
        return constant
    value = run.lookup(text, env)
    if value is None and (text == "torch" or (text in _BY_CUSTOM and run.usage.star_imports)):
        return Value(Kind.API, name=_BY_CUSTOM[text])
    if value is None:
        value = UNKNOWN
    return as_flag(value, text) if speaks_of_accelerators(text) else value  # next to no name does


@expression(cst.Attribute)
def attribute(run: Interpreter, node: cst.Attribute, env: Env) -> Value:
    text = dotted(node)
    if text is not None:
        known = env.get(text)
        if known is not None:
            return as_flag(narrowed(known, run.scene.conditions), node.attr.value)
    base = run.evaluate(node.value, env)
    return as_flag(attribute_of(run, base, node.attr.value, node, env), node.attr.value)


_SAVED = frozenset(["saved_tensors", "saved_variables"])


def attribute_of(run: Interpreter, base: Value, attr: str, node: cst.Attribute, env: Env) -> Value:
    """The attribute `attr` of a value."""
    if base.kind is Kind.API:
        return api_value(f"{base.name}.{attr}")
    if base.kind is Kind.CLASS and base.ref is not None:
        return class_attribute(run, base.ref, attr)
    if BEHIND in base.facts:
        if attr == "module":
            return base.but(facts=base.facts - {BEHIND, "wrapped"})
        note_behind(run, node, base, attr)
    if base.ref is not None and base.kind in (Kind.MODULE, Kind.OBJECT):
        found = instance_attribute(run, base, attr, node)
        if found is not None:
            return found
    if base.kind is Kind.OBJECT and base.name == DISTRIBUTION:
        return distribution_attribute(base, attr)
    if attr in _SAVED and base.kind is Kind.UNKNOWN:
        saved = saved_by_forward(run)
        if saved is not None:
            return saved
    known = framework_attribute(base, attr, node)
    if known is not None:
        return known
    if attr == "device":
        _note_asked(run, base)
        return _device_attribute(base, node)
    if base.kind is Kind.DEVICE:
        return part_of_device(run, node, base, attr)
    if attr == "dtype":
        return Value(Kind.DTYPE)
    if attr == "training":
        return Value(Kind.NUMBER, tests=frozenset({"training"}))
    if attr in ("is_cuda", "is_mps", "is_xpu"):
        _note_asked(run, base)
        return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
    if attr == "dtype" and base.kind in (Kind.UNKNOWN, Kind.MODULE, Kind.OWNED):
        return Value(Kind.DTYPE)
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
        facts = frozenset() if base.ref is not None else _OF_MODULE
        return Value(Kind.UNKNOWN, base.places if is_symbolic(base) else (), facts=facts)
    if attr == "data" and base.kind is Kind.UNKNOWN and "of module" in base.facts:
        # What a Module has and has `data` is a parameter.
        return tensor(base.places, Certainty.INFERRED, frozenset({"parameter"}))
    if base.kind is Kind.UNKNOWN and base.places and attr in ("T", "mT", "H", "mH"):
        return base.but(facts=base.facts & {"assumed", "perhaps"})
    if base.kind is Kind.OWNED and base.element is not None and base.name == "transformers.BatchEncoding":
        return base.element if attr not in ("encodings", "is_fast", "n_sequences") else UNKNOWN
    if base.kind is Kind.OWNED and base.element is not None and base.name == OF_GRAPHS and attr in OF_GRAPH:
        return base.element
    if base.kind in (Kind.UNKNOWN, Kind.OWNED, Kind.MAPPING):
        # What a batch or an output holds lives where it does.
        places = with_rank(base.places, None)
        return Value(Kind.UNKNOWN, places, min(base.certainty, Certainty.INFERRED), facts=handed_on(base))
    return UNKNOWN


def _note_asked(run: Interpreter, base: Value) -> None:
    """The function wants to know where its caller has something."""
    function = id(run.scene.function)
    run.asked.update((function, p.place) for p in base.places if p.place.where is Where.OF_CALLER)


def _device_attribute(base: Value, node: cst.Attribute) -> Value:
    places = with_rank(base.places, None)
    options = base.kind is Kind.UNKNOWN and is_setting(words(node.value))
    if not places or options:
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
    if (yes.kind is Kind.NONE and no.kind is Kind.UNKNOWN) or (
        no.kind is Kind.NONE and yes.kind is Kind.UNKNOWN
    ):
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
    if not families & {*DEVICE_FAMILIES, "cpu", "gpu"} and Kind.DEVICE not in (yes.kind, no.kind):
        return None
    vendor = next((t for t in texts if t.split(":")[0] in DEVICE_FAMILIES), "")
    if vendor and "cpu" in families and len(texts) == 2:
        run.emit(
            DeviceName(
                node, run.scene, vendor.split(":")[0], "choice", _decider(run, node.test, test), literal=vendor
            )
        )
    name = words(node) if "…" not in words(node) else "device"
    places = (Alternative(Place(Where.NAMED, name, _only_accelerator(yes, no)), None, node),)
    facts = yes.facts & no.facts & {"torch.device"} if yes.kind is no.kind else frozenset()
    if is_left_out(run, node.body, yes) or is_left_out(run, node.orelse, no):
        facts |= (yes.facts | no.facts) & {"torch.device"}
    if sum(v.name == "cpu" or v.on_host for v in (yes, no)) == 1 and is_type_of_tensor(node):
        facts |= {TYPE_OF_TENSOR}
    refused = next((v for v in (yes, no) if "refused" in v.facts), None)
    if refused is not None:
        return Value(Kind.DEVICE, places, facts=facts | {"refused"}, tests=test.tests, ref=refused.ref)
    if len(texts) == 2:
        facts |= {"text"} | facts_of_texts(*texts)
    return Value(Kind.DEVICE, places, facts=facts, tests=test.tests)


def _only_accelerator(yes: Value, no: Value) -> str:
    """The accelerator that a choice with the CPU gives, where the code spells it out."""
    found: list[Place] = []
    for value in (yes, no):
        if value.kind is Kind.STRING and value.name:
            found.append(place_named(value.name))
        elif value.kind is Kind.DEVICE and len(value.places) == 1:
            found.append(value.places[0].place)
    away = [place for place in found if not place.is_host]
    return away[0].accelerator if len(found) == 2 and len(away) == 1 else ""


def _decider(run: Interpreter, node: cst.BaseExpression, test: Value) -> str:
    """What a choice of a device rests on: that a device of any kind is `not cpu`, another `comparison`,
    `is_available`, a `flag`."""
    while type(node) is cst.UnaryOperation:
        node = node.expression
    if type(node) is cst.Comparison and len(node.comparisons) == 1:
        sides = (node.left, node.comparisons[0].comparator)
        texts = tuple(map(string, sides))
        if any(t is not None and (t == "cpu" or is_vendor(t)) for t in texts):
            asked = sides[texts[0] is not None]
            others = "cpu" in texts and may_be_of_others(run, asked)
            return "not cpu" if others else "comparison"
    if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "startswith":
        return "comparison"
    if test.tests & {"accelerator", "no-accelerator"}:
        return "is_available"
    return "flag"


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
    for parameter in parameters(node):
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
