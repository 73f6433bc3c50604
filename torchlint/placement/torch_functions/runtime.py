"""Devices, default devices, availability, and the backends' own functions."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import (
    TYPE_OF_TENSOR,
    accelerator_number,
    device_places,
    emit_device_name,
    name_device,
    named_place,
)
from torchlint.placement.events import (
    Clock,
    Demand,
    DeviceName,
    DeviceText,
    Operand,
)
from torchlint.placement.hazards.comparisons import facts_of_texts, sort_of_device
from torchlint.placement.hazards.startup import note_start
from torchlint.placement.hazards.syncs import emit_full_sync
from torchlint.placement.hazards.texts import note_device_text
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.syntax import descendants, dotted, integer, string, words
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    HOST,
    NUMBER,
    UNKNOWN,
    VENDORS,
    Alternative,
    Kind,
    Place,
    Value,
    Where,
    place_named,
    tensor,
)


@api("torch.device")
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
        if isinstance(given.node, cst.BaseExpression):
            note_device_text(run, given.node, given.value, env)
        facts = sort_of_device(given.value.name, index is not None)
        place = named_place(given.value.name, node)
        if index is not None:
            which = accelerator_number(given.value.name, index.node)
            place = place._replace(place=place.place._replace(accelerator=which))
        return Value(Kind.DEVICE, (place,), facts=facts, tests=given.value.tests)
    if isinstance(given.node, cst.BaseExpression):
        note_device_text(run, given.node, given.value, env)
    facts |= given.value.facts & {TYPE_OF_TENSOR}
    if arguments.find("index", 1) is None:
        facts |= given.value.facts & {"no index"} | _facts_of_default(run, given)
    places = given.value.places if given.value.kind in (Kind.DEVICE, Kind.STRING) else ()
    if not places:
        places = (
            Alternative(
                Place(
                    Where.NAMED, words(node) if "…" not in words(node) else "device", accelerator_number("", given.node)
                ),
                None,
                node,
            ),
        )
    return Value(Kind.DEVICE, places, given.value.certainty, facts=facts, tests=given.value.tests)


def _facts_of_default(run: Interpreter, given: Operand) -> frozenset[str]:
    """What a parameter's default says of the device that is made of it, where the caller says nothing."""
    function, name = run.frame.function, dotted(given.node) or ""
    default = function.defaults.get(name) if function is not None else None
    if default is None or given.value is not run.frame.parameters.get(name) or default.kind is not Kind.STRING:
        return frozenset()
    return facts_of_texts(default.name or "")


@api("torch.set_default_device", "torch.set_default_tensor_type")
def _default_device(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("device", 0) or arguments.find("t", 0)
    if given is None:
        return UNKNOWN
    text = given.value.name or ""
    run.default_devices.append(given.value)
    run.default_is_set = name.endswith("device") or "cuda" in text or not text.endswith("Tensor")
    if name.endswith("device"):
        name_device(run, given.node, given.value, "literal", name)
    elif "cuda" in text:
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name, literal=text))
    return UNKNOWN


@api("torch.distributed.init_process_group")
def _process_group(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    backend = arguments.value("backend", 0)
    if backend is not None and backend.name == "nccl" and not run.scene.asks_for_accelerator:
        run.emit(Demand(node, run.scene, "nccl"))
    return UNKNOWN


@api("torch.Generator")
def _generator(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    device = arguments.find("device", 0)
    if device is None:
        return Value(Kind.GENERATOR, (Alternative(HOST, None, node),))
    name_device(run, device.node, device.value, "literal", name)
    return Value(Kind.GENERATOR, device_places(run, device, node))


@api(
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
    vendor_call(run, name, node, arguments)
    if name == "torch.cuda.is_available":
        note_start(run, node)
    return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))


@api("torch.accelerator.current_accelerator")
def _accelerator(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    place = Alternative(Place(Where.NAMED, words(node)), None, node)
    return Value(Kind.DEVICE, (place,), facts=frozenset({"torch.device"}))


@api(
    "torch.cuda.synchronize",
    "torch.mps.synchronize",
    "torch.xpu.synchronize",
    "torch.accelerator.synchronize",
)
def _synchronize(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    emit_full_sync(run, node, "synchronize")
    if not name.startswith("torch.accelerator"):
        vendor_call(run, name, node, arguments)
    return UNKNOWN


@api("torch.distributed.barrier", "torch.distributed.monitored_barrier")
def _barrier(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """The host waits for all ranks (https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier)."""
    run.timeline.waits()
    return UNKNOWN


@api("torch.cuda.empty_cache", "torch.mps.empty_cache", "torch.xpu.empty_cache")
def _empty_cache(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    emit_full_sync(run, node, "empty_cache")
    if not name.startswith("torch.cuda"):
        vendor_call(run, name, node, arguments)
    return UNKNOWN


@api(
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
        vendor_call(run, name, node, arguments)
    return Value(Kind.OBJECT, name="event") if name.endswith("Event") else UNKNOWN


def vendor_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments) -> Value:
    family = name.split(".")[1] if not name.startswith("torch.backends.") else name.split(".")[2]
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        emit_device_name(run, DeviceName(node, run.scene, "cuda", "tensor type", name))
        rank = None if not arguments.positional else 1
        return tensor((Alternative(place_named("cuda"), rank, node),))
    known = torch_api.VENDOR.get(name)
    if family in VENDORS and known is not None and known.raises:
        if family == "cuda":
            note_start(run, node)
        first = arguments.positional[0] if arguments.positional else None
        asks = name.endswith((".set_device", ".get_device_capability"))
        chosen = asks and first is not None and integer(first.node) is None and not _falls_back(run)
        emit_device_name(run, DeviceName(node, run.scene, family, "api", name, raises=True, chosen=chosen))
    last = name.rsplit(".", 1)[-1]
    if last in ("set_device", "device") and arguments.positional:
        _note_index(run, name, arguments.positional[0])
    if last in ("current_device", "device"):
        place = Alternative(Place(Where.NAMED, words(node) if "…" not in words(node) else family), None, node)
        return Value(Kind.DEVICE if last == "current_device" else Kind.CONTEXT, (place,))
    return UNKNOWN


def _falls_back(run: Interpreter) -> bool:
    """Whether the function itself goes on to ask for CUDA, and computes on the CPU where there is none."""
    function = run.frame.function
    if function is None or run.scene.tests or run.scene.conditions:
        return False
    return any(
        type(node) is cst.IfExp and string(node.orelse) == "cpu" and words(node.test).endswith("cuda.is_available()")
        for node in descendants(function.node)
    )


def _note_index(run: Interpreter, name: str, given: Operand) -> None:
    """`set_device` takes a number, or a torch.device with an index or its text (torch/_utils.py: `_get_device_index`,
    which `torch.cuda.device` calls with `optional=True`)."""
    if isinstance(given.node, cst.BaseExpression):
        note_device_text(run, given.node, given.value, {})
    text = given.value.name if given.value.kind is Kind.STRING else None
    bare = "no index" in given.value.facts or (text is not None and text in VENDORS)
    if bare and name.endswith(".set_device") and not any(".index" in c for c, _ in run.scene.conditions):
        run.emit(DeviceText(given.node, run.scene, text or "", what="no index"))


@api(
    "torch.is_tensor",
    "torch.is_floating_point",
    "torch.is_complex",
    "torch.numel",
    "torch.is_storage",
    "torch.is_grad_enabled",
)
def _asks(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return NUMBER


@api(
    "torch.manual_seed",
    "torch.seed",
    "torch.set_num_threads",
    "torch.set_printoptions",
    "torch.use_deterministic_algorithms",
    "torch.set_float32_matmul_precision",
)
def _nothing(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return UNKNOWN
