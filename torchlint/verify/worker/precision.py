"""The mixed-precision protocol as it happens: autocast, scaled losses, unscaled gradients, optimizer steps.

Events, all in program order in the answer's `sequence`:

- `autocast` (enter, exit): `device`, `dtype`, `enabled`.
- `scaler` (scale, unscale_, step, update, get_scale): `enabled`, `scale`.
- `backward`: `factor`, what the loss is scaled by, 1 for nothing; `low`, the casts to fp16 in its graph.
- `gradient` (clip_grad_norm_, clip_grad_value_): `factor`, what the gradients are still scaled by.
- `step` (the optimizer's class): `factor`, and `through_scaler`, whether a scaler makes it.

`steps` in the answer: for each optimizer step `{"iteration", "line", "factor", "norm", "zeros", "finite"}`
of the
gradients it uses. `underflow`: for each measured backward pass `{"iteration", "line", "factor", "low",
"elements",
"lost"}`, where `lost` is the share of gradient elements that are zero, but not when the loss is scaled by
65536.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from ..simdevice import hooks
from ..simdevice.reports import Reports
from .describe import figures

_SCALE = 65536.0
_MAX_STEPS = 64


class Precision:
    """Watches one replay; a context manager. `underflow`: how many backward passes to measure."""

    def __init__(self, observer: Reports, underflow: int = 0) -> None:
        self._observer = observer
        self._recorder = observer.recorder
        self._to_measure = underflow
        self._busy = False
        self._through_scaler = 0
        #: Graph nodes of scaled losses, until the next update; and what parameters' gradients are scaled by.
        self._scaled: dict[Any, float] = {}
        self._factors: dict[int, tuple[Any, float]] = {}
        self.steps: list[dict[str, Any]] = []
        self.underflow: list[dict[str, Any]] = []
        self._stack: contextlib.ExitStack | None = None

    def __enter__(self) -> Precision:
        with contextlib.ExitStack() as stack:
            stack.enter_context(hooks.around_backward(self._backward))
            for name in ("__enter__", "__exit__"):
                stack.enter_context(hooks.patched(autocast, name, self._autocast(name)))
            for name in ("scale", "unscale_", "step", "update", "get_scale"):
                stack.enter_context(hooks.patched(GradScaler, name, self._scaler(name)))
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                for owner in (torch.nn.utils, hooks.clip_module()):
                    stack.enter_context(hooks.patched(owner, name, self._clip(name, getattr(owner, name))))
            stack.callback(register_optimizer_step_pre_hook(self._step).remove)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*error)

    def _add(self, kind: str, api: str, **detail: Any) -> None:
        self._recorder.add(kind, api, detail=detail, ordered=True)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """For the watcher's own calculations."""
        busy, self._busy = self._busy, True
        try:
            with torch._C.DisableTorchFunction(), self._observer.quiet():
                yield
        finally:
            self._busy = busy

    def _autocast(self, name: str) -> Any:
        original = getattr(autocast, name)

        @functools.wraps(original)
        def run(context: Any, *args: Any) -> Any:
            detail = {
                "device": str(context.device),
                "dtype": str(context.fast_dtype),
                "enabled": bool(context._enabled),
            }
            self._add("autocast", name.strip("_"), **detail)
            return original(context, *args)

        return run

    def _scaler(self, name: str) -> Any:
        original = getattr(GradScaler, name)

        @functools.wraps(original)
        def run(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            if self._busy or (name == "get_scale" and self._through_scaler):
                return original(scaler, *args, **kwargs)
            scale = self._scale_of(scaler)
            self._add("scaler", name, enabled=bool(scaler.is_enabled()), scale=scale)
            self._through_scaler += name == "step"
            try:
                result = original(scaler, *args, **kwargs)
            finally:
                self._through_scaler -= name == "step"
            if name == "scale":
                self._note_scaled(result, self._scale_of(scaler))
            elif name == "unscale_":
                self._note_factor(_parameters(args[0] if args else kwargs["optimizer"]), 1.0)
            elif name == "update":
                self._scaled.clear()
            return result

        return run

    def _scale_of(self, scaler: Any) -> float:
        if not scaler.is_enabled():
            return 1.0
        held = scaler._scale
        with self._aside():
            return float(scaler._init_scale if held is None else held.item())

    def _note_scaled(self, outputs: Any, scale: float) -> None:
        with torch._C.DisableTorchFunction():
            for tensor in tree_leaves(outputs):
                if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                    self._scaled[tensor.grad_fn] = scale

    def _note_factor(self, parameters: list[Any], factor: float) -> None:
        for parameter in parameters:
            self._factors[id(parameter)] = (parameter, factor)

    def _factor_of(self, parameters: list[Any]) -> float:
        """What gradients that exist are still scaled by, the largest of them."""
        with torch._C.DisableTorchFunction():
            held = [self._factors.get(id(p), (p, 1.0))[1] for p in parameters if p.grad is not None]
        return max(held, default=1.0)

    def _backward(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._busy or not kwargs.get("accumulate_grad"):
            return original(outputs, *args, **kwargs)
        roots = [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor)]
        with torch._C.DisableTorchFunction():
            factor, low, leaves = self._explore(roots)
        self._add("backward", "backward", factor=factor, low=low)
        if len(self.underflow) < self._to_measure and len(roots) == 1 and leaves:
            site = self._recorder.site()
            with self._aside():
                measured = _lost(roots[0], leaves)
            place = {"iteration": self._recorder.iteration, "line": site.line, "factor": factor, "low": low}
            self.underflow.append({**place, **measured})
        result = original(outputs, *args, **kwargs)
        self._note_factor(leaves, factor)
        return result

    def _explore(self, roots: list[torch.Tensor]) -> tuple[float, int, list[Any]]:
        """What a loss was scaled by, how many casts to fp16 its graph holds, and the leaves that get gradients."""
        factor, low, leaves = 1.0, 0, []
        todo, seen = [t.grad_fn for t in roots], set()
        while todo:
            node: Any = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            factor = max(factor, self._scaled.get(node, 1.0))
            low += node.name().startswith("ToCopyBackward") and _casts_to_half(node)
            if hasattr(node, "variable"):
                leaves.append(node.variable)
            todo.extend(following for following, _ in node.next_functions)
        return factor, low, leaves

    def _clip(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def run(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            self._add("gradient", name, factor=self._factor_of(listed))
            return original(listed, *args, **kwargs)

        return run

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = _parameters(optimizer)
        factor, through = self._factor_of(parameters), bool(self._through_scaler)
        self._add("step", type(optimizer).__name__, factor=factor, through_scaler=through)
        if len(self.steps) < _MAX_STEPS:
            site = self._recorder.site()
            with self._aside():
                found = figures([p.grad for p in parameters if p.grad is not None])
            place = {"iteration": self._recorder.iteration, "line": site.line, "factor": factor}
            self.steps.append({**place, **found})


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _casts_to_half(node: Any) -> bool:
    """Whether a copy's result is in fp16: its gradient has that type."""
    meta: Any = getattr(node, "_input_metadata", None)
    return bool(meta) and meta[0].dtype == torch.float16


def _lost(root: torch.Tensor, leaves: list[torch.Tensor]) -> dict[str, Any]:
    """The share of gradients that flush to zero, measured against the same pass with a loss scaled up."""
    ones = torch.ones_like(root)

    def gradients(scale: float) -> Any:
        return torch.autograd.grad(
            root, leaves, ones * scale, retain_graph=True, allow_unused=True, materialize_grads=False
        )

    plain, scaled = gradients(1.0), gradients(_SCALE)
    elements = lost = 0
    for small, large in zip(plain, scaled):
        if small is not None and large is not None:
            elements += small.numel()
            lost += int(((small == 0) & (large != 0)).sum())
    return {"elements": elements, "lost": lost / elements if elements else 0.0}
