"""DEV301: a tensor's value is read as a number in every training step."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Sync
from torchlint.placement.scene import SELDOM
from torchlint.placement.syntax import assigned_names
from torchlint.placement.values import Where
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, weakest
from torchlint.waits import WaitRule

#: How a number is asked for.
_READS = frozenset(["item", "tolist", "float()", "int()", "bool()", "complex()"])


_ELSEWHERE = frozenset([Where.NAMED, Where.OF_MODULE])


class ItemInStep(WaitRule):
    """A tensor's value is read as a number in every training step.

    What it does
        Finds `.item()`, `.tolist()`, `float(t)` and `int(t)` of a tensor that may be on an accelerator, in code
        that runs for every batch: the innermost loop that holds a backward, a function that is one training
        step. Silent where the read happens now and then (`if step % n == 0`), once the loop is over, in
        evaluation, where what follows needs the number at once, behind a `synchronize()` that a clock asks for, or in
        a class that the project never calls. And anywhere, the elements of a tensor on an
        accelerator, or the gradients of a model, that are read one by one.

    Why it matters
        The device works through a queue while Python prepares the next batch. Reading a value waits until the
        queue is empty, so that both sides take turns instead of overlapping.

    Example
        def train(model, loader, optimizer, criterion, device):
            total = 0.0
            for x, y in loader:
                loss = criterion(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()  # <-
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
            total = float(total)
            return total / len(loader)

    Fix
        Unsafe. Adds up on the device and reads the sum once, after the loop; within the loop it is a tensor. Where
        the number goes elsewhere, the fix is for the reader.

    Verification
        Confirmed where the line reads a value that is on the accelerator.

    References
        https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
        https://github.com/dmlc/dgl/issues/5302
    """

    code = "DEV301"
    name = "item-in-step"
    severity = Severity.WARNING
    # One wait in a statement is enough to speak of.
    explains = ("DEV303",)
    probe = Probe("sync")

    def concerns(self, sync: Sync) -> bool:
        return sync.api in _READS

    def confidence(self, sync: Sync) -> Confidence:
        sure = super().confidence(sync)
        # What a layer reads in so many words it mostly needs as a size, unless a tensor would do.
        needed = sync.scene.role in ("forward", "loss") and not (sync.each or sync.spared)
        return weakest(sure, Confidence.POSSIBLE) if needed else sure

    def on_sync(self, sync: Sync) -> Iterator[Report]:
        if sync.each and not sync.scene.every_step and self._is_read_one_by_one(sync):
            yield self.report(sync)
        yield from super().on_sync(sync)

    def _is_read_one_by_one(self, sync: Sync) -> bool:
        """Whether every element costs a wait, wherever that is: the tensor is on an accelerator."""
        scene, value = sync.scene, sync.value
        if scene.is_test or scene.role in ("data", "test") or self.measures or value is None:
            return False
        if scene.tests & SELDOM:
            return False
        if "of grad" in value.facts:
            return not value.may_be_on_host
        # A comprehension over a tensor reads them all; a loop may skip most, and is judged by where it stands.
        # Who calls a Module's other methods, decoders for one, may have all of it on the CPU.
        helps = getattr(scene.owner, "is_module", False)
        spoken = (scene.device_aware or not _is_looped(sync)) and not helps
        anywhere = scene.role in ("forward", "loss", "step") or spoken
        away = _ELSEWHERE | {Where.OF_CALLER} if anywhere else _ELSEWHERE
        return bool(value.places) and all(p.place.where in away for p in value.places)

    def message(self, sync: Sync) -> str:
        if sync.each:
            if sync.value is not None and "of grad" in sync.value.facts:
                read = self.context.code(sync.node)
                return f"`{read}` waits for the device for each parameter; a stack of them waits once"
            return f"`{self.context.code(sync.node)}` waits for the device for each element; `.tolist()` waits once"
        return f"`{self.context.code(sync.node)}` waits for the device in every step"

    def fix(self, sync: Sync) -> NodeFix:
        kept = self._kept(sync.node)
        statement, loop = sync.statement, sync.scene.step_loop
        if (
            kept is None
            or loop is None
            or not isinstance(statement, cst.AugAssign)
            or not _adds(statement, sync.node)
            or self._reads_each_round(loop, statement)
        ):
            return NodeFix(
                "keep the value on the device and read it once, after the loop", Safety.DISPLAY, ()
            )
        total = self.context.code(statement.target)
        edits = (
            NodeEdit(sync.node, "replace", kept),
            NodeEdit(loop, "line-after", f"{total} = float({total})"),
        )
        return NodeFix(
            f"add up `{kept}` on the device, and read `{total}` once, after the loop", Safety.UNSAFE, edits
        )

    def _reads_each_round(self, loop: cst.CSTNode, statement: cst.AugAssign) -> bool:
        """Whether the loop does more with the sum than to add to it, whatever the round: that would wait instead."""
        if not isinstance(loop, (cst.For, cst.While)) or not isinstance(loop.body, cst.IndentedBlock):
            return False
        total = re.compile(rf"(?<![\w.]){re.escape(self.context.code(statement.target))}\b")
        lines = (line for line in loop.body.body if isinstance(line, cst.SimpleStatementLine))
        return any(
            total.search(self.context.code(small))
            for line in lines
            for small in line.body
            if small is not statement
        )

    def _kept(self, node: cst.CSTNode) -> str | None:
        """The value that a call reads, without its graph."""
        if not isinstance(node, cst.Call):
            return None
        if isinstance(node.func, cst.Attribute):
            inner = node.func.value
        elif len(node.args) == 1:
            inner = node.args[0].value
        else:
            return None
        code = self.context.code(inner)
        if code.endswith((".detach()", ".data")):
            return code
        whole = isinstance(inner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(inner.lpar)
        return f"{code}.detach()" if whole else f"({code}).detach()"


def _is_looped(sync: Sync) -> bool:
    """Whether what is read is what a `for` statement around binds."""
    loops = (loop for loop in sync.scene.loops if isinstance(loop, cst.For))
    return any(sync.subject in assigned_names(loop.target) for loop in loops)


def _adds(statement: cst.AugAssign, node: cst.CSTNode) -> bool:
    """Whether a statement is `name += node`, or adds a multiple of it."""
    if not isinstance(statement.operator, cst.AddAssign) or not isinstance(statement.target, cst.Name):
        return False
    value = statement.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, (cst.Multiply, cst.Divide)):
        return value.left is node or (value.right is node and isinstance(value.operator, cst.Multiply))
    return value is node
