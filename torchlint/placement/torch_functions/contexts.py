"""Grad modes, autocast and gradient scalers."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import (
    name_device,
    note_available_type,
    note_cuda_autocast,
)
from torchlint.placement.events import (
    Autocast,
    Operand,
    Scaler,
)
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.syntax import words
from torchlint.placement.torch_functions.registry import api
from torchlint.placement.values import (
    Kind,
    Value,
)


@api(
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.autograd.no_grad",
    "torch.autograd.grad_mode.no_grad",
)
def _grad_mode(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    return Value(Kind.CONTEXT, name=name.rsplit(".", 1)[-1])


@api("torch.set_grad_enabled")
def _set_grad(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    given = arguments.find("mode", 0)
    off = given is not None and words(given.node) == "False"
    return Value(Kind.CONTEXT, name="no_grad" if off else "set_grad_enabled")


@api(
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
        device=node_of(device), dtype_node=node_of(dtype), misplaced=_misplaced(vendor, device, enabled, arguments),
    )  # fmt: skip
    run.emit(event)
    if device is not None and enabled is None:
        name_device(run, device.node, device.value, "autocast", name)
    if device is not None:
        note_available_type(run, device.node, device.value)
    if state == "yes":
        note_cuda_autocast(run, node, name)
    return Value(Kind.CONTEXT, name="autocast", ref=event)


def node_of(operand: Operand | None) -> cst.BaseExpression | None:
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


@api(
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
