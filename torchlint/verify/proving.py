"""Fixes that a replay proves: the fault is shown before a fix, and after it the same replay runs without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchlint.check import read
from torchlint.findings import Edit, Finding, Position, Range, Safety
from torchlint.fix import choose
from torchlint.source import Unreadable
from torchlint.verify.probes import CONFIRMED
from torchlint.verify.verifier import Verifier


def prove(
    data: bytes, findings: Sequence[Finding], verifier: Verifier, unsafe: bool
) -> tuple[bytes, list[Finding]]:
    """The bytes with the fixes applied that are proved and not in each other's way, and the findings of these.

    findings: with their verdicts; a fix is tried where the fault was confirmed. unsafe: unsafe fixes may be proved,
    too.
    """
    wanted = (Safety.SAFE, Safety.UNSAFE) if unsafe else (Safety.SAFE,)
    candidates = [
        f
        for f in findings
        if f.fix is not None
        and f.fix.safety in wanted
        and f.verdict is not None
        and f.verdict.status == CONFIRMED
    ]
    proved = [f for f in candidates if _is_proved(f, data, verifier)]
    edits, applied, _ = choose(proved, unsafe)
    return (_rewritten(data, applied[0].path, edits) if applied else data), applied


def _is_proved(finding: Finding, data: bytes, verifier: Verifier) -> bool:
    assert finding.fix is not None
    try:
        after = _rewritten(data, finding.path, finding.fix.edits)
        moved = _moved(finding, data, finding.fix.edits)
        return verifier.is_free(moved, after)
    except (Unreadable, UnicodeError, ValueError):
        return False


def _rewritten(data: bytes, path: str, edits: Sequence[Edit]) -> bytes:
    return read(data, path).rewritten(edits)


def _moved(finding: Finding, data: bytes, edits: Sequence[Edit]) -> Finding:
    """The finding where its statement is after the edits: shifted by the lines that these add above it."""
    program = read(data, finding.path)
    shift = 0
    for edit in edits:
        if edit.cell != finding.cell:
            continue
        removed = program.text[edit.start : edit.end].count("\n") if finding.cell is None else 0
        line = program.lines.position(edit.start).line if finding.cell is None else 1
        if line < finding.range.start.line or (line == finding.range.start.line and edit.text.endswith("\n")):
            shift += edit.text.count("\n") - removed
    start, end = finding.range.start, finding.range.end
    place = Range(Position(start.line + shift, start.column), Position(end.line + shift, end.column))
    return replace(finding, range=place, verdict=None)
