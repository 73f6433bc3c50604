"""How often each rule found something, in place of the findings."""

from __future__ import annotations

from collections import Counter

from torchlint.findings import Safety
from torchlint.report import Run, verdicts
from torchlint.report.paint import SEVERITY, Paint


def render(run: Run, color: bool = False) -> str:
    """One line a rule, the most frequent first: how often, its code, whether fixable, its name."""
    paint = Paint(color)
    found = [*run.findings, *run.hidden]
    counts = Counter(finding.code for finding in found)
    of = {finding.code: finding for finding in found}
    fixable = Counter(f.code for f in found if f.fix is not None and f.fix.safety is not Safety.DISPLAY)
    rows = []
    width = max((len(str(number)) for number in counts.values()), default=0)
    for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        fixes = f", {fixable[code]} fixable" if fixable[code] else ""
        shown = paint(SEVERITY[of[code].severity.value], code)
        said = verdicts(f for f in found if f.code == code)
        rows.append(f"{str(number).rjust(width)}  {shown}  {of[code].name}{fixes}{f': {said}' if said else ''}\n")
    return "".join(rows)
