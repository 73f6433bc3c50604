"""The base class of rules, what a rule says about a node, and how rules are found."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torchlint.findings import Confidence, Safety, Severity

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.placement.events import Event
    from torchlint.placement.values import Certainty


@dataclass(frozen=True)
class NodeEdit:
    """A change said in terms of a node; it becomes a text edit once the node's place is known.

    how: `replace` the node's text; insert `before` or `after` it; `argument`: add `text` as the last
    argument of the call `node`; `line-before`: put `text` on a line of its own above the statement that
    holds the node, indented like it; `line-after`: the same below it; `delete-statement`: remove the statement,
    with its line if it stands alone; `import`: make sure that the line `text` stands among the imports (the node
    is ignored).
    """

    node: cst.CSTNode
    how: str
    text: str = ""


@dataclass(frozen=True)
class NodeFix:
    """A fix said in terms of nodes."""

    message: str
    safety: Safety
    edits: tuple[NodeEdit, ...]


@dataclass(frozen=True)
class Note:
    """A related place of a finding: role `origin`, `also` or `context`, the node, and a few words."""

    role: str
    node: cst.CSTNode
    message: str


@dataclass(frozen=True)
class Report:
    """What a rule says about a node: a finding before its place in the text is known."""

    rule: type[Rule]
    node: cst.CSTNode
    message: str
    confidence: Confidence
    severity: Severity
    notes: tuple[Note, ...] = ()
    fix: NodeFix | None = None
    #: The node that caused it; reports of one cause are one finding (see `Rule.explains`).
    cause: cst.CSTNode | None = None
    #: Facts for the verifier (what was accused, what the finding itself assumes); JSON values only.
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleContext:
    """What a rule may know beside its events: the file, and what the settings say about fixes."""

    path: str
    module: cst.Module
    device_expression: str | None = None
    min_torch: tuple[int, int] = (2, 0)
    options: Mapping[str, Any] = field(default_factory=dict)

    def code(self, node: cst.CSTNode) -> str:
        """The source text of a node, without surrounding white space."""
        return self.module.code_for_node(node).strip()


class Probe(NamedTuple):
    """What a replay looks for to confirm or refute a rule's findings.

    kind: one of `torchlint.verify.probes.KINDS`, which is not loaded before something is replayed. options: fields
    of it.
    """

    kind: str
    options: Mapping[str, Any] = MappingProxyType({})


class Rule:
    """A rule listens to events by methods named after them, `on_move`, `on_mix`, …, and yields reports.

    One instance serves one file, so that a rule may gather places and judge in `finish`.
    The class docstring is the documentation (torchlint/explain.py says how it is written) and holds the examples
    that test it.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    #: Runs unless it is switched off.
    default: ClassVar[bool] = True
    #: Codes of rules whose finding is dropped where one of this rule has the same cause.
    explains: ClassVar[tuple[str, ...]] = ()
    #: Byte strings; a file that holds none of any selected rule's is not even parsed. Empty: the common ones.
    triggers: ClassVar[tuple[bytes, ...]] = ()
    #: What [tool.torchlint.rules.CODE] may set: each option with its default, whose type the value must have.
    options: ClassVar[Mapping[str, Any]] = {}
    #: How `--verify` tells whether a finding is real; without one its findings have no verdict.
    probe: ClassVar[Probe | None] = None

    def __init__(self, context: RuleContext) -> None:
        self.context = context

    def finish(self) -> Iterable[Report]:
        """Called once after the last event of a file."""
        return ()

    def finding(
        self,
        at: Event | cst.CSTNode,
        message: str,
        *,
        confidence: Confidence = Confidence.CERTAIN,
        severity: Severity | None = None,
        notes: Sequence[Note] = (),
        fix: NodeFix | None = None,
        cause: cst.CSTNode | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Report:
        """Say `message` about an event or a node."""
        node = getattr(at, "node", None)
        return Report(
            rule=type(self),
            node=at if node is None else node,  # type: ignore[arg-type]
            message=_on_one_line(message),
            confidence=confidence,
            severity=severity or self.severity,
            notes=tuple(n for n in notes if n.node is not node),
            fix=fix,
            cause=cause,
            facts=facts or {},
        )


def _on_one_line(message: str) -> str:
    """A message that quotes code of several lines, without the breaks."""
    if "\n" not in message:
        return message
    words = " ".join(message.split())
    return words.replace("( ", "(").replace(" )", ")").replace("[ ", "[").replace(" ]", "]").replace(",)", ")")


def confidence_of(certainty: Certainty) -> Confidence:
    """The confidence that a finding may claim which rests on a value known so well."""
    return (Confidence.POSSIBLE, Confidence.LIKELY, Confidence.CERTAIN)[int(certainty)]


def weakest(*parts: Confidence) -> Confidence:
    """A chain of facts is as sure as its weakest one."""
    return min(parts, key=lambda c: c.rank)


def _rules_in(module: object) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:  # type: ignore[attr-defined]
            if "code" in vars(value):
                yield value


def find_rules(rule_paths: Iterable[Path] = ()) -> dict[str, type[Rule]]:
    """All rules by code: those shipped with torchlint, and those in the files and folders named.

    Raises ValueError where two rules claim one code, ImportError or OSError where a path can't be loaded.
    """
    import torchlint.rules

    found: dict[str, type[Rule]] = {}
    modules = [
        importlib.import_module(f"torchlint.rules.{info.name}")
        for info in pkgutil.iter_modules(torchlint.rules.__path__)
    ]
    for path in rule_paths:
        files = sorted(path.glob("*.py")) if path.is_dir() else [path]
        for file in files:
            name = f"torchlint_user_rules.{file.stem}"
            spec = importlib.util.spec_from_file_location(name, file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{file} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            modules.append(module)
    for module in modules:
        for rule in _rules_in(module):
            if rule.code in found:
                raise ValueError(f"{rule.code} is claimed by both {found[rule.code].__module__} and {rule.__module__}")
            found[rule.code] = rule
    return dict(sorted(found.items()))
