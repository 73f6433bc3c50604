"""What a value is and where it lives, in JSON: the records of watched expressions."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..simdevice.reports import Reports

_MAX_ITEMS = 8
_MAX_DEPTH = 3
_MAX_TEXT = 200


class Describer:
    """Describes values as an observer of a device sees them. `digest` adds figures of tensors."""

    def __init__(self, observer: Reports) -> None:
        self._observer = observer

    def __call__(self, value: Any, digest: bool = False) -> dict[str, Any]:
        """A dict with `type` and what applies: `device`, `devices`, `dtype`, `shape`, `value`, `items`, `marks`, …"""
        with torch._C.DisableTorchFunction(), self._observer.quiet():
            return self._any(value, digest, 0)

    def _any(self, value: Any, digest: bool, depth: int) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, digest)
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if isinstance(value, torch.optim.Optimizer):
            tensors = [p for group in value.param_groups for p in group["params"]]
            return {"type": "Optimizer", "class": type(value).__name__, "devices": self._devices(tensors)}
        if isinstance(value, torch.device):
            marks = sorted(self._observer.marks_of_device(value))
            return {"type": "device", "value": str(value), "marks": marks}
        if value is None or isinstance(value, (bool, int, float, str, bytes, torch.dtype)):
            return {"type": type(value).__name__, "value": _plain(value)}
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            items = {
                str(k)[:_MAX_TEXT]: self._any(v, digest, depth + 1)
                for k, v in list(value.items())[:_MAX_ITEMS]
            }
            return {"type": _class(value), "items": items, "length": len(value)}
        if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
            listed = [self._any(v, digest, depth + 1) for v in list(value)[:_MAX_ITEMS]]
            return {"type": _class(value), "items": listed, "length": len(value)}
        described = {"type": _class(value)}
        if hasattr(value, "dtype"):
            described["dtype"] = str(value.dtype)
        return described

    def _tensor(self, tensor: torch.Tensor, digest: bool) -> dict[str, Any]:
        place = self._observer.places.of(tensor)
        described: dict[str, Any] = {
            "type": "Parameter" if isinstance(tensor, torch.nn.Parameter) else "Tensor",
            "device": str(place.device),
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "requires_grad": tensor.requires_grad,
            "is_leaf": tensor.is_leaf,
            "marks": sorted(place.marks),
            "origins": list(place.origins),
        }
        if tensor.device.type == "meta":
            return described
        if tensor.numel() == 1 and tensor.layout is torch.strided and tensor.device.type == "cpu":
            described["value"] = _plain(tensor.detach().reshape(()).item())
        if digest:
            described.update(figures([tensor]))
        return described

    def _module(self, module: torch.nn.Module) -> dict[str, Any]:
        """Registered tensors by the devices they are on; tensors that are mere attributes by name."""
        registered = [*module.parameters(), *module.buffers()]
        loose: dict[str, str] = {}
        for prefix, part in module.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, torch.Tensor) and len(loose) < _MAX_ITEMS:
                    loose[f"{prefix}.{name}" if prefix else name] = str(self._observer.places.device(value))
        marks = frozenset[str]().union(*(self._observer.places.of(t).marks for t in registered))
        return {
            "type": "Module",
            "class": _class(module),
            "devices": self._devices(registered),
            "dtypes": sorted({str(t.dtype) for t in registered}),
            "unregistered": loose,
            "marks": sorted(marks),
        }

    def _devices(self, tensors: list[torch.Tensor]) -> list[str]:
        return sorted({str(self._observer.places.device(t)) for t in tensors})


def figures(tensors: list[torch.Tensor]) -> dict[str, Any]:
    """The norm of tensors taken together, the share of zeros in them, whether all elements are finite."""
    floats = [t.detach().to("cpu", torch.float64) for t in tensors if t.layout is torch.strided and t.numel()]
    count = sum(t.numel() for t in floats)
    if not count:
        return {"norm": 0.0, "zeros": 0.0, "finite": True, "elements": 0}
    norm = math.sqrt(sum(float(t.pow(2).sum()) for t in floats))
    return {
        "norm": _plain(norm),
        "zeros": sum(int((t == 0).sum()) for t in floats) / count,
        "finite": all(bool(torch.isfinite(t).all()) for t in floats),
        "elements": count,
    }


def _plain(value: Any) -> Any:
    """A number or text that JSON can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)[:_MAX_TEXT]


def _class(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
