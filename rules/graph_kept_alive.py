"""DEV304: a loss is kept together with its graph, so that memory grows with every step."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Accumulate
from torchlint.placement.scene import SELDOM
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule, confidence_of, weakest


class GraphKeptAlive(Rule):
    """A loss is kept together with its graph, so that memory grows with every step.

    What it does
        Finds losses that a training step adds to a sum, appends to a list or hands to a meter which does so,
        without cutting them off the autograd graph, and Modules that add what `forward` computes to their own state.
        Also a hidden state that goes from one step to the next as it is, so that each backward wants the graph of the
        step before, which is freed.
        Silent where backward runs on the sum itself, and where the sum begins anew in every step;
        `possible` where the loop sets it anew now and then, or adds to it now and then.

    Why it matters
        A tensor that requires grad refers to the graph that computed it. A sum over an epoch refers to the graphs
        of all its steps, none of which can be freed before the sum is.

    Example
        def train(model, loader, optimizer, criterion, device):
            total = 0.0
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss  # <-
            return total / len(loader)

    Use instead
        def train(model, loader, optimizer, criterion, device):
            total = 0.0
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach()
            return total / len(loader)

    Fix
        Unsafe. Cuts the value off the graph; a backward elsewhere that runs on the sum would miss it.

    Verification
        Confirmed where what is kept after two steps still has a `grad_fn`.

    References
        https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
        https://github.com/horovod/horovod/pull/641
    """

    code = "DEV304"
    name = "graph-kept-alive"
    severity = Severity.WARNING
    probe = Probe("graph")

    def on_accumulate(self, kept: Accumulate) -> Iterator[Report]:
        source = self.context.code(kept.kept)
        message = f"`{kept.into}` keeps `{source}` with its autograd graph, so that no step's graph is freed"
        if kept.how == "state":
            message = f"`{kept.into}` keeps the graph of `{source}`, and with it those of all steps before"
        if kept.how == "carried":
            message = f"`{kept.into}` carries this step's graph into the next, whose backward runs through it again"
        # A sum that begins anew now and then holds a few graphs, for a while.
        most = Confidence.POSSIBLE if kept.renewed or kept.scene.tests & SELDOM else Confidence.LIKELY
        sure = weakest(most, confidence_of(kept.value.certainty))
        fix = None if kept.how in ("carried", "within") else self._fix(kept.kept, source)
        yield self.finding(kept, message, confidence=sure, fix=fix)

    def _fix(self, kept: cst.BaseExpression, source: str) -> NodeFix | None:
        if isinstance(kept, cst.List | cst.Tuple | cst.Dict):
            return None
        whole = isinstance(kept, cst.Name | cst.Attribute | cst.Call | cst.Subscript) or bool(kept.lpar)
        text = f"{source}.detach()" if whole else f"({source}).detach()"
        return NodeFix(f"keep `{text}`", Safety.UNSAFE, (NodeEdit(kept, "replace", text),))
