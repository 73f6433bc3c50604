"""The mixed-precision protocol as an automaton: autocast, scale, backward, unscale_, clip, step, update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.events import Autocast, Backward, Event, Fault, GradUse, Scaler, Step
from torchlint.placement.protocols.faults import At, Ledger
from torchlint.placement.protocols.paths import Automaton, Walk, Ways
from torchlint.placement.syntax import children, dotted
from torchlint.placement.values import Kind, Value

#: What a value carries: ("half", the autocast region's node), (SCALED, the call that scaled it).
Mark = tuple[str, "cst.CSTNode | None"]
Marks = frozenset[Mark]
SCALED = "scaled"
#: By hand, or by something that only its name tells of: silences, and never accuses.
PERHAPS: Mark = ("perhaps scaled", None)
NONE: Marks = frozenset()

#: Methods and functions whose result hangs on no graph.
_CUTTING_METHODS = frozenset(["detach", "item", "tolist", "numpy", "zeros_like", "ones_like"])
_CUTTING_FUNCTIONS = frozenset(["len", "int", "float", "bool", "str", "round", "range", "print"])
#: What a GradScaler is called for.
_OPERATIONS = frozenset(["scale", "unscale_", "step", "update"])
#: Functions that are given a scaler and leave its state alone.
_HARMLESS = (
    "save",
    "load",
    "checkpoint",
    "log",
    "print",
    "state",
    "resume",
    "restore",
    "len",
    "isinstance",
    "format",
    "write",
)
#: Words in the names of functions that may run a part of the protocol.
_PROTOCOL_WORDS = ("step", "scal", "optim", "backward", "hook", "callback", "dispatch", "update", "amp")


class State(NamedTuple):
    """What a path did so far.

    scaled, plain: the last backward since gradients were zeroed or used, with and without the scaler; half:
    the region that the plain one's loss comes from. clipped: a clip of gradients that are still scaled.
    unscaled, stepped: (scaler, optimizer, where) since the scaler's update. applied: what scaler.step applied
    since the last backward. owned: a framework's backward. early: a jump that skipped an update.
    opaque: code that is not seen may have done anything.
    """

    marks: frozenset[tuple[str, Mark]] = frozenset()
    results: frozenset[tuple[cst.CSTNode, Mark]] = frozenset()
    returned: Marks = NONE
    scaled: At | None = None
    plain: At | None = None
    half: cst.CSTNode | None = None
    clipped: At | None = None
    unscaled: frozenset[tuple[str, str, At]] = frozenset()
    stepped: frozenset[tuple[str, str, At]] = frozenset()
    applied: frozenset[tuple[str, At]] = frozenset()
    owned: At | None = None
    early: At | None = None
    opaque: bool = False

    def forget_gradients(self) -> State:
        return self._replace(scaled=None, plain=None, half=None, clipped=None)


class Amp(Automaton):
    """Runs over one function; what it saw stands in `ledger`."""

    def __init__(
        self,
        events: Mapping[cst.CSTNode, list[Event]],
        called: Mapping[cst.CSTNode, Function],
        contexts: Mapping[cst.CSTNode, tuple[Value, cst.FunctionDef | None]],
        relevant: Callable[[Function], bool],
    ) -> None:
        self.events = events
        self.called = called
        self.contexts = contexts
        self.relevant = relevant
        self.ledger = Ledger()
        self.regions: list[Autocast | str] = []

    # ------------------------------------------------------------------ hooks

    def concerns(self, node: cst.CSTNode) -> bool:
        if node in self.events:
            return True
        if type(node) is cst.WithItem:
            return self._region(node) is not None
        if type(node) is not cst.Call:
            return False
        function = self.called.get(node)
        if function is not None and self.relevant(function):
            return True
        return _operation(node) != "" or _zeroes(node) or self._is_suspicious(node)

    def visit(self, node: cst.CSTNode, ways: Ways, walk: Walk) -> Ways:
        for event in self.events.get(node, ()):
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                at = At(node, tuple(walk.calls))
                self.ledger.guards[node] = tuple(walk.guards)
                ways = frozenset(w._replace(state=handler(self, event, at, w.state, walk)) for w in ways)
        if node not in self.events and type(node) is cst.Call and self._is_known_scaler(node, walk):
            at = At(node, tuple(walk.calls))
            self.ledger.guards[node] = tuple(walk.guards)
            ways = frozenset(
                w._replace(state=self._operate(node, _operation(node), at, w.state, walk)) for w in ways
            )
        if type(node) is cst.Call:
            ways = self._call(node, ways, walk)
        return ways

    def assign(
        self, target: cst.CSTNode, value: cst.BaseExpression | None, state: State, walk: Walk, weak: bool
    ) -> State:
        marks = NONE if value is None else self.marks(value, state, walk)
        names = frozenset(walk.scope.key(n) for n in _target_names(target))
        if not names:
            return state
        kept = state.marks if weak else frozenset(m for m in state.marks if not _below(m[0], names))
        if not weak:
            state = _rebound(state, names)
        return state._replace(marks=kept | {(n, m) for n in names for m in marks})

    def returned(self, node: cst.Return | None, state: State, walk: Walk) -> State:
        marks = NONE if node is None or node.value is None else self.marks(node.value, state, walk)
        prefix = walk.scope.prefix
        if not prefix and walk.scope.function is not None and not state.opaque:
            if node is not None:
                self.ledger.guards[node] = tuple(walk.guards)
            for _, _, at in state.unscaled:
                if not any(o == e for _, o, _ in state.stepped for _, e, _ in state.unscaled):
                    self.ledger.left[at.node, node] = at
        kept = frozenset(m for m in state.marks if prefix not in m[0]) if prefix else state.marks
        return state._replace(returned=marks, marks=kept)

    def statement_ends(self, state: State) -> State:
        return state._replace(results=frozenset()) if state.results else state

    def enter(self, item: cst.WithItem) -> object:
        region = self._region(item)
        if region is not None:
            self.regions.append(region)
        return region

    def _region(self, item: cst.WithItem) -> Autocast | str | None:
        """The autocast or the mode of gradients that a `with` item begins; None for others."""
        context, _ = self.contexts.get(item.item, (None, None))
        if context is None or context.kind is not Kind.CONTEXT:
            return None
        return context.ref if isinstance(context.ref, Autocast) else context.name

    def leave(self, entered: object) -> None:
        if entered is not None:
            self.regions.pop()

    def back_edge(self, state: State, jump: cst.CSTNode | None, walk: Walk) -> State:
        if jump is not None and state.unscaled and state.early is None:
            self.ledger.guards[jump] = tuple(walk.guards)
            return state._replace(early=At(jump, tuple(walk.calls)))
        return state

    # ------------------------------------------------------------------ marks

    def marks(self, node: cst.CSTNode, state: State, walk: Walk) -> Marks:
        """What an expression's value carries."""
        kind = type(node)
        if kind in (cst.Name, cst.Attribute):
            name = dotted(node)
            if name is not None:
                key = walk.scope.key(name)
                return frozenset(m for n, m in state.marks if n == key or key.startswith(f"{n}."))
            return self.marks(node.value, state, walk)  # type: ignore[attr-defined]
        if kind is cst.Call:
            return self._marks_of_call(node, state, walk)  # type: ignore[arg-type]
        if kind in (cst.Lambda, cst.Comparison):
            return NONE
        if kind is cst.BinaryOperation and type(node.operator) is cst.Multiply:  # type: ignore[attr-defined]
            sides = (node.left, node.right)  # type: ignore[attr-defined]
            if any(_scales_by_hand(walk.scope.text(s)) for s in sides):
                return NONE.union(*(self.marks(s, state, walk) for s in sides)) | {PERHAPS}
        found = NONE
        for child in children(node):
            found |= self.marks(child, state, walk)
        return found

    def _marks_of_call(self, node: cst.Call, state: State, walk: Walk) -> Marks:
        known = frozenset(m for n, m in state.results if n is node)
        if known:
            return frozenset(m for m in known if m[0] != "nothing")
        if type(node.func) is cst.Attribute:
            name = node.func.attr.value
            if name in _CUTTING_METHODS:
                return NONE
            found = self.marks(node.func.value, state, walk)
        else:
            name = dotted(node.func) or ""
            if name in _CUTTING_FUNCTIONS:
                return NONE
            found = NONE
        for arg in node.args:
            found |= self.marks(arg.value, state, walk)
        for event in self.events.get(node, ()):
            if isinstance(event, Scaler) and event.op == "scale":
                return found if "off" in event.value.facts else found | {(SCALED, node)}
        if name == "scale" and self._is_known_scaler(node, walk):
            return found | {(SCALED, node)}
        if "scale" in name.lower():
            return found | {PERHAPS}
        region = self._half_region()
        return found if region is None else found | {("half", region)}

    def _half_region(self) -> cst.CSTNode | None:
        """The float16 autocast that holds here, where gradients are kept."""
        if any(r in ("no_grad", "inference_mode") for r in self.regions):
            return None
        for region in reversed(self.regions):
            if isinstance(region, Autocast):
                sure = region.enabled == "yes" and region.half and not region.scene.no_grad
                return region.node if sure else None
        return None

    # ------------------------------------------------------------------ calls

    def _call(self, node: cst.Call, ways: Ways, walk: Walk) -> Ways:
        function = self.called.get(node)
        if function is not None and self.relevant(function):
            return self._followed(function, node, ways, walk)
        if _zeroes(node):
            return frozenset(w._replace(state=w.state.forget_gradients()) for w in ways)
        if self._is_suspicious(node):
            return frozenset(w._replace(state=self._unseen(node, w.state)) for w in ways)
        return ways

    def _followed(self, function: Function, node: cst.Call, ways: Ways, walk: Walk) -> Ways:
        receiver = walk.scope.text(node.func.value) if type(node.func) is cst.Attribute else ""
        if function.owner is not None and type(node.func) is not cst.Attribute:
            receiver = walk.scope.text(node.func)  # an instance is called
        if function.owner is not None and receiver.startswith("super"):
            receiver = walk.scope.self_key
        # The marks of arguments pass by name into the parameters.
        region = self._decorating_region(function)
        if region is not None:
            self.regions.append(region)
        entering = frozenset(
            w._replace(state=self._with_arguments(function, node, w.state, walk)) for w in ways
        )
        back = walk.follow(function, node, receiver if function.owner is not None else "", entering)
        if region is not None:
            self.regions.pop()
        if back is None:
            return frozenset(w._replace(state=self._unseen(node, w.state)) for w in ways)
        return frozenset(w._replace(state=_with_result(w.state, node)) for w in back)

    def _with_arguments(self, function: Function, node: cst.Call, state: State, walk: Walk) -> State:
        """A parameter stands for a text; marks of composite arguments are kept under that text."""
        more = set()
        for arg in node.args:
            if dotted(arg.value) is None:
                text = walk.scope.text(arg.value)
                more |= {(text, m) for m in self.marks(arg.value, state, walk)}
        return state._replace(marks=state.marks | more) if more else state

    def _decorating_region(self, function: Function) -> Autocast | None:
        for decorator in function.node.decorators:
            for event in self.events.get(decorator.decorator, ()):
                if isinstance(event, Autocast):
                    return event
        return None

    def _is_suspicious(self, node: cst.Call) -> bool:
        """Whether code that is not seen may run a part of the protocol here."""
        if node in self.events or self._is_harmless(node):
            return False
        name = _called_name(node)
        if "scaler" in name or "unscale" in name:
            return bool(node.args) and not _makes(node)
        function = self.called.get(node)
        if function is not None and self.relevant(function):
            return False
        if any("scaler" in (dotted(a.value) or "").lower() for a in node.args):
            return True
        of_self = type(node.func) is cst.Attribute and dotted(node.func.value) == "self"
        seen = function is not None
        return of_self and not seen and any(word in name for word in _PROTOCOL_WORDS)

    def _is_harmless(self, node: cst.Call) -> bool:
        name = _called_name(node)
        return any(word in name for word in _HARMLESS) or name in ("get_scale", "is_enabled", "gradscaler")

    def _unseen(self, node: cst.Call, state: State) -> State:
        self.ledger.spare(state)
        if "unscale" in _called_name(node):
            return state._replace(clipped=None, scaled=None)
        return State(marks=state.marks, results=state.results, opaque=True)

    # ------------------------------------------------------------------ what happens

    def _on_backward(self, event: Backward, at: At, state: State, walk: Walk) -> State:
        marks = self.marks(event.loss, state, walk) if event.loss is not None else NONE
        by = [node for word, node in marks if word == SCALED]
        if event.scaled or by:
            self.ledger.scales = True
            self.ledger.scaled_by.setdefault(at.node, set()).update(n for n in by if n is not None)
            self.ledger.half_scaled.update(n for word, n in marks if word == "half" and n is not None)
            return state._replace(scaled=at, clipped=None, applied=frozenset())
        if PERHAPS in marks:
            self.ledger.spare(state)
            return state.forget_gradients()._replace(applied=frozenset())
        if event.owner:
            self.ledger.spare(state)
            return state._replace(owned=at, plain=None, scaled=None, clipped=None, applied=frozenset())
        half = next((n for word, n in marks if word == "half"), None)
        return state._replace(plain=at, half=half, applied=frozenset())

    def _is_known_scaler(self, node: cst.Call, walk: Walk) -> bool:
        """Whether an operation of a scaler is called on what was seen to be one elsewhere on the way."""
        if not _operation(node) or type(node.func) is not cst.Attribute:
            return False
        return walk.scope.text(node.func.value) in self.ledger.known

    def _on_scaler(self, event: Scaler, at: At, state: State, walk: Walk) -> State:
        node = event.node
        if "off" in event.value.facts or type(node) is not cst.Call or event.op == "new":
            return state
        self.ledger.scalers[node] = event
        return self._operate(node, event.op, at, state, walk)

    def _operate(self, node: cst.Call, operation: str, at: At, state: State, walk: Walk) -> State:
        scaler = walk.scope.text(node.func.value) if type(node.func) is cst.Attribute else ""
        optimizer = walk.scope.text(node.args[0].value) if node.args else ""
        self.ledger.known.add(scaler)
        if state.owned is not None and operation != "scale" and state.scaled is None:
            self.ledger.claim(Fault.OWNED, state.owned, at, state)
        if operation == "unscale_":
            return self._unscale(scaler, optimizer, at, state)
        if operation == "step":
            return self._scaler_step(scaler, optimizer, at, state)
        if operation == "update":
            return self._update(scaler, at, state)
        self.ledger.scales = True
        return state

    def _unscale(self, scaler: str, optimizer: str, at: At, state: State) -> State:
        ledger = self.ledger
        for s, o, before in state.unscaled:
            if (s, o) == (scaler, optimizer):
                if state.early is not None:
                    ledger.claim(Fault.UPDATE_SKIPPED, before, state.early, state, at)
                else:
                    ledger.claim(Fault.UNSCALED_TWICE, before, at, state)
        for s, o, before in state.stepped:
            if (s, o) == (scaler, optimizer):
                ledger.claim(Fault.UNSCALED_LATE, before, at, state)
        if state.scaled is not None and state.clipped is None:
            ledger.unscaled_well.add(state.scaled.node)
        return state._replace(unscaled=state.unscaled | {(scaler, optimizer, at)}, clipped=None)

    def _scaler_step(self, scaler: str, optimizer: str, at: At, state: State) -> State:
        ledger = self.ledger
        ledger.steps.add(at.node)
        for s, o, before in state.stepped:
            if (s, o) == (scaler, optimizer):
                ledger.claim(Fault.NO_UPDATE, before, at, state)
        if state.clipped is not None:
            ledger.clip_steps[state.clipped.node] = at
        if state.scaled is not None:
            ledger.stepped_well.add(state.scaled.node)
        elif state.plain is not None and not state.opaque:
            ledger.claim(Fault.NEVER_SCALED, state.plain, at, state)
        after = state.forget_gradients()
        return after._replace(
            stepped=state.stepped | {(scaler, optimizer, at)}, applied=state.applied | {(optimizer, at)}
        )

    def _update(self, scaler: str, at: At, state: State) -> State:
        self.ledger.updates.add(at.node)
        if state.scaled is not None and not state.stepped and not state.unscaled:
            self.ledger.claim(Fault.UPDATE_ALONE, state.scaled, at, state)
        known = {s for s, _, _ in (*state.stepped, *state.unscaled)}
        mine = {scaler} if scaler in known else known
        return state._replace(
            scaled=None,
            stepped=frozenset(e for e in state.stepped if e[0] not in mine),
            unscaled=frozenset(e for e in state.unscaled if e[0] not in mine),
            early=None,
        )

    def _on_grad_use(self, event: GradUse, at: At, state: State, walk: Walk) -> State:
        if state.scaled is None or state.unscaled or not event.api.startswith("clip"):
            return state
        self.ledger.claim(Fault.SCALED_CLIP, state.scaled, at, state)
        return state._replace(clipped=at)

    def _on_step(self, event: Step, at: At, state: State, walk: Walk) -> State:
        node = event.node
        optimizer = ""
        if type(node) is cst.Call and type(node.func) is cst.Attribute:
            optimizer = walk.scope.text(node.func.value)
        ledger = self.ledger
        if "owned" in event.value.facts or state.owned is not None:
            return state.forget_gradients()
        for applied, before in state.applied:
            if applied == optimizer:
                ledger.claim(Fault.SECOND_STEP, before, at, state)
        if state.scaled is not None:
            if any(o == optimizer for _, o, _ in state.unscaled):
                ledger.stepped_well.add(state.scaled.node)
            else:
                ledger.claim(Fault.PLAIN_STEP, state.scaled, at, state)
        elif state.plain is not None:
            if state.half is not None:
                ledger.claim(Fault.HALF_UNSCALED, At(state.half, state.plain.calls), state.plain, state, at)
        return state.forget_gradients()


_HANDLERS: dict[type[Event], Callable[[Amp, Any, At, State, Walk], State]] = {
    Backward: Amp._on_backward,
    Scaler: Amp._on_scaler,
    GradUse: Amp._on_grad_use,
    Step: Amp._on_step,
}


def _with_result(state: State, call: cst.Call) -> State:
    """What a followed call returned, for the rest of the statement."""
    marks = state.returned or frozenset({("nothing", None)})
    return state._replace(returned=NONE, results=state.results | {(call, m) for m in marks})


def _rebound(state: State, names: frozenset[str]) -> State:
    """Entries of optimizers and scalers whose names are bound anew are about others from now on."""

    def kept(entries: frozenset[Any], width: int) -> frozenset[Any]:
        return frozenset(e for e in entries if not any(_is_below(part, names) for part in e[:width]))

    if not (state.unscaled or state.stepped or state.applied):
        return state
    return state._replace(
        unscaled=kept(state.unscaled, 2), stepped=kept(state.stepped, 2), applied=kept(state.applied, 1)
    )


def _is_below(key: str, names: Iterable[str]) -> bool:
    return any(key == n or key.startswith((f"{n}.", f"{n}[")) for n in names)


def _below(key: str, names: Iterable[str]) -> bool:
    return any(key == n or key.startswith(f"{n}.") for n in names)


def _target_names(target: cst.CSTNode) -> list[str]:
    name = dotted(target)
    if name is not None:
        return [name]
    if type(target) in (cst.Tuple, cst.List):
        return [n for e in target.elements for n in _target_names(e.value)]  # type: ignore[attr-defined]
    if type(target) is cst.StarredElement:
        return _target_names(target.value)
    return []


def _operation(node: cst.Call) -> str:
    """The operation of a scaler that a call may be; empty where it is none."""
    name = node.func.attr.value if type(node.func) is cst.Attribute else ""
    if name not in _OPERATIONS or (name != "update" and not node.args):
        return ""
    return name


def _zeroes(node: cst.Call) -> bool:
    return type(node.func) is cst.Attribute and node.func.attr.value == "zero_grad"


def _makes(node: cst.Call) -> bool:
    """Whether a call is the making of something rather than its use."""
    last = (dotted(node.func) or "").rpartition(".")[2]
    return last[:1].isupper() or last.lower().startswith(("make", "get", "create", "build", "setup", "init"))


def _called_name(node: cst.Call) -> str:
    func = node.func
    if type(func) is cst.Attribute:
        return func.attr.value.lower()
    return (dotted(func) or "").lower()


def _scales_by_hand(text: str) -> bool:
    """Whether a factor is a loss scale kept by hand."""
    if text.replace(".", "").isdigit():
        return float(text) > 8
    return "scale" in text.lower()
