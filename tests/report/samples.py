"""Findings to show, for the tests of reports."""

from __future__ import annotations

from dataclasses import replace

from torchlint.findings import (
    Confidence,
    Edit,
    FileError,
    FileResult,
    Finding,
    Fix,
    Position,
    Range,
    Related,
    Safety,
    Severity,
)
from torchlint.report import Run

PATH = "src/net.py"
CODE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.zeros(10)

    def forward(self, x):
        return x + self.mask

model = Net().cuda()
model(torch.zeros(10))
"""


def span(line: int, column: int, end_line: int, end_column: int) -> Range:
    return Range(Position(line, column), Position(end_line, end_column))


_OLD = "self.mask = torch.zeros(10)"
_AT = CODE.index(_OLD)

MIXED = Finding(
    "DEV102",
    "mixed-devices",
    "`x` is where the caller put it, `self.mask` on the CPU",
    Severity.ERROR,
    Confidence.CERTAIN,
    PATH,
    span(9, 16, 9, 29),
    related=(Related("origin", "`self.mask` is created on the CPU here", PATH, span(6, 21, 6, 36)),),
    fix=Fix(
        "make it a buffer", Safety.SAFE, (Edit(_AT, _AT + len(_OLD), 'self.register_buffer("mask", …)'),)
    ),
    fingerprint="f00d",
)
DROPPED = replace(
    MIXED,
    code="DEV101",
    name="discarded-move",
    message="the result of `cuda` is dropped",
    severity=Severity.WARNING,
    confidence=Confidence.POSSIBLE,
    range=span(11, 9, 11, 21),
    related=(),
    fix=replace(MIXED.fix, message="assign it", safety=Safety.UNSAFE),  # type: ignore[type-var]
)
PORTABLE = replace(DROPPED, code="DEV503", name="cuda-or-cpu", severity=Severity.INFO, fix=None)


def run_of(*findings: Finding, code: str | bytes = CODE, files: int = 1, **options: object) -> Run:
    """A run that found these in one file."""
    data = code if isinstance(code, bytes) else code.encode()
    return Run((FileResult(PATH, findings),), {PATH: data}, files, **options)  # type: ignore[arg-type]


UNREADABLE = FileResult("b.py", errors=(FileError("b.py", "can't be read: Permission denied"),))
