"""`torch.distributed` for one process that belongs to no group: ranks, collectives that do nothing, DDP."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..words import words

NOTHING = object()
_ANSWERS = {
    "get_rank": 0,
    "get_world_size": 1,
    "is_initialized": True,
    "get_backend": "gloo",
    "get_local_rank": 0,
}
_SILENT = frozenset(
    words(
        "init_process_group destroy_process_group barrier all_reduce broadcast reduce all_gather gather scatter "
        "broadcast_object_list all_gather_object init_device_mesh set_device"
    )
)


def answer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of `torch.distributed` gives to a lone process; NOTHING for any other function."""
    module, name = str(getattr(function, "__module__", "")), getattr(function, "__name__", "")
    if isinstance(function, type) and name == "DistributedDataParallel" and module.startswith("torch.nn"):
        return Replica(*args, **kwargs)
    if not module.startswith("torch.distributed"):
        return NOTHING
    if name in _ANSWERS:
        return _ANSWERS[name]
    return None if name in _SILENT else NOTHING


class Replica(nn.Module):
    """DDP over one process: calls the module; with `device_ids` it first moves its inputs there, as DDP does."""

    def __init__(self, module: nn.Module, device_ids: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = module
        self.moves = bool(device_ids)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        first = next(self.module.parameters(), None)
        if self.moves and first is not None:
            args, kwargs = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda t: t.to(first.device), (args, kwargs)
            )
        return self.module(*args, **kwargs)
