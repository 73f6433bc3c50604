"""DEV301: a tensor's value is read as a number in every training step."""

from __future__ import annotations

import libcst as cst

from torchlint.findings import Safety, Severity
from torchlint.placement.events import Sync
from torchlint.rule import NodeEdit, NodeFix
from torchlint.waits import WaitRule

#: How a number is asked for.
_READS = frozenset(["item", "tolist", "float()", "int()", "bool()", "complex()"])


class ItemInStep(WaitRule):
    """A tensor's value is read as a number in every training step.

    What it does
        Finds `.item()`, `.tolist()`, `float(t)` and `int(t)` of a tensor that may be on an accelerator, in code
        that runs for every batch: the innermost loop that holds a backward, a function that is one training
        step. Silent where the read happens now and then (`if step % n == 0`), once the loop is over, in
        evaluation, or where what follows needs the number at once.

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

    def concerns(self, sync: Sync) -> bool:
        return sync.api in _READS and sync.scene.role not in ("forward", "loss")

    def message(self, sync: Sync) -> str:
        return f"`{self.context.code(sync.node)}` waits for the device in every training step"

    def fix(self, sync: Sync) -> NodeFix:
        kept = self._kept(sync.node)
        statement, loop = sync.statement, sync.scene.step_loop
        if kept is None or loop is None or not isinstance(statement, cst.AugAssign) or not _adds(statement, sync.node):
            return NodeFix("keep the value on the device and read it once, after the loop", Safety.DISPLAY, ())
        total = self.context.code(statement.target)
        edits = (NodeEdit(sync.node, "replace", kept), NodeEdit(loop, "line-after", f"{total} = float({total})"))
        return NodeFix(f"add up `{kept}` on the device, and read `{total}` once, after the loop", Safety.UNSAFE, edits)

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


def _adds(statement: cst.AugAssign, node: cst.CSTNode) -> bool:
    """Whether a statement is `name += node`, or adds a multiple of it."""
    if not isinstance(statement.operator, cst.AddAssign) or not isinstance(statement.target, cst.Name):
        return False
    value = statement.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, (cst.Multiply, cst.Divide)):
        return value.left is node or (value.right is node and isinstance(value.operator, cst.Multiply))
    return value is node
