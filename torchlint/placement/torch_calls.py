"""Calls of torch itself: factories, Modules, contexts, and operations by the facts of `torch_api`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement import torch_api
from torchlint.placement.arguments import Arguments, spread
from torchlint.placement.comparisons import sort_of_device
from torchlint.placement.devices import (
    VENDORS,
    device_at_hand,
    device_places,
    emit_device_name,
    name_device,
    named_place,
    note_cuda_autocast,
)
from torchlint.placement.events import (
    Autocast,
    Backward,
    Build,
    Clock,
    Create,
    Demand,
    DeviceName,
    GradUse,
    Load,
    Operand,
    Pin,
    Save,
    Scaler,
    UnsafeUnderAutocast,
    Wrap,
)
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.loads import path_of
from torchlint.placement.operations import emit_host_only, mix, tensor_operands
from torchlint.placement.syncs import demand, demand_host, emit_full_sync, emit_sync
from torchlint.placement.syntax import integer, words
from torchlint.placement.timeline import read_pending
from torchlint.placement.values import (
    DEFAULT,
    HOST,
    NO_FACTS,
    NUMBER,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Place,
    Value,
    Where,
    element_of,
    sequence,
    tensor,
    union,
    with_rank,
)

if TYPE_CHECKING:
    from torchlint.placement.torch_api import Binding, Overload, Parameter

Handler = Callable[[Interpreter, str, cst.Call, Arguments, Env], "Value | None"]
_HANDLERS: dict[str, Handler] = {}


def _api(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


def torch_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A call of `torch.…` by canonical name."""
    handler = _HANDLERS.get(name)
    if handler is not None:
        result = handler(run, name, node, arguments, env)
        if result is not None:
            return result
    device = arguments.find("device")
    if device is not None and not name.startswith("torch.cuda."):
        name_device(run, device.node, device.value, "literal", name)
    if name in torch_api.CREATES:
        return create(run, name, node, arguments, env)
    if name in torch_api.MODULES or name in _WRAPPERS:
        return _build_module(run, name, node, arguments)
    if name in torch_api.OPTIMIZERS:
        parameters = arguments.value("params", 0) or UNKNOWN
        value = Value(Kind.OPTIMIZER, name=name, element=element_of(parameters))
        run.emit(Build(node, run.scene, "optimizer", name, value, tuple(arguments.positional), arguments.values()))
        return value
    if name in torch_api.SCHEDULERS:
        return Value(Kind.SCHEDULER, name=name)
    if name.startswith(("torch.cuda.", "torch.mps.", "torch.xpu.", "torch.backends.", "torch.accelerator.")):
        return _vendor(run, name, node, arguments)
    return _operation(run, name, node, arguments)


# ---------------------------------------------------------------------- devices


@_api("torch.device")
def _device(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("type", 0) or arguments.find("device", 0)
    facts = frozenset({"torch.device"})
    if given is None:
        return Value(Kind.DEVICE, (Alternative(Place(Where.NAMED, words(node)), None, node),), facts=facts)
    if given.value.kind is Kind.STRING and given.value.name:
        index = arguments.find("index", 1)
        if index is None or integer(index.node) is not None:
            api = "torch.device" if index is None else "torch.device(…, index)"
            name_device(run, node, given.value, "literal", api)
        facts = sort_of_device(given.value.name, index is not None)
        return Value(Kind.DEVICE, (named_place(given.value.name, node),), facts=facts, tests=given.value.tests)
    places = given.value.places if given.value.kind in (Kind.DEVICE, Kind.STRING) else ()
    if not places:
        places = (Alternative(Place(Where.NAMED, words(node) if "…" not in words(node) else "device"), None, node),)
    return Value(Kind.DEVICE, places, given.value.certainty, facts=facts, tests=given.value.tests)


@_api("torch.set_default_device", "torch.set_default_tensor_type")
def _default_device(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("device", 0) or arguments.find("t", 0)
    if given is None:
        return UNKNOWN
    text = given.value.name or ""
    run.default_is_set = name.endswith("device") or "cuda" in text or not text.endswith("Tensor")
    if name.endswith("device"):
        name_device(run, given.node, given.value, "literal", name)
    elif "cuda" in text:
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name, literal=text))
    return UNKNOWN


@_api("torch.distributed.init_process_group")
def _process_group(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    backend = arguments.value("backend", 0)
    if backend is not None and backend.name == "nccl" and not run.scene.asks_for_accelerator:
        run.emit(Demand(node, run.scene, "nccl"))
    return UNKNOWN


@_api("torch.Generator")
def _generator(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    device = arguments.find("device", 0)
    if device is None:
        return Value(Kind.GENERATOR, (Alternative(HOST, None, node),))
    name_device(run, device.node, device.value, "literal", name)
    return Value(Kind.GENERATOR, device_places(run, device, node))


@_api(
    "torch.cuda.is_available", "torch.backends.mps.is_available", "torch.backends.mps.is_built",
    "torch.xpu.is_available",
    "torch.mps.is_available", "torch.accelerator.is_available", "torch.cuda.device_count", "torch.cuda.is_initialized",
    "torch.mps.device_count", "torch.xpu.device_count", "torch.accelerator.device_count", "torch.hpu.is_available",
    "torch.npu.is_available", "torch.backends.cuda.is_built", "torch.cuda.is_bf16_supported", "torch.cuda._is_compiled",
    "torch.cuda.get_device_capability",
)  # fmt: skip
def _available(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    if ".mps." in name:
        run.emit(DeviceName(node, run.scene, "mps", "mention", name), "mention")
    return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))


@_api("torch.accelerator.current_accelerator")
def _accelerator(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    place = Alternative(Place(Where.NAMED, words(node)), None, node)
    return Value(Kind.DEVICE, (place,), facts=frozenset({"torch.device"}))


@_api("torch.cuda.synchronize", "torch.mps.synchronize", "torch.xpu.synchronize", "torch.accelerator.synchronize")
def _synchronize(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    emit_full_sync(run, node, "synchronize")
    if not name.startswith("torch.accelerator"):
        _vendor(run, name, node, arguments)
    return UNKNOWN


@_api("torch.cuda.empty_cache", "torch.mps.empty_cache", "torch.xpu.empty_cache")
def _empty_cache(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    emit_full_sync(run, node, "empty_cache")
    if not name.startswith("torch.cuda"):
        _vendor(run, name, node, arguments)
    return UNKNOWN


@_api(
    "torch.cuda.Event",
    "torch.Event",
    "torch.mps.event.Event",
    "torch.xpu.Event",
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
)
def _measures(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    run.emit(Clock(node, run.scene, name))
    if name.startswith(("torch.cuda", "torch.mps", "torch.xpu")):
        _vendor(run, name, node, arguments)
    return Value(Kind.OBJECT, name="event") if name.endswith("Event") else UNKNOWN


def _vendor(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    family = name.split(".")[1] if not name.startswith("torch.backends.") else name.split(".")[2]
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name))
        rank = None if not arguments.positional else 1
        return tensor((Alternative(Place(Where.NAMED, "cuda"), rank, node),))
    known = torch_api.VENDOR.get(name)
    if family in VENDORS and known is not None and known.raises:
        first = arguments.positional[0] if arguments.positional else None
        chosen = name.endswith(".set_device") and first is not None and integer(first.node) is None
        emit_device_name(run, DeviceName(node, run.scene, family, "api", name, raises=True, chosen=chosen))
    last = name.rsplit(".", 1)[-1]
    if last in ("current_device", "device"):
        place = Alternative(Place(Where.NAMED, words(node) if "…" not in words(node) else family), None, node)
        return Value(Kind.DEVICE if last == "current_device" else Kind.CONTEXT, (place,))
    return UNKNOWN


# ---------------------------------------------------------------------- creation


#: Sparse constructors, which follow their values.
_OF_VALUES = frozenset(n for n in torch_api.FOLLOWS_DATA if n.startswith("torch.sparse_"))


def create(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A factory: `torch.zeros`, `torch.tensor`, `torch.from_numpy`, `torch.FloatTensor`, …."""
    for operand in arguments.positional:
        if name in _SIZED or name == "torch.arange":
            demand(run, operand.value)
    device = arguments.find("device")
    position = torch_api.parameter_names(name).index("values") if name in _OF_VALUES else 0
    data = (
        arguments.value("values" if name in _OF_VALUES else "data", position)
        if name in torch_api.FOLLOWS_DATA or name in torch_api.IGNORES_DEFAULT_DEVICE
        else None
    )
    rank = _rank_of_creation(name, node, arguments)
    mapped = _from_mapping(arguments)
    if device is not None and device.value.kind is not Kind.NONE:
        places, why = with_rank(device_places(run, device, node), rank), "explicit"
    elif mapped is not None:
        places = (
            with_rank(device_places(run, Operand(node, mapped), node), rank)
            if mapped.kind is not Kind.UNKNOWN
            else ()
        )
        why = "explicit"
    elif arguments.may_have("device") or arguments.find("out") is not None:
        out = arguments.value("out")
        places, why = (out.places if out is not None else ()), "unknown"
    elif data is not None and data.kind is Kind.TENSOR and name not in torch_api.IGNORES_DEFAULT_DEVICE:
        places, why = with_rank(data.places, rank), "template"
    elif data is not None and data.kind is Kind.UNKNOWN and name in ("torch.as_tensor", "torch.asarray"):
        # A tensor stays where it is, anything else goes to the host.
        places, why = (), "unknown"
    elif run.context_places is not None and name not in torch_api.IGNORES_DEFAULT_DEVICE:
        places, why = tuple(p._replace(rank=rank, origin=node) for p in run.context_places), "default"
    elif run.has_default_device and name not in torch_api.IGNORES_DEFAULT_DEVICE:
        places, why = (Alternative(DEFAULT, rank, node),), "default"
    else:
        places = (Alternative(HOST, rank, node),)
        why = "host-only" if name in torch_api.IGNORES_DEFAULT_DEVICE else "default"
        if arguments.find("generator") is not None:
            why = "generator"
            generator = arguments.value("generator")
            if (generator is not None and generator.places and not generator.on_host) or (
                generator is not None and generator.kind is not Kind.GENERATOR
            ):
                places = ()
    facts: frozenset[str] = frozenset()
    wants_grad = arguments.find("requires_grad")
    if wants_grad is not None and words(wants_grad.node) == "True":
        facts |= {"grad", "leaf"}
    pinned = arguments.find("pin_memory")
    if pinned is not None and words(pinned.node) != "False":
        facts |= {"pinned"}
    dtype = arguments.value("dtype")
    if (dtype is not None and dtype.name == "bool") or name == "torch.BoolTensor":
        facts |= {"mask"}
    value = Value(Kind.TENSOR, places, facts=facts)
    nearby = _nearby(run, env) if value.on_host else ()
    given = None if dtype is None else dtype.name
    if name == "torch.DoubleTensor":
        given = "float64"
    run.emit(Create(node, run.scene, name, value, why, data, name in torch_api.RANDOM, nearby, given))
    return value


def _nearby(run: Interpreter, env: Env) -> tuple[tuple[str, Value], ...]:
    """The names in scope that can say where a new tensor should be: tensors off the host, and devices; latest first."""
    found = [
        (name, value)
        for name, value in reversed(list(env.items()))
        if value.kind in (Kind.TENSOR, Kind.DEVICE) and value.places and not value.may_be_on_host
    ]
    function = run.frame.function
    for outer in (*run.frame.outer, run.globals):
        found += [(name, value) for name, value in outer.items() if value.kind is Kind.DEVICE and value.places]
    if function is not None and function.owner is not None and run.frame.self_name:
        for name, value in function.owner.attributes.items():
            if value.kind is Kind.DEVICE or (value.kind is Kind.TENSOR and name in function.owner.registered):
                found.append((f"{run.frame.self_name}.{name}", value))
    return tuple(found[:20])


def _from_mapping(arguments: Arguments) -> Value | None:
    for mapping in arguments.unpacked:
        if mapping.keys is not None and "device" in mapping.keys:
            return mapping.keys["device"]
    return None


_SIZED = frozenset("torch.zeros torch.ones torch.empty torch.rand torch.randn torch.full torch.randint".split())


def _rank_of_creation(name: str, node: cst.Call, arguments: Arguments) -> int | None:
    if name == "torch.scalar_tensor":
        return 0
    if name in ("torch.tensor", "torch.as_tensor", "torch.asarray"):
        data = arguments.value("data", 0)
        if data is None:
            return None
        if data.kind in (Kind.NUMBER,):
            return 0
        if data.kind in (Kind.SEQUENCE, Kind.ARRAY):
            return 1
        if data.kind is Kind.TENSOR:
            return data.places[0].rank if data.places else None
        return None
    if name in _SIZED:
        size = arguments.find("size", 2 if name == "torch.randint" and len(arguments.positional) > 2 else 0)
        if name == "torch.randint":
            sizes = [o for o in arguments.all() if o.value.kind is Kind.SEQUENCE]
            size = sizes[0] if sizes else size
        if size is None:
            return 1 if arguments.starred else None
        if type(size.node) is cst.Tuple or type(size.node) is cst.List:
            return 1 if size.node.elements else 0
        return 1
    return 1


@_api(
    "torch.zeros_like",
    "torch.ones_like",
    "torch.empty_like",
    "torch.full_like",
    "torch.rand_like",
    "torch.randn_like",
    "torch.randint_like",
)
def _like(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    template = arguments.value("input", torch_api.FOLLOWS_TEMPLATE.get(name, 0)) or UNKNOWN
    device = arguments.find("device")
    if device is not None:
        name_device(run, device.node, device.value, "literal", name)
    if device is not None and device.value.kind is not Kind.NONE:
        places, why = device_places(run, device, node), "explicit"
    else:
        places, why = template.places, "template"
        if arguments.may_have("device"):
            places, why = (), "unknown"
    value = Value(Kind.TENSOR, places, template.certainty, facts=template.facts & {"assumed"})
    run.emit(Create(node, run.scene, name, value, why, template, name in torch_api.RANDOM))
    return value


@_api("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer")
def _parameter(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    data = arguments.value("data", 0)
    facts = frozenset({"parameter", "leaf", "grad"})
    if data is None:
        return tensor((Alternative(HOST, 1, node),), Certainty.KNOWN, facts)
    return Value(Kind.TENSOR, data.places, Certainty.KNOWN, facts=facts)


@_api("torch.nn.UninitializedParameter", "torch.nn.UninitializedBuffer", "torch.nn.parameter.UninitializedParameter")
def _lazy_parameter(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return tensor((), Certainty.KNOWN, frozenset({"parameter", "leaf", "grad"}))


@_api("torch.autograd.Variable", "torch.autograd.variable.Variable")
def _variable(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """Once a wrapper around a tensor, now the tensor itself."""
    data = arguments.value("data", 0) or UNKNOWN
    wants_grad = arguments.find("requires_grad", 1)
    if data.kind is Kind.TENSOR and wants_grad is not None and words(wants_grad.node) == "True":
        return data.but(facts=data.facts | {"grad", "leaf"})
    return data.but(facts=data.facts - {"fresh"})


# ---------------------------------------------------------------------- Modules


_CONTAINERS = frozenset(["torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"])
_WRAPPERS = frozenset(
    ["torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel",
     "torch.nn.parallel.distributed.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel",
     "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel"]
)  # fmt: skip


def _build_module(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    if name in _WRAPPERS:
        return _wrap(run, name, node, arguments)
    if name in _CONTAINERS:
        return _container(run, name, node, arguments)
    device = arguments.find("device")
    if name in torch_api.LOSSES:
        weight = arguments.value("weight", 0) if name in _WEIGHTED else None
        weight = arguments.value("pos_weight") or weight
        run.emit(
            Build(
                node,
                run.scene,
                "loss",
                name,
                weight or UNKNOWN,
                tuple(arguments.positional),
                arguments.values(),
            )
        )
        places = (
            tuple(p._replace(origin=p.origin or node) for p in weight.places)
            if weight is not None and weight.kind is Kind.TENSOR
            else ()
        )
        facts = frozenset({"loss module", "state"}) if places else frozenset({"loss module"})
        return Value(Kind.MODULE, places, name=name, facts=facts)
    if (name not in torch_api.ACCEPTS_DEVICE and name not in _RECURRENT) or words(node).endswith("affine=False)"):
        return Value(Kind.MODULE, name=name)
    facts = frozenset({"state"})
    return Value(Kind.MODULE, _birthplace(run, node, arguments, device), name=name, facts=facts)


#: Their `device` goes through **kwargs, so that no signature shows it.
_RECURRENT = frozenset(["torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU"])
_WEIGHTED = frozenset(
    "torch.nn.CrossEntropyLoss torch.nn.NLLLoss torch.nn.BCELoss torch.nn.BCEWithLogitsLoss torch.nn.NLLLoss2d"
    " torch.nn.MultiLabelSoftMarginLoss".split()
)


def _birthplace(
    run: Interpreter, node: cst.Call, arguments: Arguments, device: Operand | None
) -> tuple[Alternative, ...]:
    if device is not None and device.value.kind is not Kind.NONE:
        return device_places(run, device, node)
    if arguments.may_have("device") or _from_mapping(arguments) is not None:
        return ()
    if run.context_places is not None:
        return tuple(p._replace(rank=None, origin=node) for p in run.context_places)
    if run.has_default_device:
        return (Alternative(DEFAULT, None, node),)
    return (Alternative(HOST, None, node),)


def _container(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    inner: list[Value] = []
    for operand in [*arguments.positional, *arguments.starred]:
        value = operand.value
        if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
            inner.extend(
                value.items
                if value.items is not None
                else [element_of(value)]
                if value.kind is Kind.SEQUENCE
                else [value.element or UNKNOWN]
            )
        else:
            inner.append(value)
    places: tuple[Alternative, ...] = ()
    element: Value | None = None
    facts: frozenset[str] = frozenset()
    for value in inner:
        if value.kind is Kind.MODULE:
            places = union(places, value.places)
            facts |= value.facts & {"state"}
        element = value if element is None or element.same(value) else Value(Kind.MODULE, ref=None)
    if any(v.kind is not Kind.MODULE for v in inner):
        places = ()
    return Value(Kind.MODULE, places, name=name, element=element or Value(Kind.MODULE), facts=facts)


def _wrap(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    inner = arguments.value("module", 0) or UNKNOWN
    run.emit(Wrap(node, run.scene, name, inner, arguments.values()))
    return Value(
        Kind.MODULE,
        tuple(p for p in inner.places if not p.place.is_host),
        inner.certainty,
        ref=inner.ref,
        facts=inner.facts | {"wrapped"},
    )


@_api(
    "torch.compile",
    "torch.jit.script",
    "torch.jit.trace",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.fx.symbolic_trace",
)
def _compile(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    inner = arguments.value("model", 0) or arguments.value("obj", 0) or UNKNOWN
    run.emit(Wrap(node, run.scene, name, inner, arguments.values()))
    return inner


def module_forward(run: Interpreter, module: Value, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A call of a Module whose class is torch's own, or is not known."""
    name = module.name or ""
    learns = name not in torch_api.MODULES or name in torch_api.ACCEPTS_DEVICE or "state" in module.facts
    facts = frozenset({"grad"}) if learns and not run.scene.no_grad else NO_FACTS
    overloads = torch_api.forward_overloads(name)
    if name == "torch.nn.BCELoss":
        _refused_by_autocast(run, name, node)
    if name in torch_api.LOSSES:
        operands = [_tensor_input(o) for o in arguments.all()]
        if name == "torch.nn.CTCLoss":  # reads targets and lengths on the host where they are there
            operands = operands[:1]
        if module.places:
            operands.insert(0, Operand(node.func, module, "weight"))
        last = name.rsplit(".", 1)[-1]
        result = mix(run, node, last, operands, strict=last in ("CrossEntropyLoss", "NLLLoss"), rank=0)
        return result.but(facts=result.facts | {"loss", "grad"})
    known = name in torch_api.MODULES and bool(overloads)
    given = arguments.all() + spread(node, arguments)
    if known and given:
        given[0] = _tensor_input(given[0])
    operands = [o for o in given if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
    if "wrapped" in module.facts:
        places = tuple(p for p in module.places if not p.place.is_host)
        return Value(
            Kind.UNKNOWN,
            places,
            Certainty.INFERRED,
            facts=facts | ({"assumed"} if not places else frozenset()),
        )
    me = Operand(node.func, module, "module")
    strict = name in torch_api.ACCEPTS_DEVICE
    api = name.rsplit(".", 1)[-1] or "forward"
    result = mix(run, node, api, [me, *operands], strict=strict, rank=1 if strict else None)
    places = result.places
    if not known:
        # Nobody knows what comes back; what does, lives where the Module is.
        places = tuple(p for p in module.places if not p.place.is_host) or tuple(
            p for p in places if not p.place.is_host
        )
        more = facts if module.places else facts | {"assumed"}
        return Value(
            Kind.UNKNOWN,
            tuple(p._replace(rank=None) for p in places),
            min(Certainty.INFERRED, module.certainty),
            facts=more,
        )
    inputs = [o.value for o in operands if o.value.kind is Kind.TENSOR]
    if not module.places and not inputs:
        return Value(Kind.TENSOR, (), Certainty.INFERRED, facts=facts)
    value = Value(Kind.TENSOR, places, result.certainty, facts=facts | result.facts)
    if overloads[0].result is torch_api.Result.TENSORS or name in (
        "torch.nn.LSTM",
        "torch.nn.GRU",
        "torch.nn.RNN",
        "torch.nn.MultiheadAttention",
    ):
        arity = overloads[0].arity or 2
        state = sequence((value, value)) if name == "torch.nn.LSTM" else value
        return sequence((value, state)) if arity == 2 else sequence((value,) * arity)
    return value


def _tensor_input(operand: Operand) -> Operand:
    """What a Module of torch is called on is a tensor."""
    return Operand(operand.node, _element_tensor(operand.value), operand.role)


# ---------------------------------------------------------------------- contexts, loading, protocols


@_api(
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.autograd.no_grad",
    "torch.autograd.grad_mode.no_grad",
)
def _grad_mode(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return Value(Kind.CONTEXT, name=name.rsplit(".", 1)[-1])


@_api("torch.set_grad_enabled")
def _set_grad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("mode", 0)
    off = given is not None and words(given.node) == "False"
    return Value(Kind.CONTEXT, name="no_grad" if off else "set_grad_enabled")


@_api(
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
)
def _autocast(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    vendor = name.startswith(("torch.cuda.", "torch.cpu."))
    device = None if vendor else arguments.find("device_type", 0)
    dtype = arguments.find("dtype", 1)
    enabled = arguments.find("enabled", 0 if vendor else 2)
    kind = "default" if dtype is None or dtype.value.kind is Kind.NONE else "unknown"
    if dtype is not None and dtype.value.kind is Kind.DTYPE and dtype.value.name:
        kind = {"half": "float16"}.get(dtype.value.name, dtype.value.name)
    state = "yes" if enabled is None else {"True": "yes", "False": "no"}.get(words(enabled.node), "flag")
    if enabled is None and (arguments.unpacked or arguments.starred):
        state = "flag"
    if arguments.unpacked or arguments.starred:
        kind = "unknown" if dtype is None else kind
    event = Autocast(
        node, run.scene, name, device.value if device is not None else None, kind, state,
        device=_node_of(device), dtype_node=_node_of(dtype), misplaced=_misplaced(vendor, device, enabled, arguments),
    )  # fmt: skip
    run.emit(event)
    if device is not None and enabled is None:
        name_device(run, device.node, device.value, "autocast", name)
    if state == "yes":
        note_cuda_autocast(run, node, name)
    return Value(Kind.CONTEXT, name="autocast", ref=event)


def _node_of(operand: Operand | None) -> cst.BaseExpression | None:
    return operand.node if operand is not None and isinstance(operand.node, cst.BaseExpression) else None


def _misplaced(vendor: bool, device: Operand | None, enabled: Operand | None, arguments: Arguments) -> str:
    """What of the arguments an autocast does not take."""
    if vendor:
        if "device_type" in arguments.named:
            return "device_type"
        return "enabled" if enabled is not None and enabled.value.kind in (Kind.STRING, Kind.DTYPE) else ""
    if device is None:
        return "" if arguments.unpacked or arguments.starred else "missing"
    value = device.value
    if value.kind is Kind.DTYPE:
        return "dtype"
    if value.kind is Kind.DEVICE and "torch.device" in value.facts:
        return "device"
    if value.kind is Kind.STRING and (":" in (value.name or "") or "device text" in value.facts):
        return "text" if "device text" in value.facts else "indexed"
    return "bool" if words(device.node) in ("True", "False") else ""


@_api(
    "torch.cuda.amp.GradScaler",
    "torch.amp.GradScaler",
    "torch.cpu.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
    "torch.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
)
def _grad_scaler(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    enabled = arguments.find("enabled", 4 if name.startswith(("torch.cuda.", "torch.cpu.")) else 5)
    text = "True" if enabled is None else words(enabled.node)
    facts = frozenset({"True": (), "False": ("disabled", "off")}.get(text, ("disabled",)))
    value = Value(Kind.SCALER, name=name, facts=facts)
    run.emit(Scaler(node, run.scene, "new", value))
    return value


@_api("torch.load", "torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url", "torch.jit.load")
def _load(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    position = {"torch.load": 1, "torch.jit.load": 1}.get(name, 2)
    mapped = arguments.find("map_location", position)
    known = mapped is not None or arguments.may_have("map_location") or bool(arguments.starred)
    path = arguments.find("f", 0) or arguments.find("url", 0)
    what = path_of(path.node) if path is not None else ""
    run.emit(Load(node, run.scene, name, known, what, device_at_hand(run)))
    if mapped is not None:
        name_device(run, mapped.node, mapped.value, "literal", name)
    return Value(Kind.UNKNOWN)


@_api("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
def _loader(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    from torchlint.placement.libraries import batch_of

    dataset = arguments.value("dataset", 0) or UNKNOWN
    run.emit(Build(node, run.scene, "loader", name, dataset, tuple(arguments.positional), arguments.values()))
    pinned = arguments.find("pin_memory")
    if pinned is not None and words(pinned.node) == "True":
        run.emit(Pin(node, run.scene, dataset), "loader")
    element = batch_of(run, dataset, arguments, node)
    own = not {"collate_fn", "batch_sampler"} & arguments.named.keys() and not arguments.may_have("collate_fn")
    facts = (
        frozenset({"collates"})
        if own and dataset.kind is not Kind.OWNED and len(arguments.positional) < 7
        else NO_FACTS
    )
    return Value(Kind.LOADER, element=element, ref=dataset.ref, facts=facts)


@_api("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
def _tensor_dataset(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    rows = tuple(element_of(o.value) if o.value.kind is Kind.TENSOR else UNKNOWN for o in arguments.positional)
    return Value(Kind.DATASET, element=sequence(rows), name=name)


@_api("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
def _subset(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return arguments.value("dataset", 0) or UNKNOWN


@_api("torch.utils.data.random_split")
def _random_split(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return sequence(element=arguments.value("dataset", 0) or UNKNOWN)


@_api(
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.get_total_norm",
)
def _clip(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    run.emit(GradUse(node, run.scene, name.rsplit(".", 1)[-1]))
    if "value" in name:
        return UNKNOWN
    given = arguments.value("parameters", 0) or UNKNOWN
    inner = element_of(given) if given.kind is Kind.SEQUENCE else given
    return Value(Kind.TENSOR, with_rank(inner.places, 0), Certainty.KNOWN, facts=frozenset({"loss"}))


@_api("torch.autograd.backward")
def _backward(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("tensors", 0)
    value = given.value if given is not None else UNKNOWN
    run.emit(Backward(node, run.scene, value, "scaled" in value.facts, loss=_node_of(given)))
    return UNKNOWN


@_api("torch.autograd.grad")
def _grad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    inputs = arguments.value("inputs", 1) or UNKNOWN
    inner = element_of(inputs) if inputs.kind is Kind.SEQUENCE else inputs
    return sequence(element=Value(Kind.TENSOR, inner.places, Certainty.INFERRED))


@_api(
    "torch.is_tensor",
    "torch.is_floating_point",
    "torch.is_complex",
    "torch.numel",
    "torch.is_storage",
    "torch.is_grad_enabled",
)
def _asks(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return NUMBER


@_api("torch.save", "torch.jit.save")
def _save(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    path = arguments.find("f", 1)
    saved = arguments.value("obj", 0) or UNKNOWN
    run.emit(Save(node, run.scene, saved, path_of(path.node) if path is not None else ""))
    for value in (saved, saved.element or UNKNOWN, *(saved.keys or {}).values()):
        read_pending(run, node, "torch.save", value)
    run.timeline.waits()
    return UNKNOWN


@_api(
    "torch.manual_seed",
    "torch.seed",
    "torch.set_num_threads",
    "torch.set_printoptions",
    "torch.use_deterministic_algorithms",
    "torch.set_float32_matmul_precision",
)
def _nothing(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return UNKNOWN


@_api("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")
def _pack(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    lengths = arguments.find("lengths", 1)
    if lengths is not None:
        demand_host(run, lengths.node)
        emit_host_only(run, node, "pack_padded_sequence", lengths)
    given = arguments.value("input", 0) or arguments.value("sequences", 0) or UNKNOWN
    return Value(Kind.UNKNOWN, given.places, Certainty.INFERRED, name="PackedSequence")


@_api("torch.nn.utils.rnn.pad_packed_sequence")
def _pad_packed(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.value("sequence", 0) or UNKNOWN
    padded = Value(Kind.TENSOR, with_rank(given.places, 1), Certainty.INFERRED, facts=frozenset({"grad"}))
    return sequence((padded, tensor((Alternative(HOST, 1, node),))))


@_api("torch.nn.utils.rnn.pad_sequence")
def _pad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.value("sequences", 0) or UNKNOWN
    inner = element_of(given)
    return Value(Kind.TENSOR, with_rank(inner.places, 1) if inner.kind is Kind.TENSOR else (), Certainty.INFERRED)


# ---------------------------------------------------------------------- operations by their facts


def bound_operands(
    run: Interpreter, name: str, overloads: Sequence[Overload], arguments: Arguments
) -> tuple[list[Operand], list[Operand], Binding | None]:
    """The arguments that are tensor operands, the tensors given for numbers, and how the call binds."""
    flags = [_is_tensor(o.value) for o in arguments.positional]
    named = {k: _is_tensor(o.value) for k, o in arguments.named.items()}
    binding = torch_api.bind(overloads, flags, named) if overloads else None
    if binding is None and "out" in named:
        rest = Arguments(arguments.positional, {k: o for k, o in arguments.named.items() if k != "out"})
        given = bound_operands(run, name, overloads, rest)
        return [*given[0], arguments.named["out"]], given[1], given[2]
    if binding is None:
        return (
            [o for o in arguments.positional if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
            if not overloads
            else [],
            [],
            None,
        )
    exempt = {*torch_api.ON_CPU.get(name, ()), *torch_api.CPU_ALLOWED.get(name, ())}
    operands: list[Operand] = []
    scalars: list[Operand] = []
    pairs = [
        *zip(binding.positional, arguments.positional),
        *((binding.keywords[k], o) for k, o in arguments.named.items()),
    ]
    for parameter, operand in pairs:
        if parameter.kind.is_tensor:
            operand = _surely_tensor(name, parameter, operand)
            if parameter.name in exempt:
                if parameter.name in torch_api.ON_CPU.get(name, ()):
                    demand_host(run, operand.node)
                continue
            if parameter.name != "out" or operand.value.kind in (Kind.TENSOR, Kind.SEQUENCE):
                operands.append(Operand(operand.node, operand.value, parameter.name))
        elif parameter.kind in (torch_api.Kind.SCALAR,) and operand.value.kind is Kind.TENSOR:
            scalars.append(Operand(operand.node, operand.value, parameter.name))
    return operands, scalars, binding


#: Parameters that take no number, whatever the function (`value` of `fill_` and `masked_fill` may be one).
_TENSORS_ONLY = frozenset(
    "input weight mask index mat2 tensors target tensor1 tensor2 vec vec2 batch2 query key".split()
)
#: Functions that take a number for their first operand, too.
_NUMBERS_FIRST = frozenset(
    "torch.pow torch.float_power torch.where torch.xlogy torch.special.xlogy torch.result_type".split()
)


def _surely_tensor(name: str, parameter: Parameter, operand: Operand) -> Operand:
    """An operand that is a tensor since this function takes nothing else there."""
    value = operand.value
    if parameter.name not in _TENSORS_ONLY or name in _NUMBERS_FIRST:
        return operand
    if value.kind is Kind.UNKNOWN and value.places and parameter.kind is torch_api.Kind.TENSOR:
        value = value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))
    elif value.kind is Kind.SEQUENCE and parameter.kind is torch_api.Kind.TENSORS:
        value = value.but(
            items=None if value.items is None else tuple(map(_element_tensor, value.items)),
            element=None if value.element is None else _element_tensor(value.element),
        )
    return Operand(operand.node, value, operand.role)


def _element_tensor(value: Value) -> Value:
    if value.kind is not Kind.UNKNOWN or not value.places:
        return value
    return value.but(kind=Kind.TENSOR, certainty=min(value.certainty, Certainty.INFERRED))


def _is_tensor(value: Value) -> bool | None:
    if value.kind is Kind.TENSOR:
        return True
    return None if value.kind is Kind.UNKNOWN else (value.kind is Kind.SEQUENCE and None) or False


def _refused_by_autocast(run: Interpreter, name: str, node: cst.Call) -> None:
    """`binary_cross_entropy` raises under CUDA autocast (https://docs.pytorch.org/docs/stable/amp.html)."""
    if run.scene.autocast and run.scene.autocast != "cpu":
        run.emit(UnsafeUnderAutocast(node, run.scene, name))


def _operation(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    if name == "torch.nn.functional.binary_cross_entropy":
        _refused_by_autocast(run, name, node)
    overloads = torch_api.overloads(name)
    operands, scalars, binding = bound_operands(run, name, overloads, arguments)
    for operand in scalars:
        emit_sync(run, operand.node, f"{operand.role}=tensor", operand.value, hidden=True)
    last = name.rsplit(".", 1)[-1]
    if name in torch_api.SYNCS:
        _hidden_sync(run, name, last, node, arguments, operands)
    if not overloads:
        if name.startswith(("torch.nn.init.", "torch.nn.functional.")) and arguments.positional:
            return arguments.positional[0].value
        return UNKNOWN
    if binding is None and not operands:
        operands = [o for o in arguments.positional if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
    if binding is not None and binding.overload.result is torch_api.Result.HOST:
        mix(run, node, last, operands)
        return NUMBER
    in_place = last.endswith("_") and bool(operands)
    unknown = any(o.value.kind is Kind.UNKNOWN for o in operands)
    strict = is_strict(last, binding)
    rank = _rank_of_operation(name, operands, binding)
    result = mix(run, node, last, operands, in_place=in_place, strict=strict, rank=rank)
    if unknown and result.on_host:
        # The other operand may be a tensor elsewhere.
        result = result.at(())
    if not any(o.value.places for o in tensor_operands(operands)):
        result = result.at(())
    facts = result.facts
    if binding is not None and binding.rank is torch_api.Rank.ZERO:
        facts |= {"loss"}
    if "loss" in last or last in (
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
    ):
        facts |= {"loss", "grad"}
    if last in (
        "isnan",
        "isinf",
        "isfinite",
        "logical_and",
        "logical_or",
        "logical_not",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "isin",
    ):
        facts |= {"mask"}
    if last in WITHOUT_GRADIENT:
        facts = facts - {"grad", "loss"} | {"cut"}
    return result_of(binding, result.but(facts=facts))


#: Operations whose result no gradient flows through.
WITHOUT_GRADIENT = frozenset(
    "argmax argmin argsort eq ne gt lt ge le long int short bool any all nonzero isnan isinf isfinite bincount"
    " count_nonzero unique histc searchsorted logical_not logical_and logical_or round sign floor ceil isin".split()
)


_JOINING = frozenset(
    [
        "torch.cat",
        "torch.stack",
        "torch.concat",
        "torch.concatenate",
        "torch.vstack",
        "torch.hstack",
        "torch.dstack",
    ]
)


#: Operations whose kernels take no tensor from elsewhere, not even a 0-dim one from the host
#: (aten/src/ATen/native/cuda: they check that all tensors are on one device rather than go through TensorIterator).
_STRICT = frozenset(
    "matmul mm bmm addmm addmv mv dot vdot inner outer ger baddbmm addbmm einsum tensordot linear bilinear embedding"
    " embedding_bag conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d index_select gather scatter"
    " scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add index_add_ index_copy index_copy_ take"
    " take_along_dim cdist layer_norm batch_norm group_norm instance_norm scaled_dot_product_attention grid_sample"
    " cross_entropy nll_loss multi_margin_loss bucketize searchsorted isin bincount pack_padded_sequence".split()
)


def is_strict(last: str, binding: Binding | None) -> bool:
    """Whether an operation takes no tensor from elsewhere, not even a 0-dim one from the host."""
    return last in _STRICT


def _rank_of_operation(name: str, operands: Sequence[Operand], binding: Binding | None) -> int | str | None:
    if name in _JOINING:
        return 1
    known = binding.rank if binding is not None else None
    if known is torch_api.Rank.ZERO:
        return 0
    if known is torch_api.Rank.SOME:
        return 1
    if known is torch_api.Rank.SAME:
        return "elementwise"
    if known is torch_api.Rank.FIRST and operands and operands[0].value.places:
        ranks = {p.rank for p in operands[0].value.places}
        return ranks.pop() if len(ranks) == 1 else None
    return None


def _hidden_sync(
    run: Interpreter, name: str, last: str, node: cst.Call, arguments: Arguments, operands: Sequence[Operand]
) -> None:
    unless = torch_api.SYNC_UNLESS.get(name)
    if unless is not None and (unless in arguments.named or (name == "torch.where" and len(arguments.positional) > 1)):
        return
    if name == "torch.nn.functional.one_hot" and len(arguments.positional) > 1:
        return
    if not waits(last, [*arguments.positional[1:], *(o for k, o in arguments.named.items() if k != "input")]):
        return
    first = next((o for o in operands if o.value.kind is Kind.TENSOR), None)
    if first is not None:
        emit_sync(run, node, last, first.value, hidden=True)


#: Operations that read no value of what they work on, only of a tensor that says how often, where or how far.
_READ_AN_ARGUMENT = frozenset(["repeat_interleave", "narrow", "tensor_split", "cov", "corrcoef"])


def waits(name: str, others: Sequence[Operand]) -> bool:
    """Whether an operation that may wait does, given its arguments beside the tensor that it works on."""
    return name not in _READ_AN_ARGUMENT or any(o.value.kind is Kind.TENSOR for o in others)


def result_of(binding: Binding | None, value: Value) -> Value:
    """A tensor as the kind of result that the overload gives: itself, several, a number, an array."""
    if binding is None:
        return value
    result = binding.overload.result
    if result is torch_api.Result.TENSORS:
        arity = binding.overload.arity
        return sequence((value,) * arity) if arity is not None else sequence(element=value)
    if result is torch_api.Result.HOST:
        return NUMBER
    if result in (torch_api.Result.NOTHING, torch_api.Result.MODULE):
        return UNKNOWN
    if result is torch_api.Result.ARRAY:
        return Value(Kind.ARRAY)
    return value if result is torch_api.Result.TENSOR else value.but(certainty=min(value.certainty, Certainty.INFERRED))


