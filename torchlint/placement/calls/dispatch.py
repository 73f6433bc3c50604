"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import libcst as cst

from torchlint.placement.calls.arguments import Arguments, evaluate_arguments
from torchlint.placement.calls.operations import mix, note_parameters, tensor_operands
from torchlint.placement.definitions.classes import instantiate, start_analysis
from torchlint.placement.definitions.functions import call_function
from torchlint.placement.definitions.records import Class, Function
from torchlint.placement.events import Attribute, Autocast, Call, Move, Operand
from torchlint.placement.evidence.flags import as_flag
from torchlint.placement.hazards.discards import mark_dropped, mark_never_run
from torchlint.placement.hazards.graphs import keep
from torchlint.placement.hazards.helpers import makes_a_copy
from torchlint.placement.hazards.syncs import demand_shown, emit_sync, wait_for_all
from torchlint.placement.interpreter import Env, Interpreter, expression, forget_below
from torchlint.placement.knowledge import torch_api
from torchlint.placement.knowledge.frameworks_bridge import framework_method
from torchlint.placement.knowledge.libraries import builtin_call, library_call
from torchlint.placement.methods.dispatch import OF_MPI, method_call, need_on_host
from torchlint.placement.syntax import descendants, dotted, words
from torchlint.placement.timeline import on_accelerator
from torchlint.placement.torch_functions.dispatch import torch_call
from torchlint.placement.torch_functions.modules import module_forward, tensor_input
from torchlint.placement.values import (
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    Where,
    union,
)


def dropped_call(run: Interpreter, node: cst.Call, env: Env, row: cst.Tuple | None = None) -> Value:
    """A call that is a statement of its own, or stands in a tuple that is: nothing keeps its result."""
    mark_dropped(run, node, env, row)
    value = run.evaluate(node, env)
    demand_shown(run, node, env)
    mark_never_run(run, node)
    for kind in (Call, Autocast):
        event = run.events.get((kind, node)) if kind in run.kinds else None
        if isinstance(event, Call | Autocast) and not run.scene.expects_error:
            event.dropped = True
    if value.kind is Kind.UNKNOWN and type(node.func) is cst.Attribute:
        moved = run.events.get((Move, node))
        name = dotted(node.func.value)
        if isinstance(moved, Move) and moved.moves_device and name is not None and name in env:
            # If it is a Module it moved itself.
            _forget_place(run, name, env)
    if value.kind in (Kind.MODULE, Kind.OWNED) and type(node.func) is cst.Attribute:
        moved = run.events.get((Move, node))
        name = dotted(node.func.value)
        if isinstance(moved, Move) and moved.value.kind is Kind.MODULE:
            moved_in_place(run, node.func.value, name, moved.value, value, env)
    return value


def _forget_place(run: Interpreter, name: str, env: Env) -> None:
    """What a name holds may have moved itself."""
    value = env[name]
    function = run.frame.function
    if function is not None:
        function.moved.update(f[5:] for f in value.facts if f.startswith("like:"))
    facts = frozenset(f for f in value.facts if not f.startswith("like:"))
    env[name] = value.but(places=(), facts=facts)


def moved_in_place(
    run: Interpreter, receiver: cst.BaseExpression, name: str | None, before: Value, after: Value, env: Env
) -> None:
    """A Module moved itself: every name for it knows."""
    for alternative in before.places:
        if alternative.origin is not None:
            run.moved_elsewhere.add(alternative.origin)
    if name is None:
        return
    if name in env or run.lookup(name, env) is not None:
        if name not in env and run.globals.get(name) is before:
            run.globals[name] = after
        forget_below(name, env)
        env[name] = after
    for key, value in list(env.items()):
        if value.kind is Kind.MODULE and key != name and value.origin is not None and value.origin is before.origin:
            env[key] = value.at(after.places)


@expression(cst.Call)
def call(run: Interpreter, node: cst.Call, env: Env) -> Value:
    func = node.func
    if type(func) is cst.Attribute:
        if _is_super(func.value):
            return _super_call(run, node, func, env)
        receiver = run.evaluate(func.value, env)
        if receiver.kind is not Kind.API:
            arguments = evaluate_arguments(run, node, env)
            return method_call(run, node, func, receiver, arguments, env)
    target = run.evaluate(func, env)
    arguments = evaluate_arguments(run, node, env)
    return call_value(run, target, node, arguments, env)


def call_value(run: Interpreter, target: Value, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """Call a value of whatever kind."""
    kind = target.kind
    if kind is Kind.API and target.name:
        return api_call(run, target.name, node, arguments, env)
    if kind is Kind.FUNCTION and isinstance(target.ref, Function):
        return project_call(run, target.ref, node, arguments, env)
    if kind is Kind.FUNCTION and target.element is not None:
        return target.element.but(facts=target.element.facts - {"fresh"})
    if kind is Kind.CLASS and isinstance(target.ref, Class):
        return _instantiate(run, target.ref, node, arguments, env)
    if kind is Kind.MODULE:
        return call_module(run, target, node, arguments, env)
    if kind is Kind.OBJECT and isinstance(target.ref, Class):
        method = target.ref.method("__call__")
        if method is not None:
            return project_call(run, method, node, arguments, env)
    if kind in (Kind.OBJECT, Kind.OWNED):
        known = framework_method(run, target, "__call__", node, arguments)
        if known is not None:
            return known
    if kind is Kind.OWNED:
        return _call_owned(target, node, arguments)
    if kind is Kind.UNKNOWN and "fresh" in target.facts and all(p.place.is_named for p in target.places):
        # It was sent to a device, and it is called: no tensor can be.
        module = target.but(kind=Kind.MODULE, certainty=min(target.certainty, Certainty.INFERRED))
        return call_module(run, module, node, arguments, env)
    return unknown_call(run, target, node, arguments, env)


def project_call(
    run: Interpreter, function: Function, node: cst.Call, arguments: Arguments, env: Env, me: Value | None = None
) -> Value:
    """A call of a function of the project. me: the Module whose method it is."""
    result = call_function(run, function, node, arguments, me)
    operands = arguments.operands()
    if function.helper in ("rebinds", "value"):
        operands = [_as_part(run, o) for o in operands]
    run.emit(
        Call(
            node,
            run.scene,
            function,
            result,
            tuple(operands),
            name=words(node.func),
            helper=function.helper,
        )
    )
    if run.frame.function is not None and function is not run.frame.function:
        run.frame.function.changes |= function.changes
        run.frame.function.moves_values |= bool(function.helper)
    _kept(run, function, node, arguments)
    if function.run is run or function.run.project is run.project:
        moved = _after_effects(run, function, arguments, env)
        if result.kind is Kind.MODULE and any(result.places == m.places for m in moved):
            return result.at(())
    return result


def _as_part(run: Interpreter, operand: Operand) -> Operand:
    """What a function moves, where it is a part of a batch: a tensor."""
    if operand.value.kind is not Kind.UNKNOWN or dotted(operand.node) not in run.frame.usage.batch_parts:
        return operand
    certainty = min(operand.value.certainty, Certainty.INFERRED)
    return replace(operand, value=operand.value.but(kind=Kind.TENSOR, certainty=certainty))


def _kept(run: Interpreter, function: Function, node: cst.Call, arguments: Arguments) -> None:
    """A method that adds an argument to an attribute keeps it, with its graph."""
    into = dotted(node.func.value) if type(node.func) is cst.Attribute else None
    if not function.keeps or into is None:
        return
    given = [*zip(function.parameters, arguments.operands()), *arguments.named.items()]
    for name, operand in given:
        if name in function.keeps and isinstance(operand.node, cst.BaseExpression):
            keep(run, node, operand.node, operand.value, f"{function.name}()", into)


def _after_effects(run: Interpreter, function: Function, arguments: Arguments, env: Env) -> list[Value]:
    """A function that moves a Module it is given moves the caller's; returns those that it moves."""
    names = function.moved | function.moved_if_module
    given = [*zip(function.parameters, arguments.operands()), *arguments.named.items()] if names else []
    moved = []
    for parameter, operand in given:
        if parameter in names and operand.value.kind in (Kind.MODULE, Kind.UNKNOWN):
            _note_moved_by_caller(run, function, parameter, operand.value)
        if parameter in names and operand.value.kind is Kind.MODULE:
            moved.append(operand.value)
            name = dotted(operand.node) if isinstance(operand.node, cst.BaseExpression) else None
            if name is not None:
                _escapes(run, operand, env)
                env[name] = operand.value.at(())
    return moved


def _note_moved_by_caller(run: Interpreter, function: Function, parameter: str, value: Value) -> None:
    """What a function hands on to one that moves it, it moves."""
    around = run.frame.function
    if around is None or around is function:
        return
    sure = parameter in function.moved or value.kind is Kind.MODULE
    moved = around.moved if sure else around.moved_if_module
    moved.update(p.place.name for p in value.places if p.place.where is Where.OF_CALLER)


def _instantiate(run: Interpreter, cls: Class, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    if cls.is_optimizer:
        return Value(Kind.OPTIMIZER, ref=cls)
    for base in sorted(cls.kind_names):
        if base.endswith(("data.Dataset", ".Dataset")):
            return Value(Kind.DATASET, ref=cls)
    for operand in arguments.all():
        if operand.value.kind is Kind.MODULE:
            # Who is given a Module to keep may well move it.
            _escapes(run, operand, env)
    init = cls.method("__init__")
    bound: dict[str, Value] = dict(arguments.values())
    if init is not None:
        start_analysis(cls)
        bound = {**dict(zip(init.parameters, (o.value for o in arguments.operands()))), **bound}
    _note_kept_modules(run, cls, bound)
    return instantiate(run, cls, node, bound)


def _note_kept_modules(run: Interpreter, cls: Class, bound: dict[str, Value]) -> None:
    """A constructor that keeps the list of Modules which it is given."""
    if not cls.is_module or cls.run is not run:
        return
    for name, held in cls.attributes.items():
        like = next((fact[5:] for fact in held.facts if fact.startswith("like:")), None)
        given = bound.get(like) if like is not None else None
        target = cls.targets.get(name)
        if given is not None and target is not None and given.kind in (Kind.SEQUENCE, Kind.MAPPING):
            run.emit(Attribute(target, run.scene, cls, name, given, "assign"), given.element)


def call_module(run: Interpreter, module: Value, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """`model(...)`: what a Module's forward gives."""
    run.timeline.gives()
    if on_accelerator(module) or any(on_accelerator(o.value) for o in arguments.all()):
        run.timeline.works(node)
    cls = module.ref
    if isinstance(cls, Class):
        forward = cls.method("forward")
        if "wrapped" in module.facts:
            arguments = _moved_inputs(module, arguments)
        if forward is not None and forward.state != "running":
            from torchlint.placement.definitions.classes import at_instance, given_to_others

            me = module if module.places and not _self_placed(module) else None
            result = call_function(run, forward, node, arguments, me)
            result = at_instance(result, module)
            if dotted(node.func) != run.frame.self_name:
                result = given_to_others(result, cls)
            if result.kind is Kind.UNKNOWN and not result.places:
                return Value(Kind.UNKNOWN, _symbolic(module.places), Certainty.INFERRED, facts=frozenset({"grad"}))
            return of_unmoved(result, module)
        if forward is not None:
            return UNKNOWN
    return module_forward(run, module, node, arguments, env)


def of_unmoved(result: Value, module: Value) -> Value:
    """What a forward gives of a Module that was never moved, and moves a part itself: rather it meets parameters."""
    if module.on_host and result.kind is Kind.TENSOR and any(p.place.is_named for p in result.places):
        return result.but(facts=result.facts | {"mixed"})
    return result


def _moved_inputs(module: Value, arguments: Arguments) -> Arguments:
    """The arguments as a Module gets them through a wrapper that moves its inputs: where the Module is."""

    def moved(operand: Operand) -> Operand:
        value = operand.value
        return (
            replace(operand, value=value.at(module.places))
            if value.kind is Kind.TENSOR and value.places
            else operand
        )

    return Arguments(
        [moved(o) for o in arguments.positional],
        {name: moved(o) for name, o in arguments.named.items()},
        [moved(o) for o in arguments.starred],
        arguments.unpacked,
    )


def _self_placed(module: Value) -> bool:
    return any(p.place.where is Where.OF_MODULE for p in module.places) or "wrapped" in module.facts


def _symbolic(places: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
    return tuple(p for p in places if not p.place.is_host)


def _call_owned(target: Value, node: cst.Call, arguments: Arguments) -> Value:
    """A tokenizer, a processor, a pipeline: what it returns is given by its facts."""
    wanted = arguments.value("return_tensors")
    if target.element is not None and (wanted is None or wanted.name in ("pt", None)):
        return target.element
    return UNKNOWN


def unknown_call(run: Interpreter, target: Value, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """Something nobody knows is called. It may move the Modules that it is given.

    Its result is taken to be where its arguments are, as an assumption that may silence and not accuse.
    """
    if (dotted(node.func) or "").rpartition(".")[2] == "synchronize":
        wait_for_all(run, "synchronize")  # whichever backend's it is
    if target.kind is Kind.UNKNOWN and target.places and arguments.positional:
        # If it is a Module that the caller gives, it computes with what it gets.
        facts = target.facts - {"assumed"} | {"called"}
        perhaps = Operand(node.func, target.but(kind=Kind.MODULE, facts=facts), "module")
        first = arguments.positional[0]
        if first.value.kind is Kind.TENSOR:
            mix(run, node, "forward", [perhaps, first])
        else:
            note_parameters(run, node, [perhaps, first])
    called = (dotted(node.func) or "").rpartition(".")[2]
    few = len(arguments.positional) <= _MOST_OF_LOSS  # CTC has lengths, too, and may want all but the first on the CPU
    if target.kind is Kind.UNKNOWN and few and (called in run.usage.losses or called in _LOSSES):
        # Backward runs on what it makes of a prediction and a target.
        mix(run, node, "loss", [tensor_input(o) for o in arguments.positional[:2]])
    if _is_model(node.func) or any(o.value.kind in _MAY_HOLD_TENSORS for o in arguments.all()):
        run.timeline.gives()
    if _is_model(node.func):
        given = [*(o.value for o in arguments.all()), *(m.element or m for m in arguments.unpacked)]
        if any(on_accelerator(v) for v in given):
            run.timeline.works(node)
    elif not (target.kind is Kind.API and (target.name or "").startswith(_WITHOUT_WAIT)):
        run.timeline.waits()
    places: tuple[Alternative, ...] = _symbolic(target.places) if target.kind is Kind.MODULE else ()
    facts = frozenset({"assumed"})
    if run.frame.function is not None and not makes_a_copy(node):
        run.frame.function.changes = True
    for operand in arguments.operands():
        value = operand.value
        if value.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.SEQUENCE, Kind.MAPPING):
            inner = value.element.places if value.element is not None and not value.places else value.places
            places = union(places, tuple(p._replace(rank=None) for p in inner if not p.place.is_host))
    for operand in arguments.all():
        if operand.value.kind is Kind.MODULE and isinstance(operand.node, cst.BaseExpression):
            _escapes(run, operand, env)
    wanted = arguments.value("return_tensors")
    if wanted is not None and wanted.name == "pt":
        return batch_encoding(node)
    result = Value(Kind.UNKNOWN, places, Certainty.INFERRED, facts=facts)
    name = (dotted(node.func) or "").rsplit(".", 1)[-1]
    return as_flag(result, name) if "_" in name else result


#: What a loss is called that an evaluation is given.
_LOSSES = frozenset(["criterion", "loss_fn", "loss_func", "loss_function"])

#: How many tensors a loss takes that are in one place: a prediction, a target, a weight.
_MOST_OF_LOSS = 3

#: What an argument is that may be, or hold, what is computed with.
_MAY_HOLD_TENSORS = frozenset([Kind.TENSOR, Kind.UNKNOWN, Kind.SEQUENCE, Kind.MAPPING, Kind.MODULE, Kind.LOADER])
#: Libraries that know nothing of devices.
_WITHOUT_WAIT = ("logging.", "os.", "sys.", "json.", "re.", "datetime.", "pathlib.", "argparse.", "builtins.")
_MODEL_NAME = re.compile(
    r"(?:^|_)(?:model|net|network|module|encoder|decoder|backbone|unet|classifier)\d*$", re.IGNORECASE
)


def _is_model(func: cst.BaseExpression) -> bool:
    """Whether what is called has the name of a model."""
    name = dotted(func)
    return name is not None and _names_model(name)


@lru_cache(maxsize=4096)
def _names_model(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return _MODEL_NAME.search(last) is not None and not last.startswith(("load", "restore"))


def batch_encoding(node: cst.CSTNode) -> Value:
    """What a tokenizer gives for `return_tensors="pt"`: its tensors are on the CPU, and its `to` works in place."""
    from torchlint.placement.values import HOST, tensor

    return Value(
        Kind.OWNED,
        element=tensor((Alternative(HOST, 1, node),), Certainty.INFERRED),
        name="transformers.BatchEncoding",
    )


def _escapes(run: Interpreter, operand: Operand, env: Env) -> None:
    for alternative in operand.value.places:
        if alternative.origin is not None and alternative.place.is_host:
            run.moved_elsewhere.add(alternative.origin)


def _is_super(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Call and type(node.func) is cst.Name and node.func.value == "super"


def _super_call(run: Interpreter, node: cst.Call, func: cst.Attribute, env: Env) -> Value:
    arguments = evaluate_arguments(run, node, env)
    function = run.frame.function
    owner = function.owner if function is not None else None
    name = func.attr.value
    if owner is not None:
        for base in owner.lineage()[1:]:
            if name in base.methods:
                if base.run is not run or _places_something(base.methods[name]):
                    _let_go(run, arguments, env)
                return call_function(run, base.methods[name], node, arguments)
    _let_go(run, arguments, env)
    if name in ("to", "cuda", "cpu", "half", "float", "_apply"):
        return Value(Kind.MODULE)
    return UNKNOWN


def _let_go(run: Interpreter, arguments: Arguments, env: Env) -> None:
    """A class that is not seen, or not whole, may move the Modules that it gets."""
    for operand in arguments.all():
        if operand.value.kind is Kind.MODULE:
            _escapes(run, operand, env)
            name = dotted(operand.node) if isinstance(operand.node, cst.BaseExpression) else None
            if name is not None and name in env:
                env[name] = operand.value.at(())


def _places_something(function: Function) -> bool:
    """Whether a method moves anything, or leaves that to its own base."""
    return any(
        type(node) is cst.Attribute and (node.attr.value in _PLACING or _is_super(node.value))
        for node in descendants(function.node.body)
    )


#: What moves a Module.
_PLACING = frozenset("to cuda cpu xpu half float double bfloat16 to_empty".split())


def api_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A call of a library by qualified name."""
    name = torch_api.canonical(name)
    if name.startswith("torch."):
        return torch_call(run, name, node, arguments, env)
    if name.startswith("builtins."):
        return builtin_call(run, name[9:], node, arguments, env)
    if run.project is not None:
        found = run.project.resolve(name, run.path, allowance=run.allowance)
        if found is not None and found.kind is not Kind.API:
            return call_value(run, found, node, arguments, env)
        if found is not None and found.name:
            name = torch_api.canonical(found.name)
            if name.startswith("torch."):
                return torch_call(run, name, node, arguments, env)
    if name.startswith("mpi4py.") and name.rpartition(".")[2] in OF_MPI:
        need_on_host(run, arguments)
    result = library_call(run, name, node, arguments, env)
    if result is not None:
        return result
    result = unknown_call(run, UNKNOWN, node, arguments, env)
    if _OF_CLASS.match(name.rpartition(".")[2]) and result.kind is Kind.UNKNOWN:
        return result.but(facts=result.facts | {"instance"})
    return result


#: The name of a class. A tensor is made by functions, and by the classes of torch alone.
_OF_CLASS = re.compile(r"[A-Z][A-Za-z0-9]{2}")


__all__ = ["api_call", "call_value", "dropped_call", "emit_sync", "tensor_operands"]
