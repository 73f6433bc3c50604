"""What an automaton noted along the paths of a function, and which of it stands as a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.placement.events import Fault, Scaler
from torchlint.placement.values import Certainty

if TYPE_CHECKING:
    from torchlint.placement.protocols.amp import State
    from torchlint.placement.protocols.paths import Guard

#: Tests that ask whether mixed precision is on, in whatever words: two of them are taken to agree.
_MODE = re.compile(
    r"scaler|amp|fp16|half|precision|mixed|autocast|float16|bf16|enabled|cuda|gpu|device", re.IGNORECASE
)


class At(NamedTuple):
    """A place on a path: the node, and the calls that were followed to get there."""

    node: cst.CSTNode
    calls: tuple[cst.CSTNode, ...] = ()


class Claim(NamedTuple):
    """A fault seen on a path: what it began with, where it showed, and a third place."""

    fault: Fault
    start: At
    end: At
    more: At | None = None

    @property
    def node(self) -> cst.CSTNode:
        """The node to accuse: what is wrong beside what it began with, or else the call that leads there."""
        accused, other = (self.start, self.end) if self.fault in _ACCUSE_START else (self.end, self.start)
        shared = 0
        for mine, theirs in zip(accused.calls, other.calls, strict=False):
            if mine is not theirs:
                break
            shared += 1
        return accused.node if len(accused.calls) == shared else accused.calls[shared]


_ACCUSE_START = frozenset([Fault.HALF_UNSCALED, Fault.NEVER_SCALED])


@dataclass
class Ledger:
    """What one walk saw.

    claims: faults seen on some path. spared: backwards after which code that is not seen ran.
    stepped_well, unscaled_well: scaled backwards that a path brought to scaler.step, and to unscale_ before
    any clip. scaled_by: the calls that scaled what goes backward. half_scaled: regions whose output goes
    backward scaled. guards: the tests around each node of the protocol. left: ways out of the function while
    gradients are unscaled and not updated.
    """

    claims: dict[tuple[Fault, cst.CSTNode, cst.CSTNode], Claim] = field(default_factory=dict)
    spared: set[cst.CSTNode] = field(default_factory=set)
    stepped_well: set[cst.CSTNode] = field(default_factory=set)
    unscaled_well: set[cst.CSTNode] = field(default_factory=set)
    half_scaled: set[cst.CSTNode] = field(default_factory=set)
    scaled_by: dict[cst.CSTNode, set[cst.CSTNode]] = field(default_factory=dict)
    clip_steps: dict[cst.CSTNode, At] = field(default_factory=dict)
    guards: dict[cst.CSTNode, tuple[Guard, ...]] = field(default_factory=dict)
    scalers: dict[cst.CSTNode, Scaler] = field(default_factory=dict)
    left: dict[tuple[cst.CSTNode, cst.CSTNode | None], At] = field(default_factory=dict)
    steps: set[cst.CSTNode] = field(default_factory=set)
    updates: set[cst.CSTNode] = field(default_factory=set)
    #: What scalers are called in the function that is judged.
    known: set[str] = field(default_factory=set)
    scales: bool = False

    def claim(self, fault: Fault, start: At, end: At, state: State, more: At | None = None) -> None:
        if not state.opaque:
            self.claims.setdefault((fault, start.node, end.node), Claim(fault, start, end, more))

    def spare(self, state: State) -> None:
        """Code that is not seen may have done what was missing."""
        for at in (state.scaled, state.plain):
            if at is not None:
                self.spared.add(at.node)

    # ------------------------------------------------------------------ judgement

    def standing(self) -> Iterator[Claim]:
        """The claims that no other path refutes."""
        for claim in self.claims.values():
            test = _TESTS.get(claim.fault)
            if test is None or test(self, claim):
                yield claim
        yield from self._left_unscaled()

    def every(self, claim: Claim) -> bool:
        """Whether no path avoids the fault."""
        if claim.fault in (Fault.NO_UPDATE, Fault.UNSCALED_TWICE):
            return not self.updates
        return claim.fault is not Fault.UPDATE_SKIPPED

    def certainty(self, claim: Claim) -> Certainty:
        """How sure it is that the scalers of a claim are GradScalers."""
        nodes: set[cst.CSTNode] = {at.node for at in (claim.start, claim.end, claim.more) if at is not None}
        for node in list(nodes):
            nodes |= self.scaled_by.get(node, set())
        known = [self.scalers[node].value.certainty for node in nodes if node in self.scalers]
        return min(known, default=Certainty.INFERRED)

    def _guarded_apart(self, node: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether a test asks for the mode of precision around one node and not around the other."""
        theirs = {g.text for g in self.guards.get(other, ())}
        return any(_MODE.search(g.text) and g.text not in theirs for g in self.guards.get(node, ()))

    def _plain_step(self, claim: Claim) -> bool:
        start, end = claim.start.node, claim.end.node
        return start not in self.stepped_well | self.spared and not self._guarded_apart(end, start)

    def _second_step(self, claim: Claim) -> bool:
        return not self._guarded_apart(claim.end.node, claim.start.node)

    def _scaled_clip(self, claim: Claim) -> bool:
        start, end = claim.start.node, claim.end.node
        return start not in self.unscaled_well | self.spared and not self._guarded_apart(end, start)

    def _never_scaled(self, claim: Claim) -> bool:
        """Beside a loss that is scaled: where no test stands around the backward that isn't around the step, too."""
        if claim.start.node in self.spared:
            return False
        return not self.scales or self.guards.get(claim.start.node, ()) == self.guards.get(claim.end.node, ())

    def _half_unscaled(self, claim: Claim) -> bool:
        return claim.start.node not in self.half_scaled and claim.end.node not in self.spared

    def _no_update(self, claim: Claim) -> bool:
        """step came again before update: no update is there, or a test lets it be skipped."""
        if claim.start.node is not claim.end.node or not self.updates:
            return True
        return self._skipped_by_chance(claim.end.node)

    def _skipped_by_chance(self, node: cst.CSTNode) -> bool:
        """Whether every update hangs on a test that differs between rounds, and the node does not."""
        hangs = all(self._varies(update) for update in self.updates)
        return hangs and not self._varies(node)

    def _varies(self, node: cst.CSTNode) -> bool:
        return any(g.varies for g in self.guards.get(node, ()))

    def _unscaled_twice(self, claim: Claim) -> bool:
        if claim.start.node is not claim.end.node:
            return not self._guarded_apart(claim.end.node, claim.start.node)
        return not self.updates or self._skipped_by_chance(claim.end.node)

    def _update_skipped(self, claim: Claim) -> bool:
        """claim.end jumps; claim.more is the unscale_ that raises in the next round."""
        jump = claim.end.node
        return (
            self._varies(jump)
            and not self._varies(claim.start.node)
            and not _asks_mode(self.guards.get(jump, ()))
        )

    def _update_alone(self, claim: Claim) -> bool:
        """Either every step comes after the update, or steps hang on a period and the update does not."""
        if not self.steps:
            return False
        guards = self.guards.get(claim.end.node, ())
        if all(any("Modulo" in g.text and g.varies for g in self.guards.get(s, ())) for s in self.steps):
            return not any(g.varies for g in guards)
        unguarded = not guards and not any(self.guards.get(s, ()) for s in self.steps)
        return unguarded and claim.start.node not in self.stepped_well

    def _left_unscaled(self) -> Iterator[Claim]:
        """A function that unscales and, on other ways, updates, is left in between: its next call raises."""
        for (node, jump), at in self.left.items():
            mine = {g.text for g in self.guards.get(node, ())}
            surely = any(
                all(g.text in mine or _MODE.search(g.text) for g in self.guards.get(update, ()))
                for update in self.updates
            )
            if not self.updates or not self.steps:
                continue
            if jump is None and not surely:
                yield Claim(Fault.UNSCALED_TWICE, at, at)
            elif jump is not None and self.guards.get(jump) and not _asks_mode(self.guards[jump]):
                yield Claim(Fault.UPDATE_SKIPPED, at, At(jump), at)


def _asks_mode(guards: Iterable[Guard]) -> bool:
    return any(_MODE.search(g.text) for g in guards)


#: What a claim has to pass, beside that some path shows it.
_TESTS: dict[Fault, Callable[[Ledger, Claim], bool]] = {
    Fault.PLAIN_STEP: Ledger._plain_step,
    Fault.SECOND_STEP: Ledger._second_step,
    Fault.SCALED_CLIP: Ledger._scaled_clip,
    Fault.NEVER_SCALED: Ledger._never_scaled,
    Fault.HALF_UNSCALED: Ledger._half_unscaled,
    Fault.NO_UPDATE: Ledger._no_update,
    Fault.UNSCALED_TWICE: Ledger._unscaled_twice,
    Fault.UPDATE_SKIPPED: Ledger._update_skipped,
    Fault.UPDATE_ALONE: Ledger._update_alone,
}
