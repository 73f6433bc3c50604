"""How large the autograd graph is that the program keeps alive: it grows where a loss is kept with its history."""

from __future__ import annotations

import gc
from typing import Any

import torch


def size() -> dict[str, int]:
    """Nodes that live tensors lead to, and the bytes of what those have saved for backward.

    Counts the tensors that the garbage collector knows: call `gc.freeze()` before the replay, so that it
    knows few others.
    """
    with torch._C.DisableTorchFunction():
        roots = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
        todo = [t.grad_fn for t in roots if t.grad_fn is not None]
        del roots
        seen: set[Any] = set()
        saved: dict[int, int] = {}
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            for tensor in _saved(node):
                storage = tensor.untyped_storage()
                saved[storage._cdata] = storage.nbytes()
            todo.extend(following for following, _ in node.next_functions)
        return {"nodes": len(seen), "bytes": sum(saved.values())}


_NAMES: dict[type, list[str]] = {}


def _saved(node: Any) -> list[torch.Tensor]:
    """The tensors that a node holds; none once its buffers were freed."""
    names = _NAMES.get(type(node))
    if names is None:
        names = _NAMES[type(node)] = [n for n in dir(type(node)) if n.startswith("_saved_")]
    held = []
    for name in names:
        try:
            value = getattr(node, name)
        except RuntimeError:
            return []
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, torch.Tensor) and not (item.is_leaf and item.requires_grad):
                if item.layout is torch.strided:
                    held.append(item)
    return held
