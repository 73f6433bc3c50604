"""Functions: their parameters, their role, their summary, and what a call of one gives."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.placement import torch_api
from torchlint.placement.definitions import Class, Function
from torchlint.placement.events import Autocast, DeviceName, Mix, Operand
from torchlint.placement.evidence import from_annotation, given_as_tensor, kind_from_use
from torchlint.placement.interpreter import MOST_NESTED_SUMMARIES, Env, Frame, Interpreter
from torchlint.placement.project import MOST_NESTED_MODULES
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import dotted, string, words
from torchlint.placement.values import (
    NONE,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    join,
    sequence,
    union,
)

_DEVICE_FAMILIES = ("cuda", "mps", "xpu")


def define(run: Interpreter, node: cst.FunctionDef, env: Env, owner: Class | None) -> Value:
    """Make the Function of a `def`; its decorators and defaults run where it stands."""
    outer = (env, *run.frame.outer) if run.frame.function is not None else ()
    function = Function(node, run, outer, owner)
    names = []
    for decorator in node.decorators:
        value = run.evaluate(decorator.decorator, env)
        target = decorator.decorator.func if type(decorator.decorator) is cst.Call else decorator.decorator
        api = run.evaluate(target, env) if type(decorator.decorator) is cst.Call else value
        names.append(api.name if api.kind is Kind.API and api.name else words(target))
        if value.kind is Kind.API and value.name and value.name.rsplit(".", 1)[-1] == "autocast":
            run.emit(Autocast(decorator.decorator, run.scene, value.name, None, "default", decorator=True))
    function.decorators = tuple(names)
    for parameter in all_parameters(node):
        if parameter.default is not None:
            run.evaluate(parameter.default, env)
            _default_device(run, parameter)
    run.functions.append(function)
    return Value(Kind.FUNCTION, ref=function)


def all_parameters(node: cst.FunctionDef) -> Iterable[cst.Param]:
    """The named parameters of a function in order."""
    return (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)


def _default_device(run: Interpreter, parameter: cst.Param) -> None:
    text = string(parameter.default) if parameter.default is not None else None
    if text is not None and text.split(":")[0] in _DEVICE_FAMILIES and "device" in parameter.name.value.lower():
        assert parameter.default is not None
        run.emit(DeviceName(parameter.default, run.scene, text.split(":")[0], "default", parameter.name.value, literal=text))


def role_of(run: Interpreter, function: Function) -> str:
    """The role of a function's code (see Scene)."""
    name, owner = function.name, function.owner
    usage = run.usage.of(function.node)
    if name in ("__getitem__", "__getitems__", "__len__") or "collate" in name or (owner is not None and owner.is_data):
        return "data"
    if owner is not None and owner.is_optimizer and name == "step":
        return "optimizer"
    if name == "__init__":
        return "init"
    if owner is not None and owner.is_module and name == "forward":
        return "forward"
    if name == "training_step":
        return "step"
    if name in ("validation_step", "test_step", "predict_step"):
        return "evaluation"
    if usage.backward:
        return "step"
    if owner is not None and (owner.is_autograd_function and name in ("forward", "backward")):
        return "forward"
    if name == "loss" or name.endswith("_loss") or (owner is not None and owner.is_module and name in ("loss", "compute_loss")):
        return "loss"
    if name.startswith("test_") or (owner is not None and owner.is_test):
        return "test"
    lowered = name.lower()
    if lowered.startswith(("eval", "valid", "test", "predict", "infer")):
        return "evaluation"
    return "function"


def summarise(function: Function) -> None:
    """Interpret a function's body once; afterwards its summary is there. Recursion finds `state` and stops."""
    if function.state != "new":
        return
    run = function.run
    if run.depth >= MOST_NESTED_SUMMARIES:
        return
    project = run.project if run.silent else None
    if project is not None:
        if project.nesting >= MOST_NESTED_MODULES:
            return
        project.nesting += 1
    try:
        _summarise(function, run)
    finally:
        if project is not None:
            project.nesting -= 1


def _summarise(function: Function, run: Interpreter) -> None:
    function.state = "running"
    frame, scene, places, depth = run.frame, run.scene, run.context_places, run.depth
    node = function.node
    run.depth += 1
    run.frame = Frame(function, function.outer, run.usage.of(node))
    run.context_places = None
    run.scene = Scene(
        role=role_of(run, function),
        function=node,
        owner=function.owner,
        tests=_decorator_tests(function),
        no_grad=function.has_decorator("no_grad", "inference_mode"),
        autocast=function.has_decorator("autocast"),
        default_device=scene.default_device,
        is_test=scene.is_test or (function.owner is not None and function.owner.is_test),
    )
    env = _parameters(run, function)
    try:
        run.suite(node.body, env)
        function.returns = run.frame.returns
        function.yields = run.frame.yields
        function.generator = run.frame.usage.is_generator
    except RecursionError:
        run.failures.append((node, "nested too deeply to follow"))
    finally:
        run.frame, run.scene, run.context_places, run.depth = frame, scene, places, depth
        function.state = "done"
    function.result = _result(run, function, env)


def _result(run: Interpreter, function: Function, env: Env) -> Value:
    if function.generator:
        return Value(Kind.SEQUENCE, element=function.yields or UNKNOWN)
    result: Value | None = None
    for _, value in function.returns:
        result = value if result is None else join(result, value)
    if result is None:
        return NONE
    annotation = function.node.returns
    if annotation is not None and result.kind is Kind.UNKNOWN:
        promised = from_annotation(annotation.annotation, run, result.places)
        if promised is not None and promised.kind is not Kind.UNKNOWN:
            return promised
    return result


def _decorator_tests(function: Function) -> frozenset[str]:
    """A test that is skipped without an accelerator, and its like."""
    text = " ".join(function.decorators).lower() + " ".join(words(d.decorator).lower() for d in function.node.decorators)
    tests: set[str] = set(function.owner.guards) if function.owner is not None else set()
    if any(w in text for w in ("cuda", "gpu", "accelerator", "skip", "require")):
        tests.add("accelerator")
    return frozenset(tests)


def _parameters(run: Interpreter, function: Function) -> Env:
    env: Env = {}
    node = function.node
    owner = function.owner
    for position, parameter in enumerate(all_parameters(node)):
        name = parameter.name.value
        if position == 0 and owner is not None and not function.is_static:
            run.frame.self_name = name
            if function.has_decorator("classmethod"):
                env[name] = Value(Kind.CLASS, ref=owner)
            else:
                env[name] = instance_of(owner)
            continue
        function.parameters.append(name)
        env[name] = _parameter(run, name, parameter, function)
    for extra in (node.params.star_arg, node.params.star_kwarg):
        if isinstance(extra, cst.Param):
            inner = Value(Kind.UNKNOWN, (Alternative(Place(Where.OF_CALLER, extra.name.value), None, extra),))
            mapping = extra is node.params.star_kwarg
            env[extra.name.value] = Value(Kind.MAPPING if mapping else Kind.SEQUENCE, element=inner)
    return env


def instance_of(owner: Class) -> Value:
    """What `self` is in the methods of a class."""
    if owner.is_module:
        return Value(Kind.MODULE, (Alternative(Place(Where.OF_MODULE, owner.name)),), ref=owner)
    return Value(Kind.OBJECT, ref=owner)


def _parameter(run: Interpreter, name: str, parameter: cst.Param, function: Function) -> Value:
    places = (Alternative(Place(Where.OF_CALLER, name), None, parameter),)
    facts = frozenset({f"like:{name}"})
    if parameter.annotation is not None:
        value = from_annotation(parameter.annotation.annotation, run, places)
        if value is not None:
            if value.kind is Kind.UNKNOWN:
                return value.but(facts=facts)
            if value.kind is Kind.OBJECT and value.ref is None and "device" in name.lower():
                return _device_parameter(name, parameter)
            return value.but(facts=value.facts | facts) if value.kind is Kind.TENSOR else value
    if "device" in name.lower() and "map" not in name.lower():
        return _device_parameter(name, parameter)
    if name == "dtype" or name.endswith("_dtype"):
        return Value(Kind.DTYPE)
    default = parameter.default
    if default is not None:
        if type(default) in (cst.Integer, cst.Float):
            return NUMBER
        if type(default) is cst.SimpleString:
            return Value(Kind.STRING)
        if type(default) is cst.Name and default.value in ("True", "False"):
            lowered = name.lower()
            flag = any(w in lowered for w in ("cuda", "gpu", "mps"))
            return Value(Kind.NUMBER, tests=frozenset({"flag"}) if flag else frozenset())
    kind = kind_from_use(name, run.frame.usage)
    if kind is not None:
        return Value(kind, places, Certainty.INFERRED, facts=facts)
    if _is_tensor_argument(name, run, function):
        return Value(Kind.TENSOR, places, Certainty.INFERRED, facts=facts)
    return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=facts)


def _is_tensor_argument(name: str, run: Interpreter, function: Function) -> bool:
    """Whether a parameter goes into a function of torch that takes tensors, or is used like one in a forward."""
    usage = run.frame.usage
    if given_as_tensor(name, usage):
        return True
    owner = function.owner
    if owner is None or not owner.is_module or function.name != "forward":
        return False
    if name in usage.called or name in usage.unpacked:
        return False
    attributes = usage.attributes.get(name, set())
    if not {a for a in attributes if a not in ("size()", "dim()", "dim=", "[,]")} <= torch_api.TENSOR_ATTRIBUTES:
        return False
    return bool(attributes & {"shape", "mean", "sum", "device", "dtype", "any", "all", "reshape", "view"})


def _device_parameter(name: str, parameter: cst.Param) -> Value:
    return Value(Kind.DEVICE, (Alternative(Place(Where.NAMED, name), None, parameter),), Certainty.INFERRED)


# ---------------------------------------------------------------------- calls


def bind_arguments(
    function: Function, positional: Iterable[Value], keywords: dict[str, Value]
) -> dict[str, Value]:
    """Which value each parameter gets."""
    bound = dict(zip(function.parameters, positional))
    for name, value in keywords.items():
        if name in function.parameters:
            bound[name] = value
    return bound


def call_function(
    run: Interpreter, function: Function, node: cst.Call, positional: list[Operand], keywords: dict[str, Value]
) -> Value:
    """What a call of a project function gives, from its summary."""
    if function.state == "running":
        return UNKNOWN
    summarise(function)
    bound = bind_arguments(function, (o.value for o in positional), keywords)
    _judge_call(run, function, node, bound)
    result = substitute(function.result, bound)
    if function.has_decorator("contextmanager", "asynccontextmanager"):
        return Value(Kind.CONTEXT)
    return result


def _judge_call(run: Interpreter, function: Function, node: cst.Call, bound: dict[str, Value]) -> None:
    """An operation inside joins two parameters: this call may give it a host tensor and another."""
    for first, second, where in function.mixes:
        a, b = bound.get(first), bound.get(second)
        if a is None or b is None or Kind.TENSOR not in (a.kind, b.kind):
            continue
        for accused, witness in ((a, b), (b, a)):
            if accused.kind is not Kind.TENSOR or witness.kind is not Kind.TENSOR or "assumed" in witness.facts:
                continue
            host = next((p for p in accused.places if p.place.is_host and p.rank == 1), None)
            other = next((p for p in witness.places if not p.place.is_host and p.place.where is not Where.UNKNOWN), None)
            if host is not None and other is not None and accused.on_host and not witness.may_be_on_host:
                operands = (Operand(where, accused), Operand(where, witness))
                run.emit(Mix(node, run.scene, function.name, operands, (operands[0], host), (operands[1], other)))
                return


def substitute(value: Value, bound: dict[str, Value], depth: int = 0) -> Value:
    """A summary's value in terms of a call: what belongs to a parameter is where its argument is."""
    if depth > 3 or value is UNKNOWN:
        return value
    places: tuple[Alternative, ...] = ()
    facts = value.facts
    kind = value.kind
    for alternative in value.places:
        where, name = alternative.place
        if where is Where.OF_CALLER:
            argument = bound.get(name)
            if argument is not None:
                places = union(places, tuple(p._replace(rank=alternative.rank if alternative.rank is not None else p.rank if f"like:{name}" in facts else None) for p in argument.places))
                if "assumed" in argument.facts:
                    facts |= {"assumed"}
        elif where is Where.NAMED and name in bound:
            target = bound[name]
            named = tuple(p._replace(rank=alternative.rank, origin=p.origin or alternative.origin) for p in target.places)
            if target.kind is Kind.STRING and target.name:
                device = target.name
                named = (alternative._replace(place=Place(Where.HOST) if device == "cpu" else Place(Where.NAMED, device)),)
            places = union(places, named or (alternative,))
        else:
            places = union(places, (alternative,))
    like = [f[5:] for f in facts if f.startswith("like:")]
    if like:
        argument = bound.get(like[0])
        facts = frozenset(f for f in facts if not f.startswith("like:"))
        if argument is not None and kind is Kind.UNKNOWN:
            kind = argument.kind
            facts |= frozenset(f for f in argument.facts if f.startswith("like:"))
            if kind in (Kind.SEQUENCE, Kind.MAPPING, Kind.MODULE, Kind.OBJECT):
                return argument if not places else argument.but(places=places)
    items = tuple(substitute(i, bound, depth + 1) for i in value.items) if value.items is not None else None
    element = substitute(value.element, bound, depth + 1) if value.element is not None and items is None else None
    if items is not None:
        element = sequence(items).element
    keys = {k: substitute(v, bound, depth + 1) for k, v in value.keys.items()} if value.keys else None
    return value.but(kind=kind, places=places, facts=facts, items=items, element=element, keys=keys)
