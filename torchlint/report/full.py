"""The format for people: the code, what is wrong with it, where that comes from, and the fix."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from torchlint.findings import Confidence, Finding, Fix, Safety, Verdict
from torchlint.report import Run, file_place, place
from torchlint.report.paint import SEVERITY, Paint
from torchlint.report.snippet import Mark
from torchlint.report.snippet import render as render_snippet
from torchlint.report.text import Texts

_FIX_WORDS = {
    Safety.SAFE: "safe",
    Safety.UNSAFE: "unsafe: needs --unsafe-fixes",
    Safety.DISPLAY: "by hand",
}


_STATUS = {"confirmed": "red", "refuted": "green"}


def render(run: Run, color: bool = False) -> str:
    """The findings, and the files that can't be checked, with an empty line between them."""
    paint = Paint(color)
    texts = Texts(run.texts)
    blocks = []
    for result in run.results:
        blocks += ["\n".join(_finding(finding, texts, paint)) for finding in result.findings]
        blocks += [f"{paint('red', 'error')}: {error.path}: {error.message}" for error in result.errors]
    return "\n".join(f"{block}\n" for block in blocks)


def _finding(finding: Finding, texts: Texts, paint: Paint) -> Iterator[str]:
    style = SEVERITY[finding.severity.value]
    head = paint(style, f"{finding.severity.value}[{finding.code} {finding.name}]")
    yield f"{head}{paint('bold', f': {finding.message}')}"
    groups = _groups(finding)
    gutter = max(len(str(mark.range.end.line)) for marks in groups.values() for mark in marks)
    for (path, cell), marks in groups.items():
        own = any(mark.own for mark in marks)
        start = min(mark.range.start for mark in marks)
        where = place(finding) if own else f"{file_place(path, cell)}:{start.line}:{start.column}"
        yield f"{' ' * gutter}{paint('blue', '-->' if own else ':::')} {where}"
        lines = texts.lines(path, cell)
        if lines.text.strip():
            yield from render_snippet(lines, marks, gutter, paint, style)
        else:
            yield from (f"{' ' * gutter} {paint('blue', '=')} {m.words}" for m in marks if m.words)
    margin = f"{' ' * gutter} {paint('blue', '=')}"
    if finding.verdict is not None:
        yield from _verdict(finding.verdict, margin, gutter, paint)
    if finding.confidence is Confidence.POSSIBLE:
        yield f"{margin} {paint('bold', 'note')}: possible, not certain"
    if finding.fix is not None:
        yield f"{margin} {paint('green', 'fix')}: {_fix(finding.fix)}"


def _verdict(verdict: Verdict, margin: str, gutter: int, paint: Paint) -> Iterator[str]:
    """What a replay said: what happened, then what was run, and what that took for granted."""
    status = paint(_STATUS.get(verdict.status, "bold"), verdict.status)
    yield f"{margin} {paint('bold', 'replay')}: {status} on {verdict.device}: {verdict.evidence}"
    if verdict.assumed:
        how, *assumed = verdict.assumed
        words = f"{how}; {'; '.join(assumed)}" if assumed else how
        lead = " " * (gutter + 3)
        yield from wrap(words, 110, initial_indent=lead, subsequent_indent=lead)


def _fix(fix: Fix) -> str:
    return f"{' '.join(fix.message.split())} ({_FIX_WORDS[fix.safety]})"


def _groups(finding: Finding) -> dict[tuple[str, int | None], list[Mark]]:
    """The finding's own place and its related ones, by file and cell, its own first."""
    groups: dict[tuple[str, int | None], list[Mark]] = {}
    groups[finding.path, finding.cell] = [Mark(finding.range, "", True)]
    for related in finding.related:
        mark = Mark(related.range, related.message, False)
        groups.setdefault((related.path, related.cell), []).append(mark)
    return groups
