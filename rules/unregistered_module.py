"""DEV104: a Module keeps other Modules where it does not see them, so that `.to()` leaves them behind."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.findings import Confidence, Safety, Severity
from torchlint.placement.events import Attribute, Move
from torchlint.placement.evidence.sharing import is_shared
from torchlint.placement.values import Certainty, Kind, Value, Where
from torchlint.rule import NodeEdit, NodeFix, Note, Probe, Report, Rule, RuleContext


class UnregisteredModule(Rule):
    """A Module keeps other Modules in a plain list or dict, where `.to()` misses them.

    What it does
        Finds attributes of an `nn.Module` that hold a plain list, tuple or dict of Modules with parameters,
        unless these are registered in another way as well.

    Why it matters
        Only Modules that are attributes, or stand in a ModuleList or ModuleDict, are part of the module: others
        are not moved, not trained and not saved.

    Example
        from torch import nn


        class Heads(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.heads = [nn.Linear(width, 1) for _ in range(3)]  # <-

            def forward(self, x):
                return [head(x) for head in self.heads]

    Use instead
        from torch import nn


        class Heads(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.heads = nn.ModuleList([nn.Linear(width, 1) for _ in range(3)])

            def forward(self, x):
                return [head(x) for head in self.heads]

    Fix
        Unsafe. Wraps the list in nn.ModuleList, the dict in nn.ModuleDict: the parameters then appear in
        state_dicts.

    Verification
        Confirmed where the parameters are not among the module's own; refuted where they are.

    References
        https://pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
        https://github.com/pytorch/pytorch/issues/1053
    """

    code = "DEV104"
    name = "unregistered-module"
    severity = Severity.ERROR
    probe = Probe("unregistered")
    explains = ("DEV102", "DEV201")

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[tuple[int, str], Attribute] = {}
        #: Whether each attribute never holds more than a single Module.
        self._alone: dict[tuple[int, str], bool] = {}
        self._moved: set[cst.CSTNode] = set()
        #: Where the Modules were built that are registered somewhere.
        self._seen: set[cst.CSTNode] = set()

    def on_move(self, move: Move) -> None:
        self._moved.update(p.origin for p in move.value.places if p.origin is not None)

    def on_attribute(self, attribute: Attribute) -> Iterator[Report]:
        if attribute.how == "dict":
            yield from self._hidden(attribute)
        elif attribute.value.kind is Kind.MODULE:
            self._seen.update(_origins(attribute.value))
        elif attribute.how in ("assign", "append") and attribute.owner.is_module:  # type: ignore[attr-defined]
            key, node = (id(attribute.owner), attribute.name), attribute.value_node
            alone = attribute.how == "assign" and _holds_one(node)
            self._alone[key] = self._alone.get(key, True) and alone
            if _kept_modules(attribute.value) is not None:
                self._found.setdefault((id(attribute.owner), attribute.name), attribute)

    def _hidden(self, attribute: Attribute) -> Iterator[Report]:
        """What is put into `__dict__` under a computed name goes past `__setattr__`; a fixed name is on purpose."""
        owner, value = attribute.owner, attribute.value
        if not owner.is_known_module or attribute.name or attribute.scene.role != "init":  # type: ignore[attr-defined]
            return
        if value.kind in (Kind.MODULE, Kind.UNKNOWN):
            message = "what is put into `__dict__` is not registered: if it is a Module, `.to()` does not see it"
            yield self.finding(attribute, message, confidence=Confidence.LIKELY)

    def finish(self) -> Iterator[Report]:
        for attribute in self._found.values():
            kept = _kept_modules(attribute.value)
            registered = attribute.owner.registered  # type: ignore[attr-defined]
            if kept is None or attribute.name in registered or "*" in registered:
                continue
            if kept.origin in self._moved or kept.origin in self._seen:
                continue
            node = attribute.node
            target = f"self.{attribute.name}"
            message = f"`{target}` is a plain {_container(attribute.value)} of Modules: `.to()`, `parameters()` and"
            message += " `state_dict()` do not see them"
            how = "given" if all(p.place.where is Where.OF_CALLER for p in kept.places) else "built"
            notes = [] if kept.origin is None else [Note("origin", kept.origin, f"the Module is {how} here")]
            sure = Confidence.POSSIBLE if self._is_on_purpose(attribute) else Confidence.LIKELY
            yield self.finding(node, message, confidence=sure, notes=notes, fix=self._fix(attribute), cause=node)

    def _is_on_purpose(self, attribute: Attribute) -> bool:
        """Whether nothing reads the list, or a single Module is hidden in it, as one does with what others register."""
        owner, name = attribute.owner, attribute.name
        alone = self._alone.get((id(owner), name), False)
        if attribute.how == "assign" and attribute.scene.role in ("forward", "loss", "step"):
            return True  # a cache, made when it is first needed
        if alone or name not in owner.run.usage.mentions:  # type: ignore[attr-defined]
            return True
        # What gets the list, or a Module of it, may register it.
        return any(is_shared(cls.node, name) for cls in owner.lineage())  # type: ignore[attr-defined]

    def _fix(self, attribute: Attribute) -> NodeFix | None:
        if attribute.how != "assign" or attribute.value_node is None:
            return None
        wrapper = "nn.ModuleDict" if attribute.value.kind is Kind.MAPPING else "nn.ModuleList"
        code = self.context.code(attribute.value_node)
        edit = NodeEdit(attribute.value_node, "replace", f"{wrapper}({code})")
        return NodeFix(f"wrap it in {wrapper}", Safety.UNSAFE, (edit,))


def _holds_one(node: cst.BaseExpression | None) -> bool:
    """Whether an expression is a list of a single thing, be it under a condition: `[x] if x else []`."""
    if type(node) is cst.IfExp:
        lists = [n for n in (node.body, node.orelse) if type(n) is not cst.List or n.elements]
        return bool(lists) and all((type(n) is cst.Name and n.value == "None") or _holds_one(n) for n in lists)
    return type(node) is cst.List and len(node.elements) == 1 and type(node.elements[0]) is cst.Element


def _container(value: Value) -> str:
    return "dict" if value.kind is Kind.MAPPING else "list"


def _origins(value: Value) -> set[cst.CSTNode]:
    """Where a Module, or one that it holds, was built."""
    parts = (value, *(value.items or ()), *([value.element] if value.element is not None else []))
    return {p.origin for part in parts for p in part.places if p.origin is not None}


def _kept_modules(value: Value) -> Value | None:
    """A Module with parameters on the CPU that a list or dict holds, or one that a constructor's annotation promises;
    None where it holds none for certain."""
    if value.kind not in (Kind.SEQUENCE, Kind.MAPPING) or value.element is None:
        return None
    inner = value.element
    given = inner.certainty is Certainty.KNOWN and all(p.place.where is Where.OF_CALLER for p in inner.places)
    if inner.kind is Kind.MODULE and (inner.on_host or (inner.places and given)):
        return inner
    return _kept_modules(inner)
