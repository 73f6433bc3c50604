"""What the rules about waits in the training step share: which waits count, what is read, and one finding a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence
from torchlint.placement.events import Sync
from torchlint.placement.scene import Scene
from torchlint.placement.values import Value
from torchlint.rule import NodeFix, Report, Rule, RuleContext, confidence_of, weakest

#: Files that measure or compare wait on purpose.
_BENCHMARK = re.compile(
    r"(?:^|[/_.-])(?:bench|benchmarks?|profil\w*)(?:[/_.-]|$)|(?:^|/)tests?\.py$", re.IGNORECASE
)


class WaitRule(Rule):
    """A rule about the host waiting for the device in code that runs for every batch.

    A rule says with `concerns` which waits are its own, and what to say of them with `message`.
    """

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._first: dict[tuple[object, ...], cst.CSTNode] = {}
        self.measures = _BENCHMARK.search(self.context.path.replace("\\", "/")) is not None

    def concerns(self, sync: Sync) -> bool:
        """Whether the rule judges this wait."""
        raise NotImplementedError

    def message(self, sync: Sync) -> str:
        """What to say of a wait."""
        raise NotImplementedError

    def fix(self, sync: Sync) -> NodeFix | None:
        """How to do without the wait, where a few edits can."""
        return None

    def on_sync(self, sync: Sync) -> Iterator[Report]:
        if sync.scene.converts or sync.idle:
            return
        if sync.scene.every_step and not sync.demanded and not self.measures and self.concerns(sync):
            yield self.report(sync)

    def report(self, sync: Sync) -> Report:
        """The report of a wait, which further waits for the same value join."""
        sure = self.confidence(sync)
        return self.finding(
            sync, self.message(sync), confidence=sure, cause=self._cause(sync), fix=self.fix(sync)
        )

    def confidence(self, sync: Sync) -> Confidence:
        """How sure it is that the host waits here."""
        if sync.scene.host_program:
            return Confidence.POSSIBLE  # there is no other device to wait for
        if sync.value is None:
            return Confidence.CERTAIN
        decides = sync.decides and not (sync.spared and sync.scene.role in ("forward", "loss"))
        if sync.assumed or sync.skips or (not sync.each and (sync.anyway or decides)):
            return Confidence.POSSIBLE
        return weakest(confidence_of(sync.value.certainty), _of_place(sync.value))

    def _cause(self, sync: Sync) -> cst.CSTNode:
        """The statement with the first wait for the same value in this step, or with another wait."""
        place = place_of(sync.scene)
        keys = [(*place, "in", id(sync.statement))]
        if sync.subject:
            keys.append((*place, "of", sync.subject))
        here = sync.node if sync.statement is None else sync.statement
        cause = next((self._first[key] for key in keys if key in self._first), here)
        for key in keys:
            self._first.setdefault(key, cause)
        return cause


def _of_place(value: Value) -> Confidence:
    """Certain only where the code says that the value may be on an accelerator."""
    named = any(not p.place.is_host for p in value.places) and not value.may_be_on_host
    return Confidence.CERTAIN if named and "assumed" not in value.facts else Confidence.LIKELY


def place_of(scene: Scene) -> tuple[object, ...]:
    """The step that a wait belongs to: the innermost loop that is one, else the function."""
    return (id(scene.function), id(scene.step_loop))
