"""The logical devices of a simulated machine: which there are, which is current, what a device argument means."""

from __future__ import annotations

from typing import Any

import torch

from . import errors

#: The kinds that can be simulated. `none` simulates a machine without any accelerator.
KINDS = ("cuda", "mps", "xpu", "none")
ACCELERATORS = frozenset(("cuda", "mps", "xpu"))
HOST = torch.device("cpu")
META = torch.device("meta")


class Devices:
    """`count` devices of one kind beside the host.

    Raises ValueError for an unknown kind, or for several MPS devices, which no machine has.
    """

    def __init__(self, kind: str, count: int = 1) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} can't be simulated, only {', '.join(KINDS)}")
        if count < 1 or (kind == "mps" and count != 1):
            raise ValueError(f"no machine has {count} devices of kind {kind}")
        self.kind = kind
        self.count = 0 if kind == "none" else count
        self.current = 0

    def resolve(self, device: Any) -> torch.device | None:
        """A device argument as an indexed device; None stays None, an int is an index of the accelerator.

        Raises what the real backend raises: for another backend's device, and for an index there is no
        device for.
        """
        if device is None:
            return None
        if isinstance(device, int) and not isinstance(device, bool):
            if self.kind == "none":
                raise RuntimeError("Cannot access accelerator device when none is available.")
            device = torch.device(self.kind, device)
        elif not isinstance(device, torch.device):
            device = torch.device(device)
        if device.type not in ACCELERATORS:
            return HOST if device.type == "cpu" else device
        if device.type != self.kind:
            raise errors.absent(device.type)
        index = self.current if device.index is None else device.index
        if index >= self.count:
            raise errors.bad_index(self.kind)
        return torch.device(self.kind, index)

    def index_of(self, device: Any) -> int:
        """The index that `set_device`, `device(...)` and the like mean by their argument."""
        resolved = self.resolve(device)
        if resolved is None or resolved.type != self.kind:
            return self.current
        return int(resolved.index or 0)
