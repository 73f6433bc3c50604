"""The format for editors and logs: one line a finding, `path:line:column: CODE message`."""

from __future__ import annotations

from torchlint.findings import Safety
from torchlint.report import Run, place
from torchlint.report.paint import SEVERITY, Paint


def render(run: Run, color: bool = False) -> str:
    """One line a finding; `[*]` stands before the message of one that `--fix` would fix."""
    paint = Paint(color)
    lines = []
    for result in run.results:
        for finding in result.findings:
            code = paint(SEVERITY[finding.severity.value], finding.code)
            star = f"{paint('green', '[*]')} " if finding.fix and finding.fix.safety is Safety.SAFE else ""
            message = " ".join(finding.message.split())
            lines.append(f"{place(finding)}: {code} {star}{message} ({finding.name})\n")
        lines += [f"{error.path}: {paint('red', 'error')}: {error.message}\n" for error in result.errors]
    return "".join(lines)
