"""Replays confirm what the documentation of a rule shows as wrong, and not what it says to use instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from torchlint.check import CheckOptions, check_source
from torchlint.explain import example, use_instead
from torchlint.findings import Confidence, Finding, Position, Range
from torchlint.rule import Rule, find_rules
from torchlint.verify.pool import Interpreter
from torchlint.verify.verifier import Verifier

RULES = find_rules()
PROBED = [pytest.param(rule, id=code) for code, rule in RULES.items() if rule.probe is not None]
#: Lines that no replay can confirm, and why.
UNDECIDED = {
    ("DEV401", 7): "made-up data loses no gradients to float16",
    ("DEV403", 10): "raises before torch 2.4 alone",
}


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    import sys

    with Verifier(Interpreter(sys.executable, "this one"), RULES, root=Path("/nonexistent")) as verifier:
        yield verifier


def findings(code: str, rule: type[Rule]) -> list[Finding]:
    options = CheckOptions(frozenset([rule.code]), Confidence.POSSIBLE)
    return list(check_source(code.encode(), "train.py", options).findings)


@pytest.mark.parametrize("rule", PROBED)
def test_the_example_is_confirmed(rule: type[Rule], verifier: Verifier) -> None:
    code = example(rule).code
    found = verifier.verify([(f, code.encode()) for f in findings(code, rule)])
    assert found
    for finding in found:
        assert finding.verdict is not None
        if (finding.code, finding.range.start.line) in UNDECIDED:
            assert finding.verdict.status == "inconclusive"
        else:
            assert finding.verdict.status == "confirmed", finding.verdict


@pytest.mark.parametrize("rule", PROBED)
def test_what_to_use_instead_is_not_confirmed(rule: type[Rule], verifier: Verifier) -> None:
    wrong, right = example(rule).code, use_instead(rule).code
    lines = right.splitlines()
    moved = []
    for finding in findings(wrong, rule):
        line = min(finding.range.start.line, len(lines))
        text = lines[line - 1]
        start = len(text) - len(text.lstrip()) + 1
        place = Range(Position(line, start), Position(line, len(text) + 1))
        moved.append(replace(finding, range=place, related=(), fix=None))
    verified = verifier.verify([(f, right.encode()) for f in moved])
    assert [f.verdict for f in verified if f.verdict is None or f.verdict.status == "confirmed"] == []
