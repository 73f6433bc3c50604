"""Small programs with their findings marked: what is reported, what is silent, and the misses that are known.

A line that must be reported ends in `# <- CODE`; `# todo <- CODE` marks a miss that is known. A finding is at a line
when it, or a related place of it, covers the line. A program without marks is a trap.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint.check import CheckOptions, check_source
from torchlint.findings import Finding
from torchlint.rule import find_rules

FOLDER = Path(__file__).parent / "data" / "cases"
PROGRAMS = sorted(FOLDER.glob("*.py"))
RULES = {code for code, rule in find_rules().items() if rule.default}
_MARK = re.compile(r"# (todo )?<- (DEV\d{3}(?: DEV\d{3})*)$")

Place = tuple[int, str]


def marks(code: str) -> tuple[set[Place], set[Place]]:
    """The places that must be reported, and those that are known to be missed."""
    must: set[Place] = set()
    missed: set[Place] = set()
    for number, line in enumerate(code.splitlines(), 1):
        found = _MARK.search(line)
        if found is not None:
            (missed if found[1] else must).update(
                (number, rule) for rule in found[2].split() if rule in RULES
            )
    return must, missed


def covered(finding: Finding) -> set[Place]:
    ranges = [finding.range, *(related.range for related in finding.related)]
    return {(line, finding.code) for r in ranges for line in range(r.start.line, r.end.line + 1)}


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in PROGRAMS])
def test_a_program_has_the_findings_that_are_marked(path: Path) -> None:
    code = path.read_text(encoding="utf-8")
    must, missed = marks(code)
    result = check_source(code.encode(), path.name, CheckOptions(frozenset(RULES)))
    assert result.errors == ()
    places = [covered(finding) for finding in result.findings]
    assert must <= set().union(*places)
    unmarked = [f for f, place in zip(result.findings, places, strict=True) if not place & (must | missed)]
    assert unmarked == []


def test_every_kind_is_there_with_its_traps() -> None:
    for kind in "abcdef":
        programs = [p for p in PROGRAMS if p.stem.startswith(f"{kind}_")]
        traps = [p for p in programs if p.stem.endswith("_trap")]
        assert len(programs) >= 10
        assert len(traps) >= 3
        assert all(not any(marks(trap.read_text(encoding="utf-8"))) for trap in traps)
