"""DEV111: what a move helper hands back is dropped, or a move helper drops what it can't move."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Call, Filter, Operand
from torchlint.placement.interpreter import key_of
from torchlint.placement.values import Kind, Value
from torchlint.rule import NodeEdit, NodeFix, Probe, Report, Rule

_NO_TENSORS = (Kind.DEVICE, Kind.STRING, Kind.NUMBER, Kind.DTYPE, Kind.NONE)


class DiscardedMoveHelper(Rule):
    """A helper hands back moved copies, and its result is dropped.

    What it does
        Finds calls of functions that do nothing but return moved copies of what they are given, where the call is
        a statement of its own. Helpers of the project and its classes (`Batch.to`) count, and those of libraries
        (`accelerate.utils.send_to_device`). Also finds comprehensions that move only the elements that have a
        `to`, where the rest is taken apart by position afterwards, and those that leave containers alone, where calls
        in the file pass containers of tensors.

    Why it matters
        The helper leaves its argument where it was. What is left out of a moved batch shifts what comes after it.

    Example
        def move(batch, device):
            return {name: value.to(device) for name, value in batch.items()}


        def step(model, batch, device):
            move(batch, device)  # <-
            return model(batch)

    Use instead
        def move(batch, device):
            return {name: value.to(device) for name, value in batch.items()}


        def step(model, batch, device):
            batch = move(batch, device)
            return model(batch)

    Fix
        Unsafe. Binds the result to the name of the argument.

    Verification
        Confirmed where the argument's tensors are still in their old places after the line.

    References
        https://github.com/mikkelfo/CORE-BEHRT/issues/1
        https://github.com/fastai/fastai/issues/3294
    """

    code = "DEV111"
    name = "discarded-move-helper"
    severity = Severity.ERROR
    probe = Probe("discarded-helper")

    def on_call(self, call: Call) -> Iterator[Report]:
        if not call.dropped or not call.helper:
            return
        moved = [a for a in call.arguments if a.value.kind not in _NO_TENSORS]
        if moved and all(type(a.node) is cst.Call for a in moved):
            return  # nothing else holds what is moved: it is tried out, or warms the device up
        if any(_moves_in_place(a.value) for a in moved):
            return
        sure = call.helper == "container" or any(_holds_tensors(a.value) for a in moved)
        if call.helper == "rebinds":
            message = f"`{call.name}()` moves no more than its own name for what it is given, which stays where it is"
        else:
            message = (
                f"`{call.name}()` returns moved copies and leaves what it is given where it is;"
                " its result is dropped"
            )
        yield self.finding(
            call,
            message,
            confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
            fix=self._fix(call, moved) if call.helper != "rebinds" else None,
        )

    def on_filter(self, event: Filter) -> Iterator[Report]:
        if event.how == "nested":
            message = "containers within what this gets are left as they are, and calls in this file pass some"
            yield self.finding(event, message, confidence=Confidence.LIKELY)
            return
        what = "a `to`" if event.how == "hasattr" else "the type that is asked for"
        message = f"elements without {what} are left out of what is moved"
        if event.by_position:
            message += ", and what is left is taken apart by position"
        yield self.finding(
            event, message, confidence=Confidence.LIKELY if event.by_position else Confidence.POSSIBLE
        )

    def _fix(self, call: Call, moved: list[Operand]) -> NodeFix | None:
        if len(moved) != 1 or key_of(moved[0].node) is None:
            return None
        name = self.context.code(moved[0].node)
        return NodeFix(
            f"bind the result to `{name}`", Safety.UNSAFE, (NodeEdit(call.node, "before", f"{name} = "),)
        )


def _moves_in_place(value: Value) -> bool:
    inner = value.element if value.element is not None else value
    return inner.kind in (Kind.MODULE, Kind.OWNED, Kind.OPTIMIZER) or "in place" in inner.facts


def _holds_tensors(value: Value) -> bool:
    inner = value.element if value.element is not None else value
    return inner.kind is Kind.TENSOR
