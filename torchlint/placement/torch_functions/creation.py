"""Where factories and parameters put the tensors they make."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import (
    device_places,
    name_device,
)
from torchlint.placement.events import (
    Create,
    IgnoredDevice,
    Operand,
)
from torchlint.placement.hazards.generators import note_draw
from torchlint.placement.hazards.syncs import demand, emit_sync, may_wait, spare
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.methods.moves import all_host
from torchlint.placement.syntax import words
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    DEFAULT,
    HOST,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    tensor,
    with_rank,
)

#: Sparse constructors, which follow their values.
_OF_VALUES = frozenset(n for n in torch_api.FOLLOWS_DATA if n.startswith("torch.sparse_"))


def create(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A factory: `torch.zeros`, `torch.tensor`, `torch.from_numpy`, `torch.FloatTensor`, …."""
    for operand in arguments.positional:
        if name in _SIZED or name == "torch.arange":
            demand(run, operand.value)
            emit_sync(run, operand.node, name.rpartition(".")[2], operand.value, hidden=True)
    device = arguments.find("device")
    if device is not None and name.endswith("Tensor") and device.value.kind in (Kind.DEVICE, Kind.STRING):
        if not all_host(device_places(run, device, node)):
            run.emit(IgnoredDevice(node, run.scene, words(device.node), device.node, "legacy"))
    position = torch_api.parameter_names(name).index("values") if name in _OF_VALUES else 0
    data = (
        arguments.value("values" if name in _OF_VALUES else "data", position)
        if name in torch_api.FOLLOWS_DATA or name in torch_api.IGNORES_DEFAULT_DEVICE
        else None
    )
    rank = _rank_of_creation(name, node, arguments)
    if rank == 0 and data is not None and device is not None:
        spare(run, data)  # `torch.tensor(t.item(), device=t.device)`
    if data is not None and data.kind is Kind.SEQUENCE and name in _OF_DATA:
        held = next((i for i in data.items or () if may_wait(i) and i.places and not i.may_be_on_host), None)
        if held is not None:
            emit_sync(run, node, "tensor of tensors", held, hidden=True)
    mapped = from_mapping(arguments)
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
    elif data is not None and data.kind is Kind.TENSOR and (
        name not in torch_api.IGNORES_DEFAULT_DEVICE or name == "torch.Tensor"
    ):
        # torch.Tensor(tensor) is an alias (base_tensor_ctor in torch/csrc/utils/tensor_new.cpp).
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
    given = None if dtype is None else dtype.name
    if name == "torch.DoubleTensor":
        given = "float64"
    of_doubles = data is not None and data.kind is Kind.ARRAY and "float64" in data.facts and dtype is None
    if given in ("float64", "double") or (of_doubles and name in _TAKES_TYPE):
        facts |= {"float64"}
    value = Value(Kind.TENSOR, places, facts=facts)
    nearby = _nearby(run, env) if value.on_host else ()
    run.emit(Create(node, run.scene, name, value, why, data, name in torch_api.RANDOM, nearby, given))
    if name in torch_api.RANDOM:
        note_draw(run, node, name, arguments.find("generator"), value if places else _on_default(run, node))
    return value


#: What keeps the type of an array.
_TAKES_TYPE = frozenset(["torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.asarray"])


def _on_default(run: Interpreter, node: cst.Call) -> Value:
    """Where a factory without a device puts what it makes, as far as that is the host."""
    is_host = run.context_places is None and not run.usage.sets_default_device
    bare = not any(a.star or (a.keyword is not None and a.keyword.value in ("device", "out")) for a in node.args)
    return tensor((Alternative(HOST, None, node),)) if is_host and bare else UNKNOWN


def _nearby(run: Interpreter, env: Env) -> tuple[tuple[str, Value], ...]:
    """The names in scope that can say where a new tensor should be: tensors off the host, and devices; latest first."""
    found = [
        (name, value)
        for name, value in reversed(list(env.items()))
        if value.kind in (Kind.TENSOR, Kind.DEVICE) and value.places and not value.may_be_on_host
    ]
    function = run.frame.function
    for outer in (*run.frame.outer, run.globals):
        found += [
            (name, value) for name, value in outer.items() if value.kind is Kind.DEVICE and value.places
        ]
    if function is not None and function.owner is not None and run.frame.self_name:
        for name, value in function.owner.attributes.items():
            if value.kind is Kind.DEVICE or (value.kind is Kind.TENSOR and name in function.owner.registered):
                found.append((f"{run.frame.self_name}.{name}", value))
    return tuple(found[:20])


def from_mapping(arguments: Arguments) -> Value | None:
    for mapping in arguments.unpacked:
        if mapping.keys is not None and "device" in mapping.keys:
            return mapping.keys["device"]
    return None


#: Factories that read what a list holds, element by element (torch/csrc/utils/tensor_new.cpp, `recursive_store`).
_OF_DATA = frozenset(["torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.LongTensor", "torch.Tensor"])
_SIZED = frozenset(
    "torch.zeros torch.ones torch.empty torch.rand torch.randn torch.full torch.randint".split()
)


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


@api("torch.normal")
def _normal(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value | None:
    """A factory where it gets a size, which it takes beside two numbers alone."""
    return create(run, name, node, arguments, env) if arguments.find("size", 2) is not None else None


@api(
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


@api("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer")
def _parameter(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    data = arguments.value("data", 0)
    facts = frozenset({"parameter", "leaf", "grad"})
    if data is None:
        return tensor((Alternative(HOST, 1, node),), Certainty.KNOWN, facts)
    return Value(Kind.TENSOR, data.places, Certainty.KNOWN, facts=facts | data.facts & {"float64"})


@api(
    "torch.nn.UninitializedParameter",
    "torch.nn.UninitializedBuffer",
    "torch.nn.parameter.UninitializedParameter",
)
def _lazy_parameter(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return tensor((), Certainty.KNOWN, frozenset({"parameter", "leaf", "grad"}))


@api("torch.autograd.Variable", "torch.autograd.variable.Variable")
def _variable(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """Once a wrapper around a tensor, now the tensor itself."""
    data = arguments.value("data", 0) or UNKNOWN
    if data.kind is Kind.UNKNOWN:  # it takes nothing else
        data = data.but(kind=Kind.TENSOR, certainty=min(data.certainty, Certainty.INFERRED))
    wants_grad = arguments.find("requires_grad", 1)
    if data.kind is Kind.TENSOR and wants_grad is not None and words(wants_grad.node) == "True":
        return data.but(facts=data.facts | {"grad", "leaf"})
    return data.but(facts=data.facts - {"fresh"})
