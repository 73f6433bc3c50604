"""What tests of rules share: code whose lines are marked where a rule must report, and the check of it."""

from __future__ import annotations

import re
from textwrap import dedent

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Confidence, Finding, Safety
from torchlint.fix import fix_source

_MARK = re.compile(r"[ \t]*# <-[ \t]*$", re.MULTILINE)
_UNREADABLE = "DEV001"


def findings(
    code: str, *rules: str, path: str = "train.py", confidence: Confidence = Confidence.LIKELY
) -> tuple[Finding, ...]:
    """What rules find in a file that parses: where nothing is read, nothing is found either."""
    options = CheckOptions(frozenset((*rules, _UNREADABLE)), confidence)
    result = check_source(dedent(code).encode(), path, options)
    assert result.errors == ()
    assert [f.message for f in result.findings if f.code == _UNREADABLE] == []
    return result.findings


def reported_lines(code: str, *rules: str, **how: object) -> list[int]:
    """The lines that rules report, related places of the same cause included."""
    lines = set()
    for finding in findings(code, *rules, **how):  # type: ignore[arg-type]
        lines.add(finding.range.start.line)
        lines |= {r.range.start.line for r in finding.related if r.role == "also"}
    return sorted(lines)


def expect(code: str, rule: str, **how: object) -> None:
    """The rule reports the lines marked with `# <-`, and no other."""
    code = dedent(code)
    marked = [i for i, line in enumerate(code.split("\n"), 1) if _MARK.search(line)]
    assert reported_lines(code, rule, **how) == marked


def fixed(code: str, rule: str, *, path: str = "train.py") -> str:
    """The code after the rule's fixes, unsafe ones included."""
    code = dedent(code)
    outcome = fix_source(code.encode(), path, CheckOptions(frozenset((rule,))), unsafe=True)
    assert outcome.errors == ()
    return outcome.data.decode()


def safeties(code: str, rule: str) -> list[Safety | None]:
    """How safe the fix of each finding is, in order."""
    return [finding.fix.safety if finding.fix else None for finding in findings(code, rule)]
