"""DEV103: a Module keeps a tensor as a plain attribute, which `.to()` does not move."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import Origins, confidence_in, shown
from torchlint.placement.events import Attribute, Mix, Move
from torchlint.rule import NodeEdit, NodeFix, Note, Report, Rule, RuleContext


class UnregisteredTensor(Rule):
    """A Module keeps a tensor as a plain attribute, which `.to()` does not move.

    What it does
        Finds attributes of an `nn.Module` that hold a tensor made on the CPU, are neither Parameter nor buffer,
        and meet the module's input or state in one of its methods.

    Why it matters
        `Module.to` moves Parameters, buffers and submodules, and nothing else. After `model.to(device)` the
        attribute is still on the CPU, and the operation that joins it raises. It is missing from the
        state_dict, too.

    Example
        import torch
        from torch import nn


        class Normalise(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean = torch.tensor([0.485, 0.456, 0.406])  # <-

            def forward(self, image):
                return image - self.mean[:, None, None]

    Use instead
        import torch
        from torch import nn


        class Normalise(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]), persistent=False)

            def forward(self, image):
                return image - self.mean[:, None, None]

    Fix
        Unsafe. Registers the tensor as a buffer that is not saved. A learnable one wants nn.Parameter instead.

    Verification
        Confirmed where the attribute is still on the CPU after the module moved; refuted where it moved, too.

    References
        https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
        https://github.com/Lightning-AI/pytorch-lightning/issues/3674
    """

    code = "DEV103"
    name = "unregistered-tensor"
    severity = Severity.ERROR
    explains = ("DEV102", "DEV201")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._attributes: dict[cst.CSTNode, Attribute] = {}
        self._origins = Origins()
        self._mixes: dict[cst.CSTNode, tuple[Confidence, Mix]] = {}

    def on_attribute(self, attribute: Attribute) -> None:
        if attribute.how == "assign":
            self._attributes[attribute.node] = attribute

    def on_move(self, move: Move) -> None:
        self._origins.note(move)

    def on_mix(self, mix: Mix) -> None:
        through, sure = mix.host[1].through, confidence_in(mix, self._origins)
        if through is None or sure is None:
            return
        known = self._mixes.get(through)
        if known is None or sure.rank > known[0].rank:
            self._mixes[through] = (sure, mix)

    def finish(self) -> Iterator[Report]:
        for target, (sure, mix) in self._mixes.items():
            attribute = self._attributes.get(target)
            if attribute is None or not attribute.owner.is_module:  # type: ignore[attr-defined]
                continue
            witness, other = mix.other
            joins = f"`{shown(witness.node, self.context)}`, which is {other.place.describe()}"
            message = (
                f"`{shown(target, self.context)}` is neither Parameter nor buffer, so `.to()` leaves it on the CPU;"
                f" it joins {joins}"
            )
            notes = [Note("context", mix.node, "they meet here")]
            if mix.host[1].origin is not None:
                notes.append(Note("origin", mix.host[1].origin, "created on the CPU here"))
            yield self.finding(target, message, confidence=sure, notes=notes, fix=self._fix(attribute), cause=target)

    def _fix(self, attribute: Attribute) -> NodeFix | None:
        statement, source = attribute.statement, attribute.value_node
        if statement is None or source is None or not attribute.value.is_tensor:
            return None
        instance = self.context.code(attribute.node).rpartition(".")[0]
        text = f'{instance}.register_buffer("{attribute.name}", {self.context.code(source)}, persistent=False)'
        edit = NodeEdit(statement, "replace", text)
        return NodeFix("register it as a buffer", Safety.UNSAFE, (edit,))
