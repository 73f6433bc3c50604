"""DEV102: one operation joins tensors that live on different devices."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.mixes import (
    Origins,
    confidence_in,
    creation_fix,
    device_expression,
    device_fix,
    faulty_creation,
    is_constant,
    is_hot,
    is_plain_factory,
    origin_notes,
    shown,
)
from torchlint.placement.events import Build, Create, HostOnly, Leftover, Mix, Move, Return
from torchlint.placement.syntax import dotted, words
from torchlint.placement.values import Kind, Place, Value, Where
from torchlint.rule import (
    NodeEdit,
    NodeFix,
    Note,
    Probe,
    Report,
    Rule,
    RuleContext,
    confidence_of,
    weakest,
)

#: Optimizers that allocate their state in the constructor, beside the parameters (torch/optim/adagrad.py).
_ALLOCATING = frozenset(["torch.optim.Adagrad"])


class MixedDevices(Rule):
    """One operation joins a tensor on the CPU with one that is elsewhere.

    What it does
        Follows values from where they are made to the operations that join them, and reports a tensor known to
        be on the CPU that meets one on an accelerator, in the module, or wherever the caller put it.

    Why it matters
        On a machine with an accelerator the operation raises `RuntimeError: Expected all tensors to be on the
        same device`. Tests on the CPU never see it.

    Example
        import torch


        def attend(scores: torch.Tensor, lengths: torch.Tensor):
            lengths = lengths.to(scores.device)
            positions = torch.arange(scores.shape[-1])  # <-
            return scores.masked_fill(positions >= lengths[:, None], -1e9)

    Use instead
        import torch


        def attend(scores: torch.Tensor, lengths: torch.Tensor):
            lengths = lengths.to(scores.device)
            positions = torch.arange(scores.shape[-1], device=scores.device)
            return scores.masked_fill(positions >= lengths[:, None], -1e9)

    Fix
        Safe. Creates the tensor on the device of the operand that it meets. Unsafe for random numbers, which
        differ from device to device.

    Verification
        Confirmed where the operation raises for its devices; refuted where both operands turn out to be in one
        place.

    References
        https://pytorch.org/docs/stable/notes/cuda.html
        https://github.com/mozilla/TTS/pull/549
    """

    code = "DEV102"
    name = "mixed-devices"
    severity = Severity.ERROR
    probe = Probe("mix")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._origins = Origins()
        #: Optimizers that have their state, by the function and the name of the Module whose parameters they have.
        self._stateful: dict[tuple[cst.FunctionDef | None, str], Build] = {}
        self._placed: set[tuple[cst.FunctionDef | None, str]] = set()
        #: What was found of a caller's tensors, by the function and where they are, unless they are moved later.
        self._early: dict[tuple[cst.FunctionDef | None, Place], list[Report]] = {}

    def on_create(self, create: Create) -> None:
        self._origins.note(create)

    def on_move(self, move: Move) -> Iterator[Report]:
        self._origins.note(move)
        self._note_sent(move)
        name = dotted(_unwrapped(move.receiver))
        if name is None or not move.moves_device or any(p.place.is_host for p in move.target):
            return
        key = (move.scene.function, name)
        build = self._stateful.pop(key, None)
        self._placed.add(key)
        if build is not None and not move.scene.is_test:
            how = "allocates its state when it is built" if build.what == "optimizer" else "has its state loaded"
            message = f"`{name}` moves after its optimizer {how}: the state stays where the parameters were"
            notes = [Note("origin", build.node, "the state is on the device that the parameters are on here")]
            yield self.finding(move, message, confidence=Confidence.LIKELY, notes=notes)

    def _note_sent(self, move: Move) -> None:
        """What came of a mix is sent to a device afterwards, where the caller's tensor then was not."""
        if move.moves_device and all(p.place.is_named for p in move.target):
            for place in {p.place for p in move.value.places if p.place.where is Where.OF_CALLER}:
                self._early[move.scene.function, place] = []

    def finish(self) -> Iterator[Report]:
        for reports in self._early.values():
            yield from reports

    def on_leftover(self, event: Leftover) -> Iterator[Report]:
        """What came with a tensor that was moved was not, and both meet."""
        (kept, place), (witness, other) = event.kept, event.other
        if event.scene.is_test or event.scene.role in ("data", "test"):
            return
        if place.through is not None and not event.batch:
            return
        message = (
            f"`{shown(kept.node, self.context)}` was not moved to `{other.place.name}` like what came with it,"
            f" and joins `{shown(witness.node, self.context)}`, which was"
        )
        if event.batch:
            message = (
                f"`{shown(kept.node, self.context)}` goes into `{shown(witness.node, self.context)}` as the loader gave"
                f" it; other loops of the file move theirs to `{other.place.name}`"
            )
        sure = weakest(confidence_of(kept.value.certainty), confidence_of(witness.value.certainty), Confidence.LIKELY)
        yield self.finding(event, message, confidence=sure)

    def on_host_only(self, event: HostOnly) -> Iterator[Report]:
        """Lengths of sequences are read on the host."""
        value, away = event.operand.value, event.away
        if event.api != "pack_padded_sequence" or away is None or event.scene.is_test:
            return
        sure = confidence_of(value.certainty)
        if away.place.where is Where.OF_CALLER and not event.confirmed and (
            not is_hot(event.scene) or any(f.startswith("like:") for f in value.facts)
        ):
            sure = Confidence.POSSIBLE  # lengths that come by themselves are rather on the host
        source = shown(event.operand.node, self.context)
        message = f"`{source}` is {away.place.describe()}, and lengths must be on the CPU"
        fix = NodeFix("copy them to the CPU", Safety.SAFE, (NodeEdit(event.operand.node, "after", ".cpu()"),))
        yield self.finding(event, message, confidence=weakest(sure, Confidence.LIKELY), fix=fix)

    def on_build(self, build: Build) -> None:
        parameter = build.value.element
        if parameter is None or parameter.name is None or build.what not in ("optimizer", "optimizer state"):
            return
        key = (build.scene.function, parameter.name)
        if key not in self._placed and (build.what == "optimizer state" or build.api in _ALLOCATING):
            self._stateful[key] = build

    def on_return(self, event: Return) -> Iterator[Report]:
        """One exit gives a tensor made on the CPU, another one that is wherever its input is."""
        if is_hot(event.scene):
            for part in _parts(event.value):
                yield from self._paths(event, part)
        for node, value in event.earlier:
            yield from self._exits(event, (event.node, event.value), (node, value))
            yield from self._exits(event, (node, value), (event.node, event.value))

    def _paths(self, event: Return, part: Value) -> Iterator[Report]:
        """What one exit gives was made on the CPU on one path to it, and is elsewhere on another."""
        if part.kind is not Kind.TENSOR and "perhaps" not in part.facts:
            return
        other = next((p for p in part.places if p.place.where in (Where.OF_CALLER, Where.OF_MODULE)), None)
        for host in part.places:
            create = self._origins.created.get(host.origin) if host.origin is not None else None
            if create is None or other is None or not host.place.is_host or host.rank != 1:
                continue
            if create.scene.function is not event.scene.function or event.scene.is_test or event.scene.host_only:
                continue
            if not (is_plain_factory(create) or is_constant(create)):
                continue  # host data became a tensor
            message = (
                f"`{shown(create.node, self.context)}` is created on the CPU; on other paths what is returned is"
                f" {other.place.describe()}"
            )
            notes = (Note("context", event.node, "returned here"),)
            expression = device_expression(create, other)
            fix = None if expression is None else creation_fix(create, expression)
            yield self.finding(create, message, confidence=Confidence.LIKELY, notes=notes, fix=fix)

    def _exits(
        self, event: Return, here: tuple[cst.CSTNode, Value], there: tuple[cst.CSTNode, Value]
    ) -> Iterator[Report]:
        scene = event.scene
        if scene.role in ("data", "test") or scene.is_test or scene.host_only:
            return
        for host_part, other_part in zip(_parts(here[1]), _parts(there[1])):
            create = self._origins.created.get(host_part.origin) if host_part.origin is not None else None
            if create is None or create.scene.function is not scene.function or "assumed" in other_part.facts:
                continue
            if not (is_plain_factory(create) or is_constant(create)):
                continue  # host data became a tensor
            if any(f == "given" or f.startswith("like:") for f in other_part.facts):
                continue  # the other exit hands back what it got
            other = next((p for p in other_part.places if p.place.where is not Where.UNKNOWN), None)
            if other is None or other.place.where is Where.NAMED or other_part.may_be_on_host:
                continue
            if (f"{other.place.name} Is None", True) in create.scene.conditions:
                continue  # here there is no tensor that would say where
            if not host_part.on_host or host_part.places[0].rank != 1:
                continue
            sure = weakest(Confidence.LIKELY, confidence_of(other_part.certainty))
            message = (
                f"`{shown(create.node, self.context)}` is created on the CPU and returned; another exit returns a"
                f" tensor that is {other.place.describe()}"
            )
            notes = (Note("context", here[0], "returned here"), Note("context", there[0], "the other exit"))
            expression = device_expression(create, other)
            fix = None if expression is None else creation_fix(create, expression)
            yield self.finding(create, message, confidence=sure, notes=notes, fix=fix)

    def on_mix(self, mix: Mix) -> Iterator[Report]:
        place = mix.other[1].place
        if place.where is Where.OF_CALLER and not mix.confirmed:
            self._early.setdefault((mix.scene.function, place), []).extend(self._of_mix(mix))
        else:
            yield from self._of_mix(mix)

    def _of_mix(self, mix: Mix) -> Iterator[Report]:
        sure = confidence_in(mix, self._origins)
        if sure is None:
            return
        (accused, host), (witness, other) = mix.host, mix.other
        there = f"`{shown(witness.node, self.context)}`, which is {other.place.describe()}"
        notes = origin_notes(mix, self.context)
        if mix.within is not None:
            notes.append(Note("context", mix.within, "this call and this operation bring them together"))
        create = faulty_creation(mix, self._origins)
        if create is None:
            message = f"`{shown(accused.node, self.context)}` is on the CPU and joins {there}"
            at: Mix | cst.CSTNode = mix
            if type(mix.node) is cst.Call and any(accused.node is arg.value for arg in mix.node.args):
                at = accused.node  # which of the arguments of a call it is
                notes.insert(0, Note("context", mix.node, "they meet here"))
            yield self.finding(at, message, confidence=sure, notes=notes, cause=host.through or host.origin)
        elif not is_hot(create.scene) and not is_hot(mix.scene):  # else DEV201 says it
            message = f"`{shown(create.node, self.context)}` is created on the CPU and joins {there}"
            notes.insert(0, Note("context", mix.node, "they meet here"))
            yield self.finding(create, message, confidence=sure, notes=notes, fix=device_fix(create, mix))


def _unwrapped(node: cst.CSTNode) -> cst.CSTNode:
    """What a wrapper is made for that is moved at once: `nn.DataParallel(model).cuda()` moves `model` in place."""
    wraps = type(node) is cst.Call and words(node.func).endswith("DataParallel") and node.args
    return node.args[0].value if wraps else node  # type: ignore[attr-defined]


def _parts(value: Value) -> tuple[Value, ...]:
    """A returned tensor, or the tensors of a returned tuple."""
    if value.kind is Kind.TENSOR or "perhaps" in value.facts:
        return (value,)
    if value.kind is Kind.SEQUENCE and value.items is not None:
        return tuple(i if i.kind is Kind.TENSOR else Value() for i in value.items)
    return ()
