"""The texts with which real backends refuse: read off PyTorch's sources and messages that users report."""

from __future__ import annotations

import torch

from ..words import words
from . import hooks

#: c10 names of element types, as they stand in tensor type names.
_TYPE_NAMES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}
_SAME_DEVICE = "Expected all tensors to be on the same device"
#: Operations whose device check is generated for a structured kernel: one underscore in the wrapper's name.
_STRUCTURED = frozenset(
    words(
        "addmm addmv addbmm baddbmm bmm mm cat gather scatter scatter_add nll_loss_forward nll_loss_backward "
        "index_copy index_add cumsum topk linalg_cross triangular_solve"
    )
)
#: Operations that are checked in another one, by that one's argument names.
_CHECKED_IN: dict[str, tuple[str, dict[str, str]]] = {
    "embedding": ("index_select", {"weight": "self", "indices": "index"}),
    "native_batch_norm": ("cudnn_batch_norm", {}),
}


def _simulated(error: Exception) -> Exception:
    """Mark an error as what the real backend would have raised, not a fault of the simulator."""
    error.simulated = True  # type: ignore[attr-defined]
    return error


def type_name(dtype: torch.dtype, device: torch.device) -> str:
    """What `Tensor.type()` says, e.g. `torch.cuda.FloatTensor`; MPS has no such class and prints the C++ name."""
    name = _TYPE_NAMES.get(dtype, str(dtype).rpartition(".")[2].capitalize())
    if device.type == "mps":
        return f"MPS{name}Type"
    return f"torch.{'' if device.type == 'cpu' else device.type + '.'}{name}Tensor"


def absent(kind: str) -> Exception:
    """What a build of torch without that backend raises."""
    if kind == "mps":
        return _simulated(RuntimeError("PyTorch is not linked with support for mps devices"))
    return _simulated(AssertionError(f"Torch not compiled with {kind.upper()} enabled"))


def bad_index(kind: str) -> Exception:
    message = f"{kind.upper()} error: invalid device ordinal"
    return _simulated(
        getattr(torch, "AcceleratorError", RuntimeError)(message) if kind == "cuda" else RuntimeError(message)
    )


def to_numpy(device: torch.device) -> Exception:
    return _simulated(
        TypeError(
            f"can't convert {device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    )


def mps_float64() -> Exception:
    return _simulated(
        TypeError(
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
            "Please use float32 instead."
        )
    )


def pinned(dtype: torch.dtype, device: torch.device) -> Exception:
    return _simulated(
        RuntimeError(f"cannot pin '{type_name(dtype, device)}' only dense CPU tensors can be pinned")
    )


def generator(wanted: torch.device, found: torch.device) -> Exception:
    return _simulated(
        RuntimeError(f"Expected a '{wanted.type}' device type for generator but found '{found.type}'")
    )


def grad_elsewhere() -> Exception:
    return _simulated(RuntimeError("assigned grad has data located on a different device"))


def lengths_on_device(device: torch.device, dim: int) -> Exception:
    return _simulated(
        RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {dim}D {device} Long tensor"
        )
    )


def recurrent(role: str, given: torch.device, other: torch.device) -> Exception:
    return _simulated(
        RuntimeError(
            f"Input and {role} tensors are not at the same device, "
            f"found input tensor at {given} and {role} tensor at {other}"
        )
    )


def attention(query: torch.device, key: torch.device, value: torch.device) -> Exception:
    return _simulated(
        RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query} key.device: {key} and value.device: {value} instead."
        )
    )


def in_forked_worker(kind: str) -> Exception:
    name = "CUDA" if kind == "cuda" else kind.upper()
    return _simulated(
        RuntimeError(
            f"Cannot re-initialize {name} in forked subprocess. "
            f"To use {name} with multiprocessing, you must use the 'spawn' start method"
        )
    )


def banned_under_autocast() -> Exception:
    return _simulated(
        RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using "
            "torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
            "safe to autocast."
        )
    )


def mixed(message: str) -> Exception:
    return _simulated(RuntimeError(message))


def mixed_elementwise(common: torch.device, other: torch.device) -> str:
    """TensorIterator's text: the first device that is not the CPU, then the one that differs."""
    return f"{_SAME_DEVICE}, but found at least two devices, {common} and {other}!"


def mixed_indices(indexed: torch.device) -> str:
    return f"indices should be either on cpu or on the same device as the indexed tensor ({indexed})"


def mixed_convolution(inputs: str, role: str, other: str) -> str:
    return f"Input type ({inputs}) and {role} type ({other}) should be the same"


def mixed_argument(op: str, overload: str, argument: str, other: torch.device, common: torch.device) -> str:
    """The text of the check that PyTorch generates in front of a kernel; MPS has none, there the kernel refuses."""
    if "mps" in (common.type, other.type):
        return "Placeholder storage has not been allocated on MPS device!"
    op, names = _CHECKED_IN.get(op, (op, dict[str, str]()))
    argument = names.get(argument, argument)
    backend = (common if common.type != "cpu" else other).type.upper()
    wrapper = f"wrapper_{backend}_{'' if op in _STRUCTURED else overload + '_'}{op}"
    if op in _STRUCTURED and overload:
        wrapper += f"_{overload}"
    if hooks.CHECK_NAMES_THE_OUTLIER:
        return (
            f"{_SAME_DEVICE}, but got {argument} is on {other}, "
            f"different from other tensors on {common} (when checking argument in method {wrapper})"
        )
    where = f"(when checking argument for argument {argument} in method {wrapper})"
    return f"{mixed_elementwise(common, other)} {where}"
