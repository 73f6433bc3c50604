"""An observer and rules of no meaning, to test what comes before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import libcst as cst

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Confidence, FileResult
from torchlint.fix import FixOutcome, fix_source
from torchlint.rule import NodeFix, Report, Rule, find_rules


@dataclass(frozen=True)
class FunctionCall:
    """A call, by the last name of what is called."""

    node: cst.Call
    name: str


@dataclass
class Seen:
    events: list[Any] = field(default_factory=list)
    failures: list[tuple[cst.CSTNode, str]] = field(default_factory=list)

    def release(self) -> None:
        pass


def observe(module: cst.Module, path: str) -> Seen:
    """Report all calls, in the order of the text."""
    seen = Seen()

    class Calls(cst.CSTVisitor):
        def visit_Call(self, node: cst.Call) -> None:
            last = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
            if isinstance(last, cst.Name):
                seen.events.append(FunctionCall(node, last.value))

    module.visit(Calls())
    return seen


Reply = Callable[[Rule, FunctionCall], Iterable[Report]]


def rule(called: str, number: int, reply: Reply | None = None, **attributes: Any) -> type[Rule]:
    """A rule that reports (or does what `reply` does for) each call of a name."""

    class Made(Rule):
        """Made up."""

        code: ClassVar[str] = f"DEV{number}"
        name: ClassVar[str] = f"no-{called}"

        def on_function_call(self, event: FunctionCall) -> Iterator[Report]:
            if event.name == called:
                yield from reply(self, event) if reply else [self.finding(event, f"{called} is called")]

    for key, value in attributes.items():
        setattr(Made, key, value)
    return Made


def fixing(called: str, number: int, fix: Callable[[cst.Call], NodeFix | None]) -> type[Rule]:
    """A rule that reports each call of a name, with a fix."""
    return rule(called, number, lambda self, event: [self.finding(event, "to be fixed", fix=fix(event.node))])


#: The linter's own rules.
OWN = {code: found for code, found in find_rules().items() if code.startswith("DEV00")}


def check(
    data: str | bytes,
    *rules: type[Rule],
    path: str = "train.py",
    only: Iterable[str] | None = None,
    **options: Any,
) -> FileResult:
    """Check with made up rules and the linter's own. only: the codes that are on."""
    known = OWN | {each.code: each for each in rules}
    chosen = CheckOptions(frozenset(known if only is None else only), **options)
    data = data.encode() if isinstance(data, str) else data
    return check_source(data, path, chosen, rules=known, observe=observe)


def fix(data: str | bytes, *rules: type[Rule], path: str = "train.py", unsafe: bool = False) -> FixOutcome:
    """Fix with made up rules and the linter's own."""
    known = OWN | {each.code: each for each in rules}
    options = CheckOptions(frozenset(known), confidence=Confidence.POSSIBLE)
    data = data.encode() if isinstance(data, str) else data

    def checked(data: bytes, path: str, options: CheckOptions) -> FileResult:
        return check_source(data, path, options, rules=known, observe=observe)

    return fix_source(data, path, options, unsafe, check=checked)


def brief(result: FileResult) -> list[tuple[str, int]]:
    """The findings as code and line."""
    assert result.errors == ()
    return [(finding.code, finding.range.start.line) for finding in result.findings]
