"""A call of `torch.…` by its canonical name."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.arguments import Arguments
from torchlint.placement.devices import (
    name_device,
)
from torchlint.placement.events import (
    Build,
)
from torchlint.placement.interpreter import Env, Interpreter
from torchlint.placement.knowledge import torch_api
from torchlint.placement.torch_functions import contexts, data, gradients, higher  # noqa: F401  (they register what they read)
from torchlint.placement.torch_functions.creation import create
from torchlint.placement.torch_functions.distributions import PREFIX, make_distribution
from torchlint.placement.torch_functions.modules import WRAPPERS, build_module
from torchlint.placement.torch_functions.operations import operation
from torchlint.placement.torch_functions.registry import HANDLERS
from torchlint.placement.torch_functions.runtime import vendor_call
from torchlint.placement.values import (
    UNKNOWN,
    Kind,
    Value,
    element_of,
)


def torch_call(run: Interpreter, name: str, node: cst.Call, arguments: Arguments, env: Env) -> Value:
    """A call of `torch.…` by canonical name."""
    handler = HANDLERS.get(name)
    if handler is not None:
        result = handler(run, name, node, arguments, env)
        if result is not None:
            return result
    device = arguments.find("device")
    if device is not None and not name.startswith("torch.cuda."):
        name_device(run, device.node, device.value, "literal", name)
    if name.startswith(PREFIX):
        return make_distribution(run, name, node, arguments)
    if name in torch_api.CREATES:
        return create(run, name, node, arguments, env)
    if name in torch_api.MODULES or name in WRAPPERS:
        return build_module(run, name, node, arguments)
    if name in torch_api.OPTIMIZERS:
        parameters = arguments.value("params", 0) or UNKNOWN
        value = Value(Kind.OPTIMIZER, name=name, element=element_of(parameters))
        run.emit(
            Build(node, run.scene, "optimizer", name, value, tuple(arguments.positional), arguments.values())
        )
        return value
    if name in torch_api.SCHEDULERS:
        return Value(Kind.SCHEDULER, name=name)
    if name.startswith(("torch.cuda.", "torch.mps.", "torch.xpu.", "torch.backends.", "torch.accelerator.")):
        return vendor_call(run, name, node, arguments)
    return operation(run, name, node, arguments)
