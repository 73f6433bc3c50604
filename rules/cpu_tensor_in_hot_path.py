"""DEV201: a tensor is created on the CPU in code that computes on the accelerator."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Severity
from torchlint.mixes import Origins, confidence_in, device_fix, faulty_creation, is_hot, origin_notes, shown
from torchlint.placement.events import Create, Mix, Move
from torchlint.rule import Note, Probe, Report, Rule, RuleContext


class CpuTensorInHotPath(Rule):
    """A tensor is created on the CPU in a forward, a loss or a training step, where it meets others.

    What it does
        Finds tensors that are created without `device=` in `forward`, in losses, in training steps and in
        loops that train, and that an operation joins with the batch, with the module's state or with another
        tensor off the host.

    Why it matters
        On an accelerator the operation raises for mixed devices, often only in a rare branch: an optional
        argument left out, an empty batch.

    Example
        import torch
        from torch import nn


        class Decoder(nn.Module):
            def forward(self, x, state=None):
                if state is None:
                    state = torch.zeros(x.shape[0], 8)  # <-
                return torch.cat([x, state], dim=1)

    Use instead
        import torch
        from torch import nn


        class Decoder(nn.Module):
            def forward(self, x, state=None):
                if state is None:
                    state = torch.zeros(x.shape[0], 8, device=x.device)
                return torch.cat([x, state], dim=1)

    Fix
        Safe. Creates the tensor on the device of the operand that it meets. Unsafe for random numbers, which
        differ from device to device.

    Verification
        Confirmed where the operation that joins the tensor raises for its devices; refuted where it runs.

    References
        https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
        https://github.com/benedekrozemberczki/pytorch_geometric_temporal/issues/20
    """

    code = "DEV201"
    name = "cpu-tensor-in-hot-path"
    severity = Severity.ERROR
    # The same tensor is not accused again for being elsewhere on another path.
    explains = ("DEV102",)
    probe = Probe("mix")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._origins = Origins()

    def on_create(self, create: Create) -> None:
        self._origins.note(create)

    def on_move(self, move: Move) -> None:
        self._origins.note(move)

    def on_mix(self, mix: Mix) -> Iterator[Report]:
        sure = confidence_in(mix, self._origins)
        create = faulty_creation(mix, self._origins)
        if create is None or sure is None or not (is_hot(create.scene) or is_hot(mix.scene)):
            return
        witness, other = mix.other
        there = f"`{shown(witness.node, self.context)}`, which is {other.place.describe()}"
        notes = (Note("context", mix.node, "they meet here"), *origin_notes(mix, self.context))
        message = f"`{shown(create.node, self.context)}` is created on the CPU and joins {there}"
        yield self.finding(create, message, confidence=sure, notes=notes, fix=device_fix(create, mix))
