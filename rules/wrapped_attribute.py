"""DEV115: an attribute of a model is read of the DataParallel that wraps it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Behind
from torchlint.rule import NodeEdit, NodeFix, Note, Report, Rule


class WrappedAttribute(Rule):
    """An attribute of a model is read of the DataParallel or DistributedDataParallel that wraps it.

    What it does
        Finds methods and attributes that neither the wrapper nor any Module has, read of a model after
        `nn.DataParallel` or `DistributedDataParallel` wrapped it. Where the model is wrapped on some paths only,
        silent in files that read `.module` somewhere.

    Why it matters
        The wrapper hands nothing on: reading raises AttributeError, often only on machines with several devices.

    Example
        import torch
        from torch import nn


        class Scorer(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.head = nn.Linear(width, 1)

            def forward(self, x):
                return self.head(x)

            def penalty(self):
                return self.head.weight.pow(2).sum()


        def loss_of(x, width, device):
            model = nn.DataParallel(Scorer(width).to(device))
            return model(x).mean() + model.penalty()  # <-

    Use instead
        import torch
        from torch import nn


        class Scorer(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.head = nn.Linear(width, 1)

            def forward(self, x):
                return self.head(x)

            def penalty(self):
                return self.head.weight.pow(2).sum()


        def loss_of(x, width, device):
            model = nn.DataParallel(Scorer(width).to(device))
            return model(x).mean() + model.module.penalty()

    Fix
        Unsafe. Reads it of `.module`, where the model is wrapped on every path.

    References
        https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
        https://github.com/jytime/Mask_RCNN_Pytorch/issues/2
    """

    code = "DEV115"
    name = "wrapped-attribute"
    severity = Severity.ERROR

    def on_behind(self, behind: Behind) -> Iterator[Report]:
        where = "is wrapped" if behind.always else "is wrapped on some paths"
        message = f"the model {where}, and its wrapper has no `{behind.name}`: `.module` has"
        notes = () if behind.wrap is None else (Note("context", behind.wrap, "it is wrapped here"),)
        fix = None
        node = behind.node
        if behind.always and isinstance(node, cst.Attribute):
            code = self.context.code(node.value)
            edit = NodeEdit(node.value, "replace", f"{code}.module")
            fix = NodeFix(f"read `{code}.module.{behind.name}`", Safety.UNSAFE, (edit,))
        yield self.finding(behind, message, confidence=Confidence.LIKELY, notes=notes, fix=fix, cause=behind.wrap)
