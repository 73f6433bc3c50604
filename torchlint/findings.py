"""The data that every part of torchlint hands on: findings, their places, fixes and verdicts."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Severity(enum.Enum):
    """How bad a finding is; `rank` orders them, the worst highest."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return {"error": 2, "warning": 1, "info": 0}[self.value]


class Confidence(enum.Enum):
    """How sure a finding is: the weakest fact it rests on. `rank` orders them, the surest highest."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        return {"certain": 2, "likely": 1, "possible": 0}[self.value]


class Safety(enum.Enum):
    """Whether a fix may be applied: *safe* by `--fix`, *unsafe* with `--unsafe-fixes`, *display* never."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text: line and column count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, order=True)
class Range:
    """From `start` up to, not including, `end`."""

    start: Position
    end: Position


@dataclass(frozen=True)
class Related:
    """Another place that belongs to a finding, with a few words on what it is.

    role: `origin` (where a value came to be so), `also` (another place of the same cause) or `context`.
    """

    role: str
    message: str
    path: str
    range: Range
    cell: int | None = None


@dataclass(frozen=True)
class Edit:
    """Replace the characters `start` up to `end` of the module's text by `text`.

    In a notebook, `start` and `end` count in the text of the cell `cell` (0-based, as in the file).
    """

    start: int
    end: int
    text: str
    cell: int | None = None


@dataclass(frozen=True)
class Fix:
    """Edits that belong together: all are applied, or none."""

    message: str
    safety: Safety
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Verdict:
    """What a replay said of a finding.

    status: `confirmed`, `refuted` or `inconclusive`.
    device: where it ran, e.g. `simulated cuda:0`.
    assumed: what the replay had to stand in for, in words.
    """

    status: str
    device: str
    evidence: str
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that goes wrong at one place."""

    code: str
    name: str
    message: str
    severity: Severity
    confidence: Confidence
    path: str
    range: Range
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    verdict: Verdict | None = None
    cell: int | None = None
    fingerprint: str = ""


@dataclass(frozen=True)
class FileError:
    """A file that could not be checked, or only in part. `internal`: by a fault of torchlint itself."""

    path: str
    message: str
    internal: bool = False


@dataclass(frozen=True)
class FileResult:
    """What checking one file gave."""

    path: str
    findings: tuple[Finding, ...] = ()
    errors: tuple[FileError, ...] = ()
    suppressed: int = 0
    extra: dict[str, object] = field(default_factory=dict)
