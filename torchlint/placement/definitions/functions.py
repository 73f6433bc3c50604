"""Functions: their parameters, their role, their summary, and what a call of one gives."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

import libcst as cst

from torchlint.placement.allowance import MOST_NESTED_LINES, Allowance
from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.calls.owing import settle_owed
from torchlint.placement.calls.passing import judge_call
from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.definitions.substitution import bind_arguments, substitute
from torchlint.placement.devices import (
    mark_decorator,
    mark_default,
    name_tensor_type,
    note_cuda_autocast,
    settle_defaults,
)
from torchlint.placement.events import Autocast
from torchlint.placement.evidence.kinds import (
    MARKS,
    from_annotation,
    given_as_tensor,
    goes_into_module,
    holds_tensors,
    is_made_tensor,
    kind_from_use,
    speaks_in_forward,
)
from torchlint.placement.hazards.graphs import returned_loss
from torchlint.placement.hazards.helpers import helper_style, note_nested
from torchlint.placement.hazards.ignored import note_ignored_device
from torchlint.placement.hazards.timers import note_timed
from torchlint.placement.interpreter import MOST_NESTED_SUMMARIES, Env, Frame, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.project import MOST_NESTED_MODULES
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import (
    parameters,
    words,
)
from torchlint.placement.values import (
    NO_FACTS,
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
    without_graph,
)

#: Calls whose arguments are kept, of each function.
MOST_CALLS = 20
#: What the file's own statements may have asked before a function is called.
_OF_THE_FILE = frozenset(["accelerator", "no-accelerator", "flag"])


def define(run: Interpreter, node: cst.FunctionDef, env: Env, owner: Class | None) -> Value:
    """Make the Function of a `def`; its decorators and defaults run where it stands."""
    outer = (env, *run.frame.outer) if run.frame.function is not None else ()
    function = Function(node, run, outer, owner)
    names = []
    for decorator in node.decorators:
        value = run.evaluate(decorator.decorator, env)
        mark_decorator(run, decorator)
        target = decorator.decorator.func if type(decorator.decorator) is cst.Call else decorator.decorator
        api = run.evaluate(target, env) if type(decorator.decorator) is cst.Call else value
        names.append(api.name if api.kind is Kind.API and api.name else words(target))
        bare = torch_api.canonical(value.name) if value.kind is Kind.API and value.name else ""
        # A project's own function of the name takes the function that it decorates.
        if bare.startswith("torch.") and bare.endswith(".autocast"):
            run.emit(
                Autocast(
                    decorator.decorator,
                    run.scene,
                    bare,
                    None,
                    "default",
                    decorator=True,
                )
            )
            note_cuda_autocast(run, decorator.decorator, bare)
    function.decorators = tuple(names)
    for parameter in parameters(node):
        if parameter.default is not None:
            function.defaults[parameter.name.value] = run.evaluate(parameter.default, env)
            mark_default(run, parameter)
            name_tensor_type(run, parameter.default, function.defaults[parameter.name.value])
    run.functions.append(function)
    return Value(Kind.FUNCTION, ref=function)


#: Names of classes that prepare data, where they are no Modules.
_DATA_CLASS = re.compile(
    r"(?:Dataset|Collat[oe]r?|(?:Image|Text|Audio|Video|Data|Pre|Feature)\w*Processor|Transforms?|Tokenizer|Augment(?:ation|er)?|Loader|Reader)$"
)


def role_of(run: Interpreter, function: Function) -> str:
    """The role of a function's code (see Scene)."""
    name, owner = function.name, function.owner
    usage = run.usage.of(function.node)
    if name in ("__getitem__", "__getitems__", "__len__") or "collate" in name or (owner is not None and owner.is_data):
        return "data"
    if name in run.usage.collating and name not in _TRAINING:
        return "data"
    if owner is not None and not owner.is_module and _DATA_CLASS.search(owner.name):
        return "data"
    if owner is not None and owner.is_optimizer and name == "step":
        return "optimizer"
    if name == "__init__" or (owner is not None and run.usage.is_setup(function.node)):
        return "init"
    if name in _GROWING and owner is not None and owner.is_module:
        return "init"
    if owner is not None and owner.is_module and name == "forward":
        return "forward"
    if name == "training_step" or _runs_in_every_step(function):
        return "step"
    if name in ("validation_step", "test_step", "predict_step"):
        return "evaluation"
    if usage.backward:
        return "step"
    if owner is not None and (owner.is_autograd_function and name in ("forward", "backward")):
        return "forward"
    penalises = (
        not usage.trains
        and _CHECK_NAME.search(name) is None
        and "grad" in run.usage.mentions
        and any(c.endswith("autograd.grad") for c in usage.called)
    )
    if _LOSS_NAME.search(name) or penalises:
        return "loss"
    if name.startswith("test_") or (owner is not None and (owner.is_test or _tests_itself(function))):
        return "test"
    lowered = name.lower()
    if lowered.startswith(("eval", "valid", "test", "predict", "infer")):
        return "evaluation"
    return "function"


def _tests_itself(function: Function) -> bool:
    """`def test(self): out = self.forward(torch.rand(1, 3))`: a Module that is tried out, where it was made."""
    named = function.name == "test" or _CHECK_NAME.search(function.name) is not None
    return (
        named
        and function.owner is not None
        and function.owner.is_module
        and all("device" in name for name in function.parameters)
    )


#: What functions are called that see whether code is right: its gradients, its shapes.
_CHECK_NAME = re.compile(r"^_*(?:check|verify|sanity|debug|self_?test)(?:_|$)")


#: Methods by which a container of Modules is put together, before anybody moves it.
_GROWING = frozenset(["append", "insert", "extend", "add_module"])


#: What other code calls in training, whatever a loader takes it for.
_TRAINING = frozenset(["forward", "__call__", "training_step", "loss"])


#: What a function is called that does one step of a training.
_STEP_NAME = re.compile(r"step|update|train|learn|optimi[sz]e|closure|iter|batch|backward|_fit|^fit", re.IGNORECASE)


#: What functions are called that fill a model from what was saved: the host copies.
_LOADS = re.compile(r"^_*(?:re)?(?:load|restore)(?:_|$)")


#: What functions are called that compute a loss.
_LOSS_NAME = re.compile(r"(^|_)loss(es)?(_|$)|(^|_)criterion(_|$)|gradient_penalty", re.IGNORECASE)


def _is_one_step(run: Interpreter, function: Function) -> bool:
    """Whether a function that holds a backward runs for every batch, rather than once."""
    if function.name in run.usage.called_in_loops or _STEP_NAME.search(function.name) is not None:
        return True
    return _runs_in_every_step(function)


#: Hooks that Lightning and transformers call once a batch or an optimizer step.
_HOOKS = re.compile(
    r"^on_(?:train_batch_(?:start|end)|(?:after|before)_backward|before_(?:optimizer_step|zero_grad)|(?:sub)?step_end)$"
)


def _runs_in_every_step(function: Function) -> bool:
    """Whether a framework calls a method in every step: a hook of it, or the loss of a trainer."""
    owner = function.owner
    if owner is None:
        return False
    names = {owner.name, *(n.rsplit(".", 1)[-1] for n in owner.kind_names)}
    if _HOOKS.search(function.name):
        return any(n.endswith(("Callback", "LightningModule", "Trainer", "Module")) for n in names)
    return function.name.endswith("compute_loss") and any(n.endswith("Trainer") for n in names)


#: Decorators under which a function is no part of a training step.
_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")


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
    allowance = run.allowance
    if run.silent:
        run.allowance = Allowance(MOST_NESTED_LINES)
    try:
        _summarise(function, run)
    finally:
        run.allowance = allowance
        if project is not None:
            project.nesting -= 1


def _summarise(function: Function, run: Interpreter) -> None:
    function.state = "running"
    frame, scene, places, depth = run.frame, run.scene, run.context_places, run.depth
    statement = run.statement
    node = function.node
    run.depth += 1
    run.frame = Frame(function, function.outer, run.usage.of(node))
    run.context_places = None
    line = run.timeline
    worked, work, waited, given, drained = line.worked, line.work, line.waited, line.given, line.drained
    line.now += 1
    began = run.frame.began = line.now
    line.drained = None
    role = function.role = role_of(run, function)
    run.scene = Scene(
        role=role,
        stepwise=role == "optimizer"
        or (role == "forward" and not function.has_decorator(*_WITHOUT_GRADIENTS))
        or (role == "step" and _is_one_step(run, function)),
        function=node,
        owner=function.owner,
        tests=_decorator_tests(function) | (scene.tests & _OF_THE_FILE if scene.function is None else frozenset()),
        no_grad=function.has_decorator(*_WITHOUT_GRADIENTS),
        autocast=_decorating_autocast(run, function),
        default_device=scene.default_device,
        host_only=scene.host_only,
        host_program=scene.host_program,
        converts=scene.converts,
        is_test=scene.is_test or (function.owner is not None and function.owner.is_test),
        device_aware=_is_device_aware(run, function),
        offered=role == "function" and function.owner is None and not function.outer and run.offers,
        reached=role == "function" and run.usage.is_trained(node),
    )
    if function.moment is not None:
        around = function.moment[0]
        run.scene = run.scene._replace(
            role=around.role if role == "function" and around.role in ("forward", "loss", "init") else role,
            stepwise=run.scene.stepwise or around.stepwise, loops=around.loops, hot=around.hot,
            step_loop=around.step_loop,
            tests=run.scene.tests | around.tests, no_grad=run.scene.no_grad or around.no_grad,
            autocast=run.scene.autocast or around.autocast, device_aware=run.scene.device_aware or around.device_aware,
            offered=run.scene.offered or around.offered,
        )  # fmt: skip
    env = _parameters(run, function)
    run.frame.parameters = dict(env)
    settle_defaults(run, function)
    try:
        run.suite(node.body, env)
        function.returns = run.frame.returns
        function.yields = run.frame.yields
        function.generator = run.frame.usage.is_generator
    except RecursionError:
        run.failures.append((node, "nested too deeply to follow"))
    finally:
        run.frame, run.scene, run.context_places, run.depth = frame, scene, places, depth
        run.statement = statement
        function.works = line.worked != worked
        function.waits = line.waited != waited
        function.gives = line.given != given
        function.drains = line.read > max(line.given, began)
        line.worked, line.work, line.waited, line.given, line.drained = worked, work, waited, given, drained
        function.state = "done"
    function.result = _result(run, function, env)
    _settle_attributes(function, env)
    function.helper = helper_style(function)
    note_ignored_device(run, function)


def _settle_attributes(function: Function, env: Env) -> None:
    """What the attributes hold at the end of a constructor, where it alone assigns them."""
    owner, node = function.owner, function.node
    if owner is None or function.name != "__init__" or not node.params.params:
        return
    prefix = f"{node.params.params[0].name.value}."
    for key, value in env.items():
        name = key[len(prefix) :]
        if key.startswith(prefix) and owner.assigned_in.get(name) == {"__init__"} and name in owner.attributes:
            owner.attributes[name] = value
            if value.on_host or value.kind is Kind.NONE:
                owner.unsure.discard(name)


#: What code reads or calls that is written for tensors on any device.
_PLACING = frozenset(
    "device cuda type_as new_zeros new_ones new_full new_tensor new_empty new is_cuda get_device".split()
)


#: What classes are called whose instances compute a loss.
_LOSS_CLASS = re.compile(r"Loss(?:es|Computation)?(?=$|[A-Z0-9_])|Criterion")


def _is_device_aware(run: Interpreter, function: Function) -> bool:
    owner = function.owner
    trained = not function.outer and run.usage.is_trained(function.node)
    if (owner is not None and owner.is_module) or trained:
        return True
    if run.path.endswith(".ipynb"):
        return False  # a page calls all its functions itself
    if _places(run, function):
        return True
    if owner is None or owner.is_data or _DATA_CLASS.search(owner.name):
        return False
    return _LOSS_CLASS.search(owner.name) is not None or any(
        _places(method.run, method) for cls in owner.lineage() for method in cls.methods.values()
    )


def _places(run: Interpreter, function: Function) -> bool:
    """Whether a function itself reads or chooses devices."""
    if any("device" in p.name.value.lower() for p in parameters(function.node)):
        return True
    usage = run.usage.of(function.node)
    return usage.moves or usage.chooses or any(used & _PLACING for used in usage.attributes.values())


def _result(run: Interpreter, function: Function, env: Env) -> Value:
    if function.generator:
        return Value(Kind.SEQUENCE, element=function.yields or UNKNOWN)
    result: Value | None = None
    trains = run.usage.of(function.node).trains
    for statement, value in function.returns:
        if trains:
            value = returned_loss(run, function, statement, value)
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
    text = " ".join(function.decorators).lower() + " ".join(
        words(d.decorator).lower() for d in function.node.decorators
    )
    tests: set[str] = set(function.owner.guards) if function.owner is not None else set()
    if any(w in text for w in ("cuda", "gpu", "accelerator", "skip", "require")):
        tests.add("accelerator")
    return frozenset(tests)


def _decorating_autocast(run: Interpreter, function: Function) -> str:
    for decorator in function.node.decorators:
        event = run.events.get((Autocast, decorator.decorator))
        if isinstance(event, Autocast):
            return event.covers
    return ""


def _parameters(run: Interpreter, function: Function) -> Env:
    env: Env = {}
    node = function.node
    owner = function.owner
    for position, parameter in enumerate(parameters(node)):
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
        passed = function.moment[1].get(name) if function.moment is not None else None
        if passed is not None and env[name].kind is Kind.UNKNOWN and passed.kind is not Kind.UNKNOWN:
            env[name] = passed
        function.kinds[name] = env[name].kind
    for extra in (node.params.star_arg, node.params.star_kwarg):
        if isinstance(extra, cst.Param):
            inner = Value(Kind.UNKNOWN, (Alternative(Place(Where.OF_CALLER, extra.name.value), None, extra),))
            mapping = extra is node.params.star_kwarg
            env[extra.name.value] = Value(Kind.MAPPING if mapping else Kind.SEQUENCE, element=inner)
    return env


def instance_of(owner: Class) -> Value:
    """What `self` is in the methods of a class."""
    if owner.is_module:
        certainty = Certainty.KNOWN if owner.is_known_module else Certainty.INFERRED
        return Value(Kind.MODULE, (Alternative(Place(Where.OF_MODULE, owner.name)),), certainty, ref=owner)
    return Value(Kind.OBJECT, ref=owner)


#: What a loop takes out of a loader is on the host for all one knows, but for the calls.
_TAKEN = frozenset({"assumed", "taken"})


def _parameter(run: Interpreter, name: str, parameter: cst.Param, function: Function) -> Value:
    places: tuple[Alternative, ...] = (Alternative(Place(Where.OF_CALLER, name), None, parameter),)
    if name in run.usage.lengths and "pack_padded_sequence" not in " ".join(run.frame.usage.called):
        places = ()  # another function of the file packs a sequence by it, which takes it from the host alone
    facts = frozenset({f"like:{name}"})
    if parameter.annotation is not None:
        value = from_annotation(parameter.annotation.annotation, run, places)
        if value is not None:
            if value.kind is Kind.UNKNOWN:
                return value.but(facts=facts)
            if value.kind in (Kind.OBJECT, Kind.STRING, Kind.NUMBER) and value.ref is None and "device" in name.lower():
                return _device_parameter(name, parameter)
            if value.kind is Kind.DEVICE and type(parameter.default) is cst.SimpleString:
                return value.but(facts=NO_FACTS)  # an annotation that its own default belies
            if value.kind is Kind.LOADER and value.element is None:
                return value.but(element=Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=_TAKEN))
            return value.but(facts=value.facts | facts) if value.kind is Kind.TENSOR else value
    if "device" in name.lower() and "map" not in name.lower():
        usage = run.frame.usage
        used = usage.attributes.get(name, set()) if not usage.assigned.get(name) else set()
        return _device_parameter(name, parameter, used)
    if name == "dtype" or name.endswith("_dtype"):
        return Value(Kind.DTYPE, certainty=Certainty.INFERRED)
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
    usage = run.frame.usage
    kind = None if is_made_tensor(name, usage) else kind_from_use(name, usage)
    if kind is not None:
        return Value(kind, places, Certainty.INFERRED, facts=facts)
    if holds_tensors(name, usage):
        return Value(Kind.SEQUENCE, element=Value(Kind.TENSOR, places, Certainty.INFERRED))
    if not is_made_tensor(name, usage) and _is_tensor_argument(name, run, function):
        return Value(Kind.TENSOR, places, Certainty.INFERRED, facts=facts)
    if isinstance(default, (cst.Tuple, cst.List)) and _are_numbers(default):
        return Value(Kind.SEQUENCE, (), Certainty.INFERRED, element=NUMBER)
    return Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=facts)


def _are_numbers(display: cst.Tuple | cst.List) -> bool:
    values = [e.value.expression if type(e.value) is cst.UnaryOperation else e.value for e in display.elements]
    return bool(values) and all(type(v) in (cst.Integer, cst.Float) for v in values)


def _is_tensor_argument(name: str, run: Interpreter, function: Function) -> bool:
    """Whether a parameter goes into what takes tensors, or is used like one in a forward."""
    usage, owner = run.frame.usage, function.owner
    if given_as_tensor(name, usage):
        return True
    if owner is None or not owner.is_module or name in usage.called or name in usage.unpacked:
        return False
    attributes = usage.attributes.get(name, set())
    if not attributes - MARKS <= torch_api.TENSOR_ATTRIBUTES:
        return False
    if goes_into_module(name, usage, lambda called: owner.attributes.get(called.removeprefix("self."))):
        return True
    if function.name != "forward":
        return False
    if "[,]" in attributes and "[str]" not in attributes:
        return True  # arrays have several dimensions, too, but they don't go into a forward
    return any(speaks_in_forward(attribute) for attribute in attributes)


def _device_parameter(name: str, parameter: cst.Param, used: AbstractSet[str] = frozenset()) -> Value:
    """used: the attributes read of it; a text has no `type` and no `index` that is read without a call."""
    place = Alternative(Place(Where.NAMED, name), None, parameter)
    facts = frozenset({"torch.device"}) if "type" in used else frozenset()
    return Value(Kind.DEVICE, (place,), Certainty.INFERRED, facts=facts)


# ---------------------------------------------------------------------- calls


def call_function(
    run: Interpreter, function: Function, node: cst.Call, arguments: Arguments, me: Value | None = None
) -> Value:
    """What a call of a project function gives, from its summary. me: the Module whose method it is."""
    run.called[node] = function
    if len(function.called_from) < MOST_CALLS and run.may_note_on(function):
        function.called_from.append(run.scene)
    if function.state == "running":
        return UNKNOWN
    if function.state == "new" and function.outer and run.frame.usage.loads.get(function.name) == 1:
        # It is called here alone: what is known here holds there.
        given = dict(zip(_names(function), (o.value for o in arguments.positional)))
        function.moment = run.scene, {**given, **arguments.values()}
    summarise(function)
    if function.waits or function.state != "done":
        run.timeline.waits()
    elif function.works and _LOADS.search(function.name) is None:
        run.timeline.works(node)
    if function.gives or function.state != "done":
        run.timeline.gives()
    if function.drains and _evaluates(function):
        run.timeline.drains(run.scene)
    positional = (_perhaps_none(run, o.value) for o in arguments.positional)
    complete = not arguments.starred and all(m.keys is not None for m in arguments.unpacked)
    keywords = {name: _perhaps_none(run, value) for name, value in arguments.values().items()}
    bound = bind_arguments(function, positional, keywords, complete=complete)
    if len(function.calls) < MOST_CALLS and run.scene.role not in ("script", "test") and run.may_note_on(function):
        function.calls.append(bound)
    judge_call(run, function, node, bound, me)
    settle_owed(run, function, node, bound)
    note_timed(run, function, node, bound, arguments.all())
    note_nested(run, function, bound)
    result = substitute(function.result, bound, node)
    if run.scene.no_grad:
        result = without_graph(result)
    if function.has_decorator("contextmanager", "asynccontextmanager"):
        return Value(Kind.CONTEXT, ref=function)
    return result


def _evaluates(function: Function) -> bool:
    """Whether a function's waits are none that training could do without, so that no rule speaks of them."""
    return function.role == "evaluation" or function.has_decorator(*_WITHOUT_GRADIENTS)


def _perhaps_none(run: Interpreter, value: Value) -> Value:
    """An argument that is handed on as it came in: it is None where the caller left it out, unless that was asked."""
    function = run.frame.function
    like = next((fact[5:] for fact in value.facts if fact.startswith("like:")), None)
    if function is None or like is None or value.kind is not Kind.TENSOR:
        return value
    default = function.defaults.get(like)
    if default is None or default.kind is not Kind.NONE or (f"{like} Is None", False) in run.scene.conditions:
        return value
    return value.but(facts=value.facts | {"optional"})


def _names(function: Function) -> list[str]:
    return [p.name.value for p in parameters(function.node)]
