"""DEV604: the processes of a distributed training share the first device."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Confidence, Severity
from torchlint.placement.events import Wrap
from torchlint.rule import Note, Report, Rule


class MissingSetDevice(Rule):
    """The processes of a distributed training share the first device.

    What it does
        Finds a model that `DistributedDataParallel` wraps after it was moved to CUDA without a number, in a file
        that sets up the process group and never says which device is the process's own: no
        `torch.cuda.set_device`, no `CUDA_VISIBLE_DEVICES`.

    Why it matters
        `cuda` without a number is the current device, which is the first one in every process. All of them fill
        its memory; NCCL refuses to work, or hangs.

    Example
        import os

        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel


        def setup(model: torch.nn.Module):
            dist.init_process_group("nccl")
            rank = int(os.environ["LOCAL_RANK"])
            model = model.to("cuda")  # <-
            return DistributedDataParallel(model, device_ids=[rank])

    Use instead
        import os

        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel


        def setup(model: torch.nn.Module):
            dist.init_process_group("nccl")
            rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(rank)
            model = model.to("cuda")
            return DistributedDataParallel(model, device_ids=[rank])

    Fix
        None. Call `torch.cuda.set_device(local_rank)` once the process knows its rank.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        https://github.com/pytorch/examples/pull/1142
    """

    code = "DEV604"
    name = "missing-set-device"
    severity = Severity.ERROR

    def on_wrap(self, wrap: Wrap) -> Iterator[Report]:
        if not wrap.on_first or wrap.scene.is_test:
            return
        origin = wrap.value.origin
        message = "every process puts its model on the first device: nothing sets which one is its own"
        notes = (Note("context", wrap.node, "it is wrapped here"),)
        yield self.finding(origin or wrap.node, message, confidence=Confidence.LIKELY, notes=notes)
