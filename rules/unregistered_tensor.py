"""DEV103: a Module keeps a tensor as a plain attribute, which `.to()` does not move."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import Origins, confidence_in, shown
from torchlint.placement.events import Attribute, Create, Leftover, Mix, Move, Operand
from torchlint.placement.evidence.sharing import is_registered_too
from torchlint.placement.values import Alternative, Kind
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, RuleContext


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
    probe = Probe("unregistered")
    explains = ("DEV102", "DEV201")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._attributes: dict[cst.CSTNode, Attribute] = {}
        self._origins = Origins()
        self._leftovers: dict[cst.CSTNode, Leftover] = {}
        self._mixes: dict[cst.CSTNode, tuple[Confidence, Mix]] = {}

    def on_attribute(self, attribute: Attribute) -> None:
        if attribute.how == "assign":
            self._attributes[attribute.node] = attribute

    def on_create(self, create: Create) -> None:
        self._origins.note(create)

    def on_move(self, move: Move) -> None:
        self._origins.note(move)

    def on_mix(self, mix: Mix) -> None:
        through, sure = mix.host[1].through, confidence_in(mix, self._origins)
        if through is None or sure is None:
            return
        known = self._mixes.get(through)
        if known is None or sure.rank > known[0].rank:
            self._mixes[through] = (sure, mix)

    def on_leftover(self, event: Leftover) -> None:
        scene = event.scene
        if scene.is_test or scene.role in ("data", "test", "init") or scene.host_only:
            return
        kept = event.kept[1]
        target, create = kept.through, self._origins.created.get(kept.origin) if kept.origin is not None else None
        if (
            target is not None
            and (create is None or create.why != "explicit")
            and kept.origin not in self._origins.moved
        ):
            self._leftovers.setdefault(target, event)

    def finish(self) -> Iterator[Report]:
        for target, (sure, mix) in self._mixes.items():
            attribute = self._kept(target)
            if attribute is not None:
                origin = mix.host[1].origin
                if mix.host[0].value.kind is Kind.MODULE or _is_registered_too(attribute):
                    sure = Confidence.POSSIBLE  # DEV104 speaks of lists of Modules
                notes = [] if origin is None else [Note("origin", origin, "created on the CPU here")]
                yield self._report(attribute, mix.node, mix.other, sure, notes)
        for target, event in self._leftovers.items():
            attribute = self._kept(target)
            if attribute is not None and target not in self._mixes:
                # What a constructor got is where its caller's other tensors are, unless the module moves later.
                yield self._report(attribute, event.node, event.other, Confidence.POSSIBLE, [])

    def _kept(self, target: cst.CSTNode) -> Attribute | None:
        attribute = self._attributes.get(target)
        if attribute is None or not attribute.owner.is_module:  # type: ignore[attr-defined]
            return None
        bases = attribute.owner.lineage()  # type: ignore[attr-defined]
        return None if any(attribute.name in base.registered for base in bases[1:]) else attribute

    def _report(
        self,
        attribute: Attribute,
        node: cst.CSTNode,
        other: tuple[Operand, Alternative],
        sure: Confidence,
        notes: list[Note],
    ) -> Report:
        target = attribute.node
        message = (
            f"`{shown(target, self.context)}` is neither Parameter nor buffer, so `.to()` leaves it where it is;"
            f" it joins `{shown(other[0].node, self.context)}`, which is {other[1].place.describe()}"
        )
        notes = [Note("context", node, "they meet here"), *notes]
        return self.finding(target, message, confidence=sure, notes=notes, fix=self._fix(attribute), cause=target)

    def _fix(self, attribute: Attribute) -> NodeFix | None:
        statement, source = attribute.statement, attribute.value_node
        if statement is None or source is None or not attribute.value.is_tensor:
            return None
        instance = self.context.code(attribute.node).rpartition(".")[0]
        text = f'{instance}.register_buffer("{attribute.name}", {self.context.code(source)}, persistent=False)'
        edit = NodeEdit(statement, "replace", text)
        return NodeFix("register it as a buffer", Safety.UNSAFE, (edit,))


def _is_registered_too(attribute: Attribute) -> bool:
    lineage = attribute.owner.lineage()  # type: ignore[attr-defined]
    return any(is_registered_too(cls.node, attribute.name) for cls in lineage)
