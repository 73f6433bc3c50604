"""Method calls: moves, tensor methods, Modules, optimizers, scalers, containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement import torch_api
from torchlint.placement.arguments import Arguments, spread
from torchlint.placement.classes import register, start_analysis
from torchlint.placement.definitions import Class, Function
from torchlint.placement.devices import device_places, emit_device_name, name_device
from torchlint.placement.events import (
    Attribute,
    Backward,
    Build,
    DeviceName,
    GradUse,
    Move,
    Operand,
    Pin,
    Scaler,
    Step,
    Sync,
    Use,
)
from torchlint.placement.evidence import distinguishes_tensor, speaks_of_array
from torchlint.placement.flags import as_flag
from torchlint.placement.frameworks_bridge import framework_method
from torchlint.placement.graphs import keep
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.loads import note_loaded
from torchlint.placement.operations import emit_host_only, mix
from torchlint.placement.syncs import demand, demand_host, emit_sync, may_wait, number_read, read_as_text
from torchlint.placement.syntax import dotted, integer, string, words
from torchlint.placement.timeline import event_call, read_pending
from torchlint.placement.torch_calls import WITHOUT_GRADIENT, bound_operands, is_strict, result_of, waits
from torchlint.placement.values import (
    ARRAY,
    HOST,
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
    sequence,
    tensor,
    with_rank,
)

if TYPE_CHECKING:
    from torchlint.placement.torch_api import Binding

_MOVES = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "xpu",
        "npu",
        "hpu",
        "mps",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "type_as",
        "to_empty",
    ]
)
#: Methods that convert, for which a `Move` is worth its event only where the result is dropped.
_CASTS = frozenset(["long", "int", "bool", "short", "char", "byte", "cfloat", "cdouble"])
_PLACING = frozenset(["to", "cuda", "cpu", "xpu", "npu", "hpu", "mps", "to_empty"])


def method_call(
    run: Interpreter, node: cst.Call, func: cst.Attribute, receiver: Value, arguments: Arguments, env: Env
) -> Value:
    """`receiver.name(...)`."""
    name = func.attr.value
    if name == "step" and _is_environment(func.value):
        # What an environment is told has to be on the host.
        for operand in arguments.all():
            demand(run, operand.value)
            demand_host(run, operand.node)
    if receiver.kind is Kind.OBJECT and receiver.name == "event":
        event_call(run, node, name)
        return Value(Kind.NUMBER) if name == "elapsed_time" else UNKNOWN
    if name in _SHOWING and receiver.kind in (Kind.UNKNOWN, Kind.OBJECT, Kind.SEQUENCE, Kind.OWNED):
        for operand in arguments.all():
            if isinstance(operand.node, cst.BaseExpression):
                read_as_text(run, operand.node, operand.value, name)
    if name.startswith("load_"):
        for operand in arguments.positional:
            note_loaded(run, operand.node, name)
    if name == "register_modules" and isinstance(receiver.ref, Class):
        return _register_modules(run, receiver.ref, arguments)
    own = _own_method(receiver, name)
    if own is not None:
        from torchlint.placement.calls import project_call

        me = receiver if receiver.kind is Kind.MODULE and receiver.ref is not None else None
        if me is not None and (type(func.value) is cst.Name and func.value.value == run.frame.self_name):
            me = None
        result = project_call(run, own, node, arguments, env, me)
        if name in _PLACING and receiver.kind in (Kind.MODULE, Kind.OBJECT):
            return receiver.at(()) if result.kind in (Kind.UNKNOWN, Kind.NONE) else result
        from torchlint.placement.classes import at_instance

        return at_instance(result, receiver) if receiver.kind is Kind.MODULE else result
    if name in ("to", "cuda"):
        _name_devices(run, node, name, receiver, arguments)
    if name == "generate" and receiver.kind is Kind.MODULE:
        inputs = [*arguments.all(), *spread(node, arguments)]
        mix(run, node, name, [Operand(func.value, receiver, "module"), *inputs])
    known = framework_method(run, receiver, name, node, arguments)
    if known is not None:
        return known
    handler = _BY_KIND.get(receiver.kind)
    if name == "type" and not arguments.all():
        return Value(Kind.STRING)
    if name in _MOVES and receiver.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.MODULE):
        return move(run, node, func, name, receiver, arguments, env)
    if receiver.kind in (Kind.OBJECT, Kind.DATASET) and isinstance(receiver.ref, Class):
        from torchlint.placement.calls import call_value
        from torchlint.placement.expressions import attribute_of

        held = env.get(f"{dotted(func.value)}.{name}") or attribute_of(run, receiver, name, func, env)
        return call_value(run, held, node, arguments, env)
    if handler is not None:
        return handler(run, node, func, name, receiver, arguments, env)
    return UNKNOWN


#: Methods of TensorBoard's writer and of progress bars that turn what they get into numbers or text
#: (torch/utils/tensorboard/_convert_np.py; tqdm.std.tqdm.set_postfix).
_SHOWING = frozenset(["add_scalar", "add_scalars", "set_postfix"])
_ENVIRONMENT = re.compile(r"(?:^|_)(?:v?envs?|environment|game|gym|simulator|world)\d*(?:_|$)", re.IGNORECASE)


def _is_environment(receiver: cst.BaseExpression) -> bool:
    """Whether a receiver is called like the environment of reinforcement learning."""
    name = dotted(receiver)
    return name is not None and _ENVIRONMENT.search(name.rsplit(".", 1)[-1]) is not None


def _name_devices(run: Interpreter, node: cst.Call, name: str, receiver: Value, arguments: Arguments) -> None:
    """Note the devices that a move names, whatever it moves."""
    if name == "cuda":
        index = arguments.find("device", 0)
        chosen = index is not None and index.value.name is None and integer(index.node) is None
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "cuda()", "cuda", receiver, chosen=chosen))
    for operand in arguments.all():
        name_device(run, operand.node, operand.value, "literal", "to")


def _register_modules(run: Interpreter, owner: Class, arguments: Arguments) -> Value:
    """`self.register_modules(vae=vae)` of a diffusers pipeline sets the attributes of these names."""
    method = run.frame.function.name if run.frame.function is not None else ""
    for attribute, value in arguments.values().items():
        old = owner.attributes.get(attribute)
        owner.attributes[attribute] = value if old is None else join(old, value)
        owner.assigned_in[attribute].add(method)
    return UNKNOWN


def _own_method(receiver: Value, name: str) -> Function | None:
    if isinstance(receiver.ref, Class) and receiver.kind in (
        Kind.MODULE,
        Kind.OBJECT,
        Kind.OPTIMIZER,
        Kind.CLASS,
        Kind.DATASET,
    ):
        cls: Class = receiver.ref
        if name in cls.attributes and name not in cls.methods:
            return None
        if cls.state == "new":
            start_analysis(cls)
        return cls.method(name)
    return None


# ---------------------------------------------------------------------- moves


def move(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    """`.to(...)`, `.cuda()`, `.cpu()`, `.half()`, `.type(...)` and their like."""
    target, dtype = _target(run, node, name, value, arguments)
    non_blocking = _is_non_blocking(name, arguments)
    rank = value.places[0].rank if len({p.rank for p in value.places}) == 1 and value.places else None
    places = value.places if target is None else with_rank(target, rank)
    facts = value.facts - {"pending", "pinned"}
    if value.kind is not Kind.MODULE:
        facts |= {"fresh"}
        if target is not None:
            if "leaf" in value.facts and type(func.value) is cst.Call and not _all_host(target):
                facts |= {"moved leaf"}
            facts -= {"leaf", "parameter", "buffer", "assumed"}
        if target is not None and non_blocking and _all_host(target) and not value.on_host:
            facts |= {"pending"}
            places = tuple(p._replace(origin=node) for p in places)
            run.timeline.copies(node)
    result = value.but(places=places, facts=facts, element=None if value.kind is Kind.UNKNOWN else value.element)
    event = Move(
        node, run.scene, name, func.value, value, result, target is not None, target or (), dtype, non_blocking,
        run.move_uses.get(node, Use.USED), run.rows.get(node),
    )  # fmt: skip
    run.emit(event)
    if target is not None and value.kind is not Kind.MODULE:
        _note_sent(run, value, target)
    if run.frame.function is not None:
        if value.kind is Kind.MODULE:
            run.frame.function.changes = True
        elif event.use in (Use.USED, Use.UNREAD) and target is not None:
            run.frame.function.moves_values = True
    if target is not None and _all_host(target) and "pending" not in facts:
        run.timeline.waits()
    if target is not None and _all_host(target) and name != "type" and "pending" not in facts:
        if name == "cpu" or any("cpu" in _text(a.value) for a in node.args):
            if value.kind is Kind.UNKNOWN and event.use is Use.USED and _is_copied(func.value, value):
                emit_sync(run, node, "cpu", value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))
            else:
                emit_sync(run, node, "cpu", value)
    if value.kind is Kind.MODULE and target is not None:
        _note_module_move(run, func.value, value)
        from torchlint.placement.calls import moved_in_place

        moved_in_place(run, func.value, dotted(func.value), value, result, env)
    return result


def _is_non_blocking(name: str, arguments: Arguments) -> bool:
    """Whether a move says `non_blocking=True`, by keyword or as the last of its positional arguments."""
    given = arguments.find("non_blocking")
    if given is None and name in ("to", "cuda", "cpu") and arguments.positional:
        given = arguments.positional[-1]
    return given is not None and name in ("to", "cuda", "cpu", "type", "copy_") and words(given.node) == "True"


def _text(node: cst.CSTNode) -> str:
    return (string(node) or words(node)).lower()


#: What modules are called that are put on the host for a while.
_MODULE_WORDS = (
    "model", "net", "module", "encoder", "decoder", "generator", "discriminator", "actor", "critic", "policy", "pipe",
    "pipeline", "vae", "unet", "ema",
)  # fmt: skip


def _is_copied(receiver: cst.BaseExpression, value: Value) -> bool:
    """Whether what `.cpu()` is called on is data rather than a module: it comes from a computation."""
    name = dotted(receiver)
    if name is None:
        return True
    last = name.rsplit(".", 1)[-1].lower().rstrip("0123456789_")
    return "." not in name and "assumed" in value.facts and not last.endswith(_MODULE_WORDS)


def _copied_before(run: Interpreter, node: cst.CSTNode) -> None:
    """`x.cpu().numpy()`: what comes after tells that a tensor was copied, though `x` itself is not known."""
    event = run.events.get((Move, node))
    if (
        isinstance(event, Move)
        and event.value.kind is Kind.UNKNOWN
        and _all_host(event.target)
        and not event.non_blocking
    ):
        emit_sync(run, node, "cpu", event.value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))


def _note_sent(run: Interpreter, value: Value, target: tuple[Alternative, ...]) -> None:
    """What a caller gave is not on the device that a part of it is sent to."""
    if all(p.place.where is Where.NAMED for p in target) and target and not run.scene.tests:
        for alternative in value.places:
            if alternative.place.where is Where.OF_CALLER:
                run.frame.sent.setdefault(alternative.place, set()).update(p.place for p in target)


def _all_host(places: tuple[Alternative, ...]) -> bool:
    return bool(places) and all(p.place.is_host for p in places)


def _note_module_move(run: Interpreter, receiver: cst.BaseExpression, value: Value) -> None:
    function = run.frame.function
    if function is not None:
        for alternative in value.places:
            if alternative.place.where is Where.OF_CALLER:
                function.moved.add(alternative.place.name)


def _target(
    run: Interpreter, node: cst.Call, name: str, value: Value, arguments: Arguments
) -> tuple[tuple[Alternative, ...] | None, str | None]:
    """Where a move goes (None: it stays), and the dtype it sets."""
    if name == "cuda":
        return (Alternative(Place(Where.NAMED, "cuda"), None, node),), None
    if name == "cpu":
        return (Alternative(HOST, None, node),), None
    if name in ("xpu", "npu", "hpu", "mps"):
        return (Alternative(Place(Where.NAMED, name), None, node),), None
    if name in ("half", "float", "double", "bfloat16"):
        return None, name
    if name == "type":
        return _type_target(run, node, arguments)
    if name == "type_as":
        other = arguments.value("other", 0)
        return (tuple(p._replace(rank=None, origin=node) for p in other.places) if other is not None else ()), None
    dtype = None
    given = arguments.find("device") or arguments.find("other")
    for operand in arguments.positional:
        if operand.value.kind is Kind.DTYPE or (dotted(operand.node) or "").endswith("dtype"):
            dtype = operand.value.name or "unknown"
        elif given is None:
            given = operand
    named_dtype = arguments.value("dtype")
    if named_dtype is not None:
        dtype = named_dtype.name or "unknown"
    if given is None:
        if arguments.starred or arguments.unpacked:
            return (), dtype
        return None, dtype
    if given.value.kind is Kind.NUMBER and dtype is not None:
        return None, dtype
    return device_places(run, given, node, sure="device" in arguments.named), dtype


def _type_target(
    run: Interpreter, node: cst.Call, arguments: Arguments
) -> tuple[tuple[Alternative, ...] | None, str | None]:
    kind = arguments.value("dtype", 0)
    if kind is None:
        return None, None
    name = kind.name or ""
    if kind.kind is Kind.DTYPE:
        return None, name
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        where = arguments.find("dtype", 0)
        if where is not None and kind.kind is Kind.STRING:
            emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name))
        return (Alternative(Place(Where.NAMED, "cuda"), None, node),), name
    if name.startswith("torch.") and name.endswith("Tensor"):
        return (Alternative(HOST, None, node),), name
    return (), None


# ---------------------------------------------------------------------- tensors

_LOSSY = frozenset({"given", "moved leaf", "fresh", "leaf", "parameter", "buffer", "mask", "loss", "pinned", "row"})


def _tensor_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name not in _VIEWING:
        read_pending(run, node, name, value)
        if "pending" in value.facts:
            value = value.but(facts=value.facts - {"pending"})
    if name in ("item", "tolist"):
        return _read(run, node, name, value)
    if name == "numpy":
        if "force" in arguments.named or arguments.positional:
            emit_sync(run, node, "numpy", value)
        else:
            # It raises for a tensor on an accelerator, so that it never waits for one.
            emit_host_only(run, node, "numpy", Operand(func.value, value))
        return ARRAY.at(value.places if value.on_host else ())
    if name == "backward":
        run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=func.value))
        return NUMBER
    if name in ("detach", "detach_"):
        return value.but(facts=value.facts - {"grad", "leaf", "parameter", "fresh"} | {"cut"})
    if name == "retain_grad":
        run.emit(GradUse(node, run.scene, name, value))
        return UNKNOWN
    if name == "requires_grad_":
        return value.but(facts=value.facts | {"grad", "leaf"})
    if name == "pin_memory":
        run.emit(Pin(node, run.scene, value))
        return value.but(facts=value.facts | {"pinned"})
    if name in torch_api.RETURNS_HOST:
        if name in torch_api.HIDDEN_SYNC_METHODS:
            emit_sync(run, node, name, value, hidden=True)
        return sequence(element=NUMBER) if name in ("size", "stride") and not arguments.positional else NUMBER
    if name in torch_api.FOLLOWS_RECEIVER:
        device = arguments.find("device")
        if device is not None:
            name_device(run, device.node, device.value, "literal", name)
            return tensor(with_rank(device_places(run, device, node), 1))
        return tensor(tuple(p._replace(rank=1) for p in value.places), value.certainty)
    return _general_method(run, node, func, name, value, arguments, env)


def _copied_into(run: Interpreter, node: cst.Call, func: cst.Attribute, value: Value, source: Value, env: Env) -> Value:
    """`buffer.copy_(t, non_blocking=True)`: what the buffer on the host holds arrives later."""
    key = dotted(func.value)
    if source.on_host or key is None:
        return value
    run.timeline.copies(node)
    places = tuple(p._replace(origin=node) for p in value.places)
    env[key] = value.but(places=places, facts=value.facts | {"pending"})
    return env[key]


#: Beginnings of the in-place methods that write pieces of other data.
_WRITING = ("copy_", "scatter_", "index_", "masked_", "put_", "fill_diagonal_")


#: Methods that read no element.
_VIEWING = frozenset(
    "view reshape detach squeeze unsqueeze permute transpose t flatten size dim numel expand unbind chunk split"
    " is_contiguous record_stream stride type_as to cuda pin_memory is_pinned data_ptr".split()
)


def _read(run: Interpreter, node: cst.Call, name: str, value: Value) -> Value:
    """`t.item()`, `t.tolist()`: the host waits for the tensor's value."""
    emit_sync(run, node, name, value)
    event = run.events.get((Sync, node))
    if isinstance(event, Sync) and type(node.func) is cst.Attribute:
        event.each = name == "item" and _is_one_of_many(run, node.func.value, value)
    number = number_read(node)
    return number if name == "item" else sequence(element=number)


def _is_one_of_many(run: Interpreter, receiver: cst.BaseExpression, value: Value) -> bool:
    """Whether a read is one of a loop over the rows of a tensor, or over the gradients of a model."""
    if "row" in value.facts:
        return type(receiver) is cst.Name
    loops = run.scene.loops
    return "of grad" in value.facts and bool(loops) and id(loops[-1]) in run.usage.parts_loops


def _general_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if not torch_api.is_method(name):
        return UNKNOWN
    if name in _CASTS and run.move_uses.get(node) is Use.DROPPED:
        run.emit(
            Move(
                node,
                run.scene,
                name,
                func.value,
                value,
                value,
                False,
                dtype=name,
                use=Use.DROPPED,
                row=run.rows.get(node),
            )
        )
    overloads = torch_api.method_overloads(name)
    operands, scalars, binding = bound_operands(run, name, overloads, arguments)
    for operand in scalars:
        emit_sync(run, operand.node, f"{name}({operand.role}=tensor)", operand.value, hidden=True)
    if name in torch_api.HIDDEN_SYNC_METHODS:
        unless = torch_api.SYNC_UNLESS.get(name)
        if (unless is None or unless not in arguments.named) and waits(name, arguments.all()):
            emit_sync(run, node, name, value, hidden=True)
    in_place = name.endswith("_") and not name.startswith("_")
    receiver = Operand(func.value, value, "in place" if in_place else "operand")
    key = dotted(func.value)
    if in_place and run.frame.function is not None and "fresh" not in value.facts:
        run.frame.function.changes |= any(p.place.where is not Where.HOST for p in value.places)
    if in_place and key is not None and name.startswith(_WRITING):
        env[key] = value.but(facts=value.facts | {"filled"})
    if name == "copy_":
        source = arguments.value("src", 0)
        if value.on_host and source is not None and _is_non_blocking(name, arguments):
            return _copied_into(run, node, func, value, source, env)
        if (
            source is not None
            and source.kind is Kind.TENSOR
            and value.on_host
            and source.places
            and not source.may_be_on_host
        ):
            emit_sync(run, node, "copy_", source, hidden=True)
        return value
    if name in ("expand_as", "view_as", "reshape_as"):
        return value.but(places=with_rank(value.places, None), facts=value.facts - _LOSSY)
    strict = is_strict(name, binding)
    mixed = mix(run, node, name, [receiver, *operands], in_place=in_place, strict=strict) if operands else value
    if in_place:
        return value if value.places else mixed
    rank = _method_rank(name, value, mixed, arguments, binding)
    places = with_rank(mixed.places if operands else value.places, rank)
    facts = frozenset(f for f in (mixed.facts | value.facts) - _LOSSY if not f.startswith("like:"))
    if name in ("mean", "sum") and not arguments.positional and not arguments.named:
        facts |= {"loss"}
    if name in (
        "bool",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "logical_and",
        "logical_or",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
    ):
        facts |= {"mask"}
    if name in WITHOUT_GRADIENT:
        facts = facts - {"grad"} | {"cut"}
    plain = Value(Kind.TENSOR, places, value.certainty, facts=facts)
    return result_of(binding, plain)


#: Methods whose result has at least one dimension whatever they are given.
_SPREADING = frozenset("unsqueeze flatten ravel repeat nonzero unfold tile expand_as masked_select".split())
_SHAPED = frozenset(["view", "reshape", "expand"])


def _method_rank(name: str, value: Value, mixed: Value, arguments: Arguments, binding: Binding | None) -> int | None:
    if name in _SPREADING:
        return 1
    if name in _SHAPED and arguments.positional:
        only = arguments.positional[0].value
        if len(arguments.positional) == 1 and only.kind is Kind.SEQUENCE and only.items == ():
            return 0
        return 1
    known = binding.rank if binding is not None else None
    if known is torch_api.Rank.ZERO:
        return 0
    if known is torch_api.Rank.SOME:
        return 1
    source = {torch_api.Rank.FIRST: value, torch_api.Rank.SAME: mixed}.get(known) if known is not None else None
    if source is None:
        return None
    ranks = {p.rank for p in source.places}
    return ranks.pop() if len(ranks) == 1 else None


# ---------------------------------------------------------------------- Modules


#: Methods of every Module that placement knows; another name is an attribute that is called.
_MODULE_METHODS = frozenset(
    "register_buffer register_parameter add_module register_module parameters buffers named_parameters named_buffers"
    " children modules named_children named_modules eval train requires_grad_ apply share_memory compile state_dict"
    " forward generate items values keys append extend insert load_state_dict zero_grad".split()
)


def switch_mode(run: Interpreter, name: str, arguments: Arguments) -> None:
    """`model.eval()`, `model.train()`: what follows evaluates, or trains."""
    given = arguments.positional[0].node if arguments.positional else None
    off = given is not None and dotted(given) == "False"
    run.scene = run.scene._replace(evaluating=name == "eval" or off)


def _module_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    owner = value.ref
    if isinstance(owner, Class) and name not in _MODULE_METHODS:
        from torchlint.placement.calls import call_value
        from torchlint.placement.expressions import attribute

        return call_value(run, attribute(run, func, env), node, arguments, env)
    if name in ("register_buffer", "register_parameter") and len(arguments.positional) >= 1:
        given = arguments.value("tensor", 1) or arguments.value("param", 1) or UNKNOWN
        text = string(arguments.positional[0].node)
        kind = Kind.TENSOR if given.kind in (Kind.UNKNOWN, Kind.NONE, Kind.TENSOR) else given.kind
        stored = given.but(kind=kind, facts=given.facts | {"parameter" if name.endswith("parameter") else "buffer"})
        if isinstance(owner, Class) and text is not None:
            register(run, owner, text, stored, "buffer" if name.endswith("buffer") else "parameter", node)
        return UNKNOWN
    if name in ("add_module", "register_module") and isinstance(owner, Class) and arguments.positional:
        text = string(arguments.positional[0].node)
        given = arguments.value("module", 1) or UNKNOWN
        if text is not None:
            register(run, owner, text, given.but(kind=Kind.MODULE), "module", node)
        else:
            owner.registered.add("*")
        return UNKNOWN
    if name in ("parameters", "buffers"):
        facts = frozenset({"parameter", "leaf", "grad"}) if name == "parameters" else frozenset({"buffer"})
        inner = tensor(with_rank(value.places, 1), value.certainty, facts)
        return sequence(element=inner.but(name=dotted(func.value)))
    if name in ("named_parameters", "named_buffers"):
        inner = tensor(with_rank(value.places, 1), value.certainty, frozenset({"parameter", "leaf", "grad"}))
        return sequence(element=sequence((Value(Kind.STRING), inner)))
    if name in ("children", "modules"):
        return sequence(element=Value(Kind.MODULE, value.places, value.certainty))
    if name in ("named_children", "named_modules"):
        return sequence(element=sequence((Value(Kind.STRING), Value(Kind.MODULE, value.places, value.certainty))))
    if name in ("eval", "train"):
        switch_mode(run, name, arguments)
        return value
    if name in ("requires_grad_", "apply", "share_memory", "compile"):
        return value
    if name == "state_dict":
        inner = tensor(tuple(p for p in value.places), Certainty.KNOWN, frozenset({"state"}))
        return Value(Kind.MAPPING, element=inner)
    if name == "forward":
        from torchlint.placement.calls import call_module

        return call_module(run, value, node, arguments, env)
    if name == "generate":
        return tensor(tuple(p for p in value.places if not p.place.is_host), Certainty.INFERRED)
    if name in _EMBEDDINGS:
        return Value(Kind.MODULE, value.places, Certainty.INFERRED)
    if name in ("items", "values", "keys"):
        return sequence(element=value.element or UNKNOWN)
    if name in ("append", "extend", "insert") and arguments.positional:
        return UNKNOWN
    return UNKNOWN


# ---------------------------------------------------------------------- the rest


def _optimizer_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name == "step":
        run.emit(Step(node, run.scene, value))
    elif name == "load_state_dict":
        run.emit(Build(node, run.scene, "optimizer state", name, value))
    return UNKNOWN


def _scaler_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name in ("scale", "unscale_", "step", "update"):
        run.emit(Scaler(node, run.scene, name, value, dotted(func.value) or ""))
    if name == "scale":
        given = arguments.value("outputs", 0) or UNKNOWN
        scaled = frozenset() if "off" in value.facts else frozenset({"scaled"})
        return given.but(
            kind=Kind.TENSOR, facts=given.facts | scaled, certainty=min(given.certainty, Certainty.INFERRED)
        )
    if name == "get_scale":
        emit_sync(run, node, "get_scale", Value(Kind.TENSOR, certainty=value.certainty), hidden=True)
    if name in ("get_scale", "state_dict"):
        return NUMBER
    return UNKNOWN


#: How a list grows by one.
_GROWING = frozenset(["append", "appendleft", "insert"])


def _sequence_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    key = dotted(func.value)
    if name in ("append", "add", "appendleft", "extend", "insert") and arguments.positional:
        given = arguments.positional[-1].value
        if name == "extend":
            given = element_of(given)
        if key is not None:
            old = value.element
            grown = value.but(element=given if old is None else join(old, given), items=None)
            env[key] = grown
            if (
                "." in key
                and run.frame.function is not None
                and run.frame.function.owner is not None
                and key.startswith(f"{run.frame.self_name}.")
            ):
                owner = run.frame.function.owner
                attribute = key.split(".", 1)[1]
                if attribute in owner.attributes:
                    owner.attributes[attribute] = grown
                    run.emit(
                        Attribute(
                            node, run.scene, owner, attribute, grown, "append", arguments.positional[-1].node
                        )
                    )
        kept = arguments.positional[-1].node
        if name in _GROWING and key is not None and isinstance(kept, cst.BaseExpression):
            keep(run, node, kept, given, name, key)
        if run.frame.function is not None:
            run.frame.function.writes = True
            run.frame.function.changes |= "made" not in value.facts
        return UNKNOWN
    if name in ("pop", "popleft", "get"):
        return element_of(value)
    if name in ("copy", "__iter__"):
        return value
    if name in ("index", "count"):
        return NUMBER
    return UNKNOWN


def _mapping_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    element = value.element or Value(Kind.UNKNOWN, value.places)
    if name == "items":
        return sequence(element=sequence((Value(Kind.STRING), element)))
    if name == "values":
        return sequence(element=element)
    if name == "keys":
        return sequence(element=Value(Kind.STRING))
    if name in ("get", "pop", "setdefault"):
        key = string(arguments.positional[0].node) if arguments.positional else None
        if key is not None and value.keys and key in value.keys:
            return value.keys[key]
        return as_flag(element, key or "")
    if name == "copy":
        return value
    if name in ("to", "cuda", "cpu"):
        # A plain dict has none: this is a batch class that moves itself or returns the moved.
        return value
    if name == "update" and arguments.positional:
        key = dotted(func.value)
        given = arguments.positional[0].value
        if key is not None and given.kind is Kind.MAPPING:
            env[key] = value.but(
                element=join(value.element, given.element) if value.element is not None else given.element
            )
    return UNKNOWN


def _owned_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name in _MOVES:
        key = dotted(func.value)
        moved = value
        if name in _PLACING and value.element is not None:
            target, _ = _target(run, node, name, value, arguments)
            if target is not None:
                moved = value.but(element=value.element.at(with_rank(target, 1)))
        run.emit(
            Move(
                node,
                run.scene,
                name,
                func.value,
                value,
                moved,
                name in _PLACING,
                use=run.move_uses.get(node, Use.USED),
            )
        )
        if key is not None:
            env[key] = moved
        return moved
    if name in ("items", "values", "keys", "get", "pop"):
        return _mapping_method(run, node, func, name, Value(Kind.MAPPING, element=value.element), arguments, env)
    if name == "backward":
        passed = arguments.find("loss", 0)
        loss = passed.node if passed is not None and isinstance(passed.node, cst.BaseExpression) else None
        what = passed.value if passed is not None else UNKNOWN
        run.emit(Backward(node, run.scene, what, owner=value.name or "framework", loss=loss))
        return UNKNOWN
    if name == "prepare":
        given = [o.value for o in arguments.positional]
        made = tuple(prepared(v) for v in given)
        return made[0] if len(made) == 1 else sequence(made)
    if name in ("decode", "batch_decode", "encode") and name != "encode":
        return Value(Kind.STRING)
    wanted = arguments.value("return_tensors")
    if wanted is not None and wanted.name == "pt":
        from torchlint.placement.calls import batch_encoding

        return batch_encoding(node)
    return UNKNOWN


def prepared(value: Value) -> Value:
    """What `accelerator.prepare` gives: a Module that moves its inputs, a loader whose batches are moved."""
    if value.kind is Kind.MODULE:
        return value.but(places=(), facts=value.facts | {"wrapped"}, ref=None)
    if value.kind is Kind.LOADER:
        return Value(Kind.LOADER)
    if value.kind is Kind.OPTIMIZER:
        return value.but(facts=value.facts | {"owned"})
    return Value(Kind.UNKNOWN)


def _device_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name in ("startswith", "endswith", "__eq__", "find"):
        return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
    if value.kind is Kind.STRING:
        return Value(Kind.STRING) if name not in ("split", "splitlines") else sequence(element=Value(Kind.STRING))
    return UNKNOWN


def _string_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if name in ("startswith", "endswith"):
        given = arguments.value("prefix", 0)
        text = given.name if given is not None else None
        if text and text.split(":")[0] in ("cuda", "mps", "xpu", "cpu", "gpu"):
            return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
        return NUMBER
    if name == "format" and value.name and value.name.split(":")[0] in ("cuda", "mps", "xpu"):
        return Value(Kind.STRING, name=value.name, facts=frozenset({"formatted"}))
    if name == "format":
        for operand in arguments.all():
            emit_sync(run, operand.node, "format", operand.value, hidden=True)
    return Value(Kind.STRING) if name not in ("split", "splitlines") else sequence(element=Value(Kind.STRING))


def _array_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    if (
        name
        in ("item", "tolist", "mean", "sum", "max", "min", "std", "argmax", "argmin", "any", "all", "prod")
        and not arguments.all()
    ):
        return NUMBER.at(value.places)
    return ARRAY.at(value.places)


def _unknown_method(
    run: Interpreter, node: cst.Call, func: cst.Attribute, name: str, value: Value, arguments: Arguments, env: Env
) -> Value:
    receiver = dotted(func.value) or ""
    last = receiver.rsplit(".", 1)[-1].lower()
    if name in ("parameters", "named_parameters", "modules", "children", "named_modules", "state_dict"):
        return _module_method(
            run, node, func, name, value.but(kind=Kind.MODULE, certainty=Certainty.INFERRED), arguments, env
        )
    if name in ("eval", "train") and len(arguments.all()) <= (name == "train"):
        switch_mode(run, name, arguments)
        return value.but(kind=Kind.MODULE, certainty=min(value.certainty, Certainty.INFERRED))
    if name in _EMBEDDINGS:
        return Value(Kind.MODULE, (), Certainty.INFERRED)
    if name == "generate" and arguments.named.keys() & _GENERATION and "return_dict_in_generate" not in arguments.named:
        return tensor((), Certainty.INFERRED)
    wanted = arguments.value("return_tensors")
    if name == "encode" and wanted is not None and wanted.name == "pt":
        # A tokenizer's `encode` gives the ids alone, as a tensor on the CPU.
        return tensor((Alternative(HOST, 1, node),), Certainty.INFERRED)
    if name == "backward":
        if arguments.positional:
            run.emit(Backward(node, run.scene, arguments.positional[0].value, owner=receiver, loss=node.args[0].value))
        else:
            run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=func.value))
        return UNKNOWN
    if name == "scale" and len(arguments.positional) == 1 and not _is_scaler(run, receiver, last, name):
        # Where this goes backward, what scales is a GradScaler.
        given = arguments.positional[0].value
        return Value(Kind.UNKNOWN, given.places, Certainty.INFERRED, facts=given.facts | {"scaled"})
    if _is_scaler(run, receiver, last, name) or (name == "step" and _steps_optimizer(run, last, arguments)):
        # What an unknown call gave may follow a protocol of its own.
        sure = Certainty.GUESSED if "assumed" in value.facts else Certainty.INFERRED
        return _scaler_method(run, node, func, name, value.but(kind=Kind.SCALER, certainty=sure), arguments, env)
    if name == "step" and _is_optimizer(run, receiver, last):
        run.emit(Step(node, run.scene, value.but(kind=Kind.OPTIMIZER, certainty=Certainty.INFERRED)))
        return UNKNOWN
    if name == "clip_grad_norm_":
        run.emit(GradUse(node, run.scene, name))
        return UNKNOWN
    if name in ("items", "values", "keys", "get"):
        inner = Value(Kind.UNKNOWN, value.places, value.certainty, facts=value.facts & {"assumed"})
        return _mapping_method(run, node, func, name, Value(Kind.MAPPING, element=inner), arguments, env)
    if name in _GROWING and arguments.positional:
        kept = arguments.positional[-1]
        if isinstance(kept.node, cst.BaseExpression):
            keep(run, node, kept.node, kept.value, name, receiver)
        return UNKNOWN
    if name in ("numpy", "item", "tolist", "detach"):
        _copied_before(run, func.value)
        if name != "detach":
            read_pending(run, node, name, value)
    if name == "numpy":
        if value.places and all(p.place.where is Where.NAMED for p in value.places):
            # It was moved, and what has both `to` and `numpy` is a tensor.
            return _tensor_method(run, node, func, name, _as_tensor(value), arguments, env)
        return ARRAY.at(value.places if value.on_host else ())
    in_module = bool(value.places) and all(p.place.where is Where.OF_MODULE for p in value.places)
    speaks = distinguishes_tensor(name) or (in_module and speaks_of_array(name))
    if speaks and not _refuted(run, receiver):
        return _tensor_method(
            run, node, func, name, value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED), arguments, env
        )
    if name == "item" and len(arguments.positional) == 0 and not _refuted(run, receiver):
        # NumPy has it, too; but what NumPy gives is known as an array or a number.
        return _read(run, node, name, value.but(kind=Kind.TENSOR, certainty=Certainty.INFERRED))
    if name == "tolist" and may_wait(value):
        return _read(run, node, name, value)
    if name in ("size", "dim", "numel", "item", "tolist"):
        return sequence(element=NUMBER) if name == "size" and not arguments.positional else NUMBER
    from torchlint.placement.calls import unknown_call

    waited = run.timeline.waited
    result = unknown_call(run, UNKNOWN, node, arguments, env)
    if torch_api.is_method(name) and result.kind is Kind.UNKNOWN:
        run.timeline.waited = waited
        # Whatever it is, what comes of it is where it is.
        facts = value.facts - {"fresh"}
        if name in _COMPUTING and value.facts & {"assumed", "grad"} and value.places and not value.on_host:
            facts |= {"computed"}
        return Value(Kind.UNKNOWN, tuple(p._replace(rank=None) for p in value.places), Certainty.INFERRED, facts=facts)
    return result


#: Methods that compute: what they are called on is a tensor or an array.
_COMPUTING = frozenset(
    "sum mean max min argmax argmin abs any all norm std var median prod sqrt exp log log2 log10 pow float long int"
    " double half eq ne gt lt ge le clamp softmax sigmoid tanh round add sub mul div squeeze view reshape"
    " flatten".split()
)


def _as_tensor(value: Value) -> Value:
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


def _refuted(run: Interpreter, receiver: str) -> bool:
    used = run.frame.usage.attributes.get(receiver)
    if not used:
        return False
    return not {a for a in used if not a.endswith(("()", "=", "]"))} <= torch_api.TENSOR_ATTRIBUTES


def _is_optimizer(run: Interpreter, receiver: str, last: str) -> bool:
    """Whether what steps is an optimizer, told by its name or by the gradients that it zeroes."""
    if "optim" in last or last in ("opt", "optimiser", "sgd", "adam"):
        return True
    return "zero_grad" in run.frame.usage.attributes.get(receiver, set())


def _steps_optimizer(run: Interpreter, last: str, arguments: Arguments) -> bool:
    """Whether an optimizer is what is stepped: nothing but scalers takes one."""
    if len(arguments.positional) != 1 or "sched" in last:
        return False
    operand = arguments.positional[0]
    if operand.value.kind is Kind.OPTIMIZER:
        return True
    name = dotted(operand.node)
    return (
        name is not None
        and operand.value.kind is Kind.UNKNOWN
        and _is_optimizer(run, name, name.rsplit(".", 1)[-1].lower())
    )


def _is_scaler(run: Interpreter, receiver: str, last: str, name: str) -> bool:
    if name not in ("scale", "unscale_", "step", "update", "get_scale"):
        return False
    if "scaler" in last or name == "get_scale":
        return True
    used = run.frame.usage.attributes.get(receiver, set())
    return "unscale_" in used or {"scale", "step"} <= used


#: Methods of transformers' models that give a Module
#: (https://huggingface.co/docs/transformers/main/en/main_classes/model), and arguments that only its `generate` has
#: (https://huggingface.co/docs/transformers/main/en/main_classes/text_generation).
_EMBEDDINGS = frozenset(["get_input_embeddings", "get_output_embeddings"])
_GENERATION = frozenset("max_new_tokens num_beams do_sample pad_token_id eos_token_id num_return_sequences".split())

_BY_KIND = {
    Kind.TENSOR: _tensor_method,
    Kind.MODULE: _module_method,
    Kind.OPTIMIZER: _optimizer_method,
    Kind.SCALER: _scaler_method,
    Kind.SEQUENCE: _sequence_method,
    Kind.MAPPING: _mapping_method,
    Kind.OWNED: _owned_method,
    Kind.DEVICE: _device_method,
    Kind.STRING: _string_method,
    Kind.ARRAY: _array_method,
    Kind.UNKNOWN: _unknown_method,
    Kind.NONE: _unknown_method,
}

