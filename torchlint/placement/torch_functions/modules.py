"""Modules of torch: where they are born, what wraps them, what comes out of their `forward`."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.placement.calls.arguments import Arguments, spread
from torchlint.placement.calls.operations import as_tensor_if_moved, mix, note_parameters
from torchlint.placement.devices import (
    device_places,
)
from torchlint.placement.events import (
    Build,
    Leftover,
    Operand,
    Wrap,
)
from torchlint.placement.hazards.wrappers import BEHIND, first_device, hides, note_parallel
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.knowledge.frameworks_bridge import is_metric
from torchlint.placement.syntax import dotted, without_comments, words
from torchlint.placement.torch_functions.creation import from_mapping
from torchlint.placement.torch_functions.operations import element_tensor, refused_by_autocast
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    DEFAULT,
    HOST,
    NO_FACTS,
    UNKNOWN,
    Alternative,
    Certainty,
    Kind,
    Value,
    Where,
    element_of,
    sequence,
    union,
)

_CONTAINERS = frozenset(["torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"])


WRAPPERS = frozenset(
    ["torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel",
     "torch.nn.parallel.distributed.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel",
     "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel"]
)  # fmt: skip


def build_module(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    if name in WRAPPERS:
        return _wrap(run, name, node, arguments)
    if name in _CONTAINERS:
        return _container(run, name, node, arguments)
    device = arguments.find("device")
    if name == "torch.optim.swa_utils.AveragedModel":  # a copy of the model, where that is
        return (arguments.value("model", 0) or UNKNOWN).but(kind=Kind.MODULE) if device is None else Value(Kind.MODULE)
    if name in torch_api.LOSSES:
        weight = arguments.value("weight", 0) if name in _WEIGHTED else None
        weight = arguments.value("pos_weight") or weight
        weight = element_tensor(weight) if weight is not None else None
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
    if (name not in torch_api.ACCEPTS_DEVICE and name not in _RECURRENT) or words(node).endswith(
        "affine=False)"
    ):
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
    if arguments.may_have("device") or from_mapping(arguments) is not None:
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


#: What tells a process which device is its own, wherever it stands in a file.
_OWN_DEVICE = ("set_device", "CUDA_VISIBLE_DEVICES", "cuda.device(", "set_default_device", "gpus_per_task")

#: A device of CUDA whose index is computed.
_OWN_INDEX = re.compile(r"""device\(\s*["']cuda["']\s*,|["']cuda:(?:\{|%|["']\s*\+)|\.cuda\([^()]*rank""")


def _is_on_first_device(run: Interpreter, module: Value) -> bool:
    """Whether the file sets up a process group, and its processes share the device that a Module was moved to."""
    if not module.places or any(not p.place.is_named or p.place.name != "cuda" for p in module.places):
        return False
    moved = module.origin
    if not isinstance(moved, cst.Call) or not isinstance(moved.func, cst.Attribute):
        return False
    if moved.func.attr.value == "cuda" and any(a.keyword is None for a in moved.args):
        return False  # `.cuda(rank)`
    if not run.usage.mentions.isdisjoint(_OWN_DEVICE):
        return False
    if "init_process_group" not in run.usage.mentions and not any(
        "init_process_group" in usage.loads for usage in run.usage.scopes.values()
    ):
        return False  # to write out the module takes its time
    code = without_comments(run.module)
    if "init_process_group" not in code or _OWN_INDEX.search(code) is not None:
        return False
    return not any(word in code for word in _OWN_DEVICE)


def _wrap(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    inner = arguments.value("module", 0) or UNKNOWN
    on_first = name.endswith("DistributedDataParallel") and _is_on_first_device(run, inner)
    run.emit(Wrap(node, run.scene, name, inner, arguments.values(), on_first))
    note_parallel(run, node, name, arguments, inner)
    facts = inner.facts | {"wrapped"}
    if hides(name):
        facts |= {BEHIND} | (first_device(arguments) if name.endswith(".DataParallel") else NO_FACTS)
        run.wrapped_under |= run.scene.conditions
        run.wraps.add(node)
    return Value(
        Kind.MODULE,
        tuple(p for p in inner.places if not p.place.is_host),
        inner.certainty,
        ref=inner.ref,
        facts=facts,
    )


@api(
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
        refused_by_autocast(run, name, node)
    if name in torch_api.LOSSES:
        operands = [tensor_input(o) for o in arguments.all()]
        if name == "torch.nn.CTCLoss":  # reads targets and lengths on the host where they are there
            operands = operands[:1]
        if module.places:
            operands.insert(0, Operand(node.func, module, "weight"))
        last = name.rsplit(".", 1)[-1]
        result = mix(run, node, last, operands, strict=last in ("CrossEntropyLoss", "NLLLoss"), rank=0)
        return result.but(facts=result.facts | {"loss", "grad"})
    known = name in torch_api.MODULES and bool(overloads)
    given = [_batch_input(o) for o in arguments.all() + spread(node, arguments)]
    if known and given:
        given[0] = tensor_input(given[0])
    elif is_metric(module):
        given = [Operand(o.node, as_tensor_if_moved(o.value), o.role) for o in given]
    elif arguments.positional:
        given[0] = _moved_input(given[0])
    if not known and arguments.positional and "wrapped" not in module.facts:
        first = tensor_input(arguments.positional[0])
        note_parameters(run, node, [Operand(node.func, module, "module"), first])
        _note_batch(run, node, module, first)
    operands = [o for o in given if o.value.kind in (Kind.TENSOR, Kind.SEQUENCE)]
    if not known:
        # Lengths, for packed sequences, and sizes are rather wanted on the CPU.
        operands = [o for o in operands if _OF_SIZES.search(dotted(o.node) or "") is None]
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
    own = [me] if learns else []  # a Module without state computes where its inputs are
    result = mix(run, node, api, [*own, *operands], strict=strict, rank=1 if strict else None)
    places = result.places
    if not known and any(o.value.kind is Kind.STRING for o in arguments.positional):
        return UNKNOWN  # a pipeline, which turns text into pictures, text or numbers
    if not known:
        # Nobody knows what comes back; what does, lives where the Module is.
        places = tuple(p for p in module.places if not p.place.is_host) or tuple(
            p for p in places if not p.place.is_host
        )
        if _may_be_stateless(module) and any(_is_on_host(o) for o in operands):
            places = ()  # an activation, perhaps, which leaves on the host what it finds there
        if places and all(p.place.where is Where.OF_CALLER for p in places):
            # A device that the code names says more than a caller.
            places = next((o.value.places for o in operands if _is_named(o.value)), places)
        more = facts | {"output"} if module.places else facts | {"assumed"}
        return Value(
            Kind.UNKNOWN,
            tuple(p._replace(rank=None) for p in places),
            min(Certainty.INFERRED, module.certainty),
            facts=more,
        )
    inputs = [o.value for o in operands if o.value.kind is Kind.TENSOR]
    if not module.places and not inputs:
        return Value(Kind.TENSOR, (), Certainty.INFERRED, facts=facts)
    carried = result.facts if facts or any("grad" in v.facts for v in inputs) else result.facts - {"grad"}
    value = Value(Kind.TENSOR, places, result.certainty, facts=facts | carried)
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


def _note_batch(run: Interpreter, node: cst.Call, module: Value, given: Operand) -> None:
    """A batch goes into a Module on a device as the loader gave it: a slip, if other loops of the file move theirs."""
    value = given.value
    if "taken" not in value.facts or len(value.places) != 1 or run.scene.tests:
        return
    kept = value.places[0]
    if kept.place.where is Where.OF_CALLER and module.places and all(p.place.is_named for p in module.places):
        me = Operand(node.func, module, "module")
        run.emit(Leftover(node, run.scene, "forward", (given, kept), (me, module.places[0]), batch=True), "batch")


def _is_named(value: Value) -> bool:
    return value.kind is Kind.TENSOR and bool(value.places) and all(p.place.is_named for p in value.places)


#: What lengths and sizes are called.
_OF_SIZES = re.compile(r"len|size|shape|num", re.IGNORECASE)
_BATCH = frozenset(["batch", "collated"])


def _batch_input(operand: Operand) -> Operand:
    """A part of a batch that a Module gets as the loader made it is a tensor, or as useless as one elsewhere."""
    value = operand.value
    if value.kind is Kind.UNKNOWN and value.on_host and value.facts & _BATCH:
        return tensor_input(operand)
    return operand


def _moved_input(operand: Operand) -> Operand:
    """What was sent to a device and goes into a Module is a tensor, or holds some."""
    value = operand.value
    if value.kind is Kind.UNKNOWN and "fresh" in value.facts and all(p.place.is_named for p in value.places):
        return tensor_input(operand)
    return operand


def tensor_input(operand: Operand) -> Operand:
    """What a Module of torch is called on is a tensor."""
    return Operand(operand.node, element_tensor(operand.value), operand.role)


def _may_be_stateless(module: Value) -> bool:
    """Whether a part of a Module is not known to have parameters."""
    part = bool(module.places) and all(p.place.where is Where.OF_MODULE for p in module.places)
    return part and "state" not in module.facts and module.ref is None


def _is_on_host(operand: Operand) -> bool:
    return operand.value.kind is Kind.TENSOR and operand.value.on_host
