"""DEV105: a leaf that requires grad is moved and the copy is kept in its place."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import shown
from torchlint.placement.events import Attribute, Build, GradUse, Move
from torchlint.placement.values import Kind, Value
from torchlint.rule import NodeEdit, NodeFix, Note, Report, Rule, RuleContext


class MovedParameter(Rule):
    """A Parameter, or another leaf that requires grad, is moved, and the copy takes its place.

    What it does
        Finds `nn.Parameter(…).to(device)` that becomes an attribute of a Module, and leaves that are moved in the
        expression that makes them, or whose name the copy takes (`x = x.cuda()`), where an optimizer gets the copy or
        its `.grad` is read.

    Why it matters
        What a move returns is not the leaf but a tensor computed from it. On the CPU the move returns the leaf
        itself and all is well; on an accelerator the module has no such parameter, the optimizer raises for a
        non-leaf tensor, and `.grad` stays None.

    Example
        import torch
        from torch import nn


        class Scale(nn.Module):
            def __init__(self, width, device):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(width)).to(device)  # <-

            def forward(self, x):
                return x * self.gain

    Use instead
        import torch
        from torch import nn


        class Scale(nn.Module):
            def __init__(self, width, device):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(width).to(device))

            def forward(self, x):
                return x * self.gain

    Fix
        Unsafe. Moves the data before they become a Parameter: the module then has one parameter more.

    Verification
        Confirmed where the copy is no leaf; refuted where it is.

    References
        https://pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html
    """

    code = "DEV105"
    name = "moved-parameter"
    severity = Severity.ERROR

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._moves: dict[cst.CSTNode, Move] = {}

    def on_move(self, move: Move) -> None:
        """A leaf that nothing but this expression refers to is moved off the host."""
        value = move.value
        if not move.moves_device or "leaf" not in value.facts or value.kind is not Kind.TENSOR:
            return
        there = {p.place for p in move.target}
        if value.places and {p.place for p in value.places} <= there:
            return  # to where it is: `to` gives back the leaf itself
        if move.result.facts & {"moved leaf", "copied leaf"} and not any(place.is_host for place in there):
            self._moves[move.node] = move

    def on_attribute(self, attribute: Attribute) -> Iterator[Report]:
        move = self._moves.get(attribute.value_node) if attribute.value_node is not None else None
        lost = move is not None and "moved leaf" in move.result.facts
        if move is not None and lost and "parameter" in move.value.facts and attribute.owner.is_module:  # type: ignore[attr-defined]
            target = self.context.code(attribute.node)
            why = f"`{target}` is no Parameter on an accelerator, but a tensor computed from one"
            if target == self.context.code(move.receiver):
                why = "the module takes no tensor in its Parameter's place, and raises on an accelerator"
            yield self._report(move, why)

    def on_build(self, build: Build) -> Iterator[Report]:
        if build.what == "optimizer":
            for value in (build.value.element, *(o.value for o in build.arguments), *build.keywords.values()):
                why = "the optimizer gets a tensor that is no leaf on an accelerator"
                yield from self._lost(value, why, (Note("context", build.node, "the optimizer gets it here"),))

    def on_grad_use(self, use: GradUse) -> Iterator[Report]:
        if use.api == "retain_grad" and use.value is not None:
            for place in use.value.places:
                if place.origin is not None:
                    self._moves.pop(place.origin, None)
        elif use.api == "grad":
            why = "its `.grad` stays None on an accelerator, where the copy is no leaf"
            yield from self._lost(use.value, why, (Note("context", use.node, "`.grad` is read here"),))

    def _lost(self, value: Value | None, why: str, notes: tuple[Note, ...] = ()) -> Iterator[Report]:
        parts = [] if value is None else [value, *(value.items or ()), *([value.element] if value.element else [])]
        for part in parts:
            for place in part.places:
                move = self._moves.get(place.origin) if place.origin is not None else None
                if move is not None and part.facts & {"moved leaf", "copied leaf"}:
                    yield self._report(move, why, notes)

    def _report(self, move: Move, why: str, notes: tuple[Note, ...] = ()) -> Report:
        source = shown(move.receiver, self.context)
        message = f"`{source}` is a leaf, and what its move returns is not: {why}"
        return self.finding(move, message, confidence=Confidence.LIKELY, notes=notes, fix=self._fix(move))

    def _fix(self, move: Move) -> NodeFix | None:
        """Move the data of a Parameter instead."""
        made, node = move.receiver, move.node
        if not isinstance(made, cst.Call) or not isinstance(node, cst.Call) or not made.args or made.args[0].keyword:
            return None
        if "parameter" not in move.value.facts:
            return None
        data, moved = self.context.code(made.args[0].value), self.context.code(node)
        call = moved[len(self.context.code(made)) :]
        if not moved.startswith(self.context.code(made)):
            return None
        text = self.context.code(made).replace(data, data + call, 1)
        return NodeFix(
            "move the data before they become a Parameter", Safety.UNSAFE, (NodeEdit(node, "replace", text),)
        )
