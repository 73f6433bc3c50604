"""DEV101: a tensor is moved and the moved copy is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Create, Move, Use
from torchlint.placement.interpreter import key_of
from torchlint.placement.values import Kind, Where
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, RuleContext, confidence_of, weakest


class DiscardedMove(Rule):
    """A tensor is moved and the moved copy is dropped.

    What it does
        Finds statements such as `x.to(device)`, `x.cuda()` and `x.half()` where `x` is a tensor, or something
        else whose `to` returns a copy (packed sequences, sparse tensors, DGL graphs), and loops that bind
        nothing but their own variable to the moved copy, and functions that bind nothing but a parameter's name to it.

    Why it matters
        `Tensor.to` and its like return a new tensor and leave the old one where it is; only
        `nn.Module.to` works in place. The code reads as if `x` had moved, runs on a machine
        without an accelerator, and fails (or computes on the CPU) on one that has it.

    Example
        import torch


        def weighted(loss, device):
            weight = torch.ones(4)
            weight.to(device)  # <-
            return loss.to(device) * weight

    Use instead
        import torch


        def weighted(loss, device):
            weight = torch.ones(4)
            weight = weight.to(device)
            return loss.to(device) * weight

    Fix
        Unsafe. Binds the result to the name; later code that needs the old copy would get the moved one.

    Verification
        Confirmed where the receiver is still in its old place after the line and the dropped result is
        elsewhere; refuted where the receiver moved itself.

    References
        https://pytorch.org/docs/stable/generated/torch.Tensor.to.html
        https://github.com/huggingface/accelerate/issues/2251
    """

    code = "DEV101"
    name = "discarded-move"
    severity = Severity.ERROR
    probe = Probe("discarded-move")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._parts: list[tuple[Move, Report]] = []
        self._moved_parts: list[Move] = []
        self._floats: set[cst.CSTNode] = set()

    def on_create(self, create: Create) -> None:
        if create.dtype is None and create.api in _MAKES_FLOATS:
            self._floats.add(create.node)

    def on_move(self, move: Move) -> Iterator[Report]:
        if move.moves_device and ("part" in move.value.facts or _is_taken_tensor(move)):
            self._moved_parts.append(move)
        if move.use not in (Use.DROPPED, Use.LOOP_VARIABLE, Use.UNREAD, Use.NEVER):
            return
        if move.value.kind is not Kind.TENSOR and "copies" not in move.value.facts:
            return
        if move.dtype is None and _is_there(move):
            return
        source = self.context.code(move.receiver)
        confidence = confidence_of(move.value.certainty)
        fix = None
        if move.use is Use.LOOP_VARIABLE:
            message = (
                f"only the loop variable `{source}` is bound to the moved copy;"
                " what is iterated over keeps the old one"
            )
            confidence = weakest(confidence, Confidence.LIKELY)
        elif move.use is Use.NEVER:
            message = f"`map` calls nothing until something goes through its result: `{source}` stays where it is"
            confidence = weakest(confidence, Confidence.LIKELY)
        elif move.use is Use.UNREAD:
            message = (
                f"only the parameter's name `{source}` is bound to the moved copy,"
                " and nothing reads it afterwards"
            )
            confidence = weakest(confidence, Confidence.LIKELY)
        elif move.moves_device:
            message = f"`{source}.{move.api}()` returns a moved copy, and it is dropped: `{source}` stays where it is"
            fix = self._fix(move)
        elif self._changes_nothing(move):
            message = f"`{source}.{move.api}()` is a statement without effect: `{source}` is float32 as it was made"
        else:
            message = f"`{source}.{move.api}()` returns a converted copy, and it is dropped: `{source}` stays as it is"
            fix = self._fix(move)
            if _is_written(move.receiver) and move.dtype == "unknown":
                confidence = Confidence.POSSIBLE  # the write is what counts; the type is rather the tensor's own
        report = self.finding(move, message, confidence=confidence, fix=fix, notes=self._origin(move, source))
        if "part" in move.value.facts and move.use is Use.DROPPED:
            self._parts.append((move, report))
        else:
            yield report

    def finish(self) -> Iterator[Report]:
        """One part of a batch that is moved in vain may be something else that moves itself; two are tensors."""
        for move, report in self._parts:
            source = self.context.code(move.receiver)
            others = [
                other
                for other in self._moved_parts
                if _where(other) == _where(move) and self.context.code(other.receiver) != source
                # Beside a batch that moves itself stands a target whose move is kept.
                and (other.use is Use.DROPPED or "beside self-moving" not in move.value.facts)
            ]
            yield report if others else replace(report, confidence=Confidence.POSSIBLE)

    def _changes_nothing(self, move: Move) -> bool:
        """Whether a conversion is to the type that its tensor was made with."""
        places = move.value.places
        return move.api == "float" and bool(places) and all(p.origin in self._floats for p in places)

    def _origin(self, move: Move, source: str) -> tuple[Note, ...]:
        born = next((p for p in move.value.places if p.origin is not None and p.place.is_host), None)
        if born is None or born.origin is None:
            return ()
        return (Note("origin", born.origin, f"`{source}` comes from here, {born.place.describe()}"),)

    def _fix(self, move: Move) -> NodeFix | None:
        """Bind the result, unless the name is not what holds the tensor: a parameter's, or that of a state's entry."""
        if move.value.facts & {"parameter", "buffer", "state"}:
            return None
        calls = [e.value for e in move.row.elements] if move.row is not None else [move.node]
        receivers = [c.func.value for c in calls if type(c) is cst.Call and type(c.func) is cst.Attribute]
        names = [self.context.code(r) for r in receivers if key_of(r) is not None]
        if len(names) != len(calls) or not all(_is_move(c) for c in calls):
            return None
        targets = ", ".join(names) + ("," if move.row is not None and len(names) == 1 else "")
        edit = NodeEdit(move.row or move.node, "before", f"{targets} = ")
        return NodeFix(f"bind the result to `{targets.rstrip(',')}`", Safety.UNSAFE, (edit,))


def _is_there(move: Move) -> bool:
    """Whether what is moved was put on the same device before, so that nothing is lost with the copy."""
    target = {p.place for p in move.target}
    known = all(p.place.where is not Where.UNKNOWN and not p.place.is_host for p in move.target)
    return known and len(target) == 1 and {p.place for p in move.value.places} == target


def _is_taken_tensor(move: Move) -> bool:
    """Whether a tensor is moved that was taken out of what a loop goes through, as its use shows."""
    return move.value.kind is Kind.TENSOR and "taken" in move.value.facts


def _where(move: Move) -> tuple[object, tuple[cst.CSTNode, ...]]:
    return move.scene.function, tuple(move.scene.loops[-1:])


def _is_written(receiver: cst.CSTNode) -> bool:
    """Whether something is written in place: `x.add_(y)` keeps the type that `x` has."""
    if type(receiver) is not cst.Call or type(receiver.func) is not cst.Attribute:
        return False
    name = receiver.func.attr.value
    return name.endswith("_") and not name.endswith("__")


def _is_move(call: cst.CSTNode) -> bool:
    return type(call) is cst.Call and type(call.func) is cst.Attribute and call.func.attr.value in _MOVES


#: What makes float32 tensors where nothing else is asked for.
_MAKES_FLOATS = frozenset(f"torch.{name}" for name in "ones zeros rand randn empty linspace logspace eye".split())
_MOVES = frozenset(
    "to cuda cpu half float double bfloat16 long int bool type type_as xpu mps npu hpu".split()
)
