"""Run the automata over the functions that have something of their protocol, and emit what stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.events import Autocast, Backward, Event, Fault, GradUse, Protocol, Scaler, Step
from torchlint.placement.protocols.amp import Amp, State
from torchlint.placement.protocols.faults import Claim, Ledger
from torchlint.placement.protocols.paths import TooManyPaths, Walk
from torchlint.placement.protocols.renewal import made_anew
from torchlint.placement.protocols.upkeep import half_parameters, never_updated
from torchlint.placement.scene import Scene
from torchlint.placement.values import Kind

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

_OF_AMP = (Scaler, Backward, Step, GradUse, Autocast)
#: Libraries that scale losses themselves, or hand out optimizers and engines that do.
_OWNERS = {
    *("accelerate", "lightning", "pytorch_lightning", "lightning_fabric", "deepspeed", "colossalai", "apex"),
    *("mmcv", "mmengine", "composer", "fairscale", "ignite", "fastai", "catalyst", "megatron"),
}


def observe_protocols(run: Interpreter) -> None:
    """Judge the mixed-precision protocol of every function of a module that was interpreted."""
    if run.silent or run.kinds.isdisjoint((Scaler, Autocast, Backward)):
        return
    by_node: defaultdict[cst.CSTNode, list[Event]] = defaultdict(list)
    for event in run.events.values():
        if isinstance(event, _OF_AMP):
            by_node[event.node].append(event)
    kinds = (Scaler, Autocast)
    if not any(
        isinstance(e, kinds) or (isinstance(e, Backward) and e.scaled) for es in by_node.values() for e in es
    ):
        return
    _Judge(run, dict(by_node)).judge()
    for event in (*made_anew(run), *never_updated(run), *half_parameters(run)):
        run.emit(event, event.fault)


class _Judge:
    def __init__(self, run: Interpreter, by_node: dict[cst.CSTNode, list[Event]]) -> None:
        self.run = run
        self.by_node = by_node
        self._relevance: dict[int, bool] = {}
        self._nodes: dict[int, list[cst.CSTNode]] = {}
        self.owners = {
            v.name.split(".")[0] for v in run.globals.values() if v.kind is Kind.API and v.name
        } & _OWNERS
        #: Functions with an autocast region, wherever its context is made.
        self._regions: set[int] = set()
        #: Functions with a loop that holds something of the protocol.
        self._looping: set[int] = set()
        self.roots: dict[int, tuple[cst.FunctionDef | None, Scene]] = {}
        for events in by_node.values():
            for event in events:
                self._note(event)
        for node, (value, around) in run.contexts.items():
            if isinstance(value.ref, Autocast):
                self._regions.add(id(around))
                self._nodes.setdefault(id(around), []).append(node)
        for event in run.events.values():
            function = run.called.get(event.node)
            if function is not None:
                self._note(event)

    def _note(self, event: Event) -> None:
        function = event.scene.function
        self.roots.setdefault(id(function), (function, event.scene))
        self._nodes.setdefault(id(function), []).append(event.node)
        if event.scene.loops:
            self._looping.add(id(function))

    def relevant(self, function: Function) -> bool:
        """Whether a call of a function takes part in the protocol of its caller.

        A training loop is complete in itself: it is judged by itself, and its callers are not.
        """
        if function.run is not self.run:
            return False
        key = id(function.node)
        known = self._relevance.get(key)
        if known is None:
            self._relevance[key] = False  # of functions that call each other
            known = not self._is_complete(key) and (
                key in self._regions
                or any(n in self.by_node for n in self._nodes.get(key, ()))
                or any(self.relevant(called) for called in self._called_by(key))
                or any(d.decorator in self.by_node for d in function.node.decorators)
            )
            self._relevance[key] = known
        return known

    def _called_by(self, key: int) -> Iterable[Function]:
        return (self.run.called[n] for n in self._nodes.get(key, ()) if n in self.run.called)

    def _is_complete(self, key: int) -> bool:
        """Whether a function holds a loop and, calls included, a backward and a step of an optimizer."""
        if key not in self._looping:
            return False
        return self._has_backward_and_step(key, set())

    def _has_backward_and_step(self, key: int, seen: set[int]) -> bool:
        found = self._ops_of(key, seen)
        return "backward" in found and ("step" in found or {"scaler.step", "scaler.update"} <= found)

    def _ops_of(self, key: int, seen: set[int]) -> set[str]:
        if key in seen:
            return set()
        seen.add(key)
        found: set[str] = set()
        for node in self._nodes.get(key, ()):
            for event in self.by_node.get(node, ()):
                name = type(event).__name__.lower()
                found.add(f"scaler.{event.op}" if isinstance(event, Scaler) else name)
        for called in self._called_by(key):
            if called.run is self.run:
                found |= self._ops_of(id(called.node), seen)
        return found

    def judge(self) -> None:
        amp = Amp(self.by_node, self.run.called, self.run.contexts, self.relevant)
        walk = Walk(amp, self.run.module.code_for_node)
        for key, (function, scene) in self.roots.items():
            if not self._is_worth(key):
                continue
            amp.ledger, amp.regions = Ledger(), []
            if function is None:
                body: Iterable[cst.CSTNode] = self.run.module.body
                receiver = ""
            else:
                body, receiver = function.body.body, "self" if scene.owner is not None else ""
            try:
                walk.run(function, body, State(), receiver)
            except (TooManyPaths, RecursionError):
                continue
            self._emit(amp.ledger, function)

    def _is_worth(self, key: int) -> bool:
        """Whether a function can show a fault: it takes two steps of the protocol, calls included."""
        found = self._ops_of(key, set())
        return bool(
            found & {"scaler.step", "scaler.update", "scaler.unscale_", "step", "graduse"}
        ) and "backward" in found | {"backward" for f in found if f.startswith("scaler.")}

    def _emit(self, ledger: Ledger, function: cst.FunctionDef | None) -> None:
        owned: list[Claim] = []
        for claim in ledger.standing():
            if claim.fault is Fault.OWNED:
                if "accelerate" in self.owners:
                    owned.append(claim)
                continue
            if claim.fault is Fault.HALF_UNSCALED and (self.owners or self._mentions_scaler(function)):
                continue
            if claim.fault is Fault.UNSCALED_TWICE and claim.start.node is claim.end.node and self._is_made_anew(claim):
                continue
            self._emit_claim(ledger, claim)
        if owned:
            self._emit_claim(ledger, owned[0], owned[1:])

    def _is_made_anew(self, claim: Claim) -> bool:
        """Whether a loop around what one node does makes its scalers, so that the next round has another one."""
        scene = self._scene(claim)
        made = (e for es in self.by_node.values() for e in es if isinstance(e, Scaler) and e.op == "new")
        return any(e.scene.function is scene.function and e.scene.loops[-1:] == scene.loops[-1:] != () for e in made)

    def _mentions_scaler(self, function: cst.FunctionDef | None) -> bool:
        """Whether a name speaks of a scaler that may be at work without being seen."""
        usage = self.run.usage.of(function)
        return any("scaler" in n.lower() for n in (*usage.loads, *usage.attributes, *usage.assigned))

    def _emit_claim(self, ledger: Ledger, claim: Claim, others: Iterable[Claim] = ()) -> None:
        node = claim.node
        places = [(_WORDS[claim.fault][0], claim.start), (_WORDS[claim.fault][1], claim.end)]
        if claim.more is not None:
            places.append((_WORDS[claim.fault][2], claim.more))
        places += [(_WORDS[claim.fault][1], other.end) for other in others]
        trace = tuple(dict.fromkeys((words, at.node) for words, at in places if at.node is not node))
        scaler, optimizer = self._names(ledger, claim)
        event = Protocol(
            node,
            self._scene(claim),
            claim.fault,
            ledger.every(claim),
            trace,
            scaler,
            optimizer,
            ledger.certainty(claim),
        )
        self.run.emit(event, claim.fault)

    def _scene(self, claim: Claim) -> Scene:
        for at in (claim.end, claim.start, claim.more):
            for event in self.by_node.get(at.node, ()) if at is not None else ():
                return event.scene
        return Scene()

    def _names(self, ledger: Ledger, claim: Claim) -> tuple[str, str]:
        """What the scaler and the optimizer are called at the accused node; empty where that is not known."""
        code = self.run.module.code_for_node
        calls = claim.end.calls
        candidates = [ledger.clip_steps.get(claim.end.node), claim.end, claim.start, claim.more]
        if claim.node is not claim.end.node and claim.node is not claim.start.node:
            return "", ""
        for at in candidates:
            if at is None or at.calls != calls or at.node not in ledger.scalers:
                continue
            node = at.node
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                first = node.args[0].value if node.args else None
                named = ledger.scalers[node].op in ("step", "unscale_") and first is not None
                return code(node.func.value).strip(), code(
                    first
                ).strip() if named and first is not None else ""
        return "", ""


_WORDS: dict[Fault, tuple[str, str, str]] = {
    Fault.HALF_UNSCALED: (
        "the loss is computed in float16 here",
        "its gradients are not scaled",
        "and are applied here",
    ),
    Fault.NEVER_SCALED: ("the loss is not scaled here", "the scaler steps here", ""),
    Fault.PLAIN_STEP: ("the loss is scaled here", "the optimizer steps here", ""),
    Fault.SECOND_STEP: ("the scaler has stepped here", "the optimizer steps again here", ""),
    Fault.SCALED_CLIP: ("the gradients are scaled since here", "they are clipped here", ""),
    Fault.NO_UPDATE: ("the scaler stepped here before", "it steps again here", ""),
    Fault.UPDATE_SKIPPED: (
        "gradients are unscaled here",
        "update is skipped here",
        "the next unscale_ raises here",
    ),
    Fault.UNSCALED_TWICE: ("gradients are unscaled here", "and once more here", ""),
    Fault.UNSCALED_LATE: ("the scaler stepped here before", "gradients are unscaled here", ""),
    Fault.UPDATE_ALONE: ("the loss is scaled here", "the scaler is updated here", ""),
    Fault.OWNED: ("the framework scales and unscales here", "the scaler is used beside it here", ""),
}
