"""How a run's findings are shown: one module a format, each with `render`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.findings import FileResult, Finding, Safety


@dataclass(frozen=True)
class Run:
    """What a run gave, as every format is handed it.

    results: of the files with findings, errors or suppressed findings at least, sorted by path.
    texts: the bytes that the findings' places refer to, by path.
    files: how many files were checked, those skipped for want of a trigger too.
    fixed, fixed_files: how many fixes were applied, and to how many files.
    unsafe_fixes: unsafe fixes were asked for, and count as fixable.
    verified: findings were replayed. hidden: those that this refuted, where they are not to be shown.
    """

    results: tuple[FileResult, ...] = ()
    texts: Mapping[str, bytes] = field(default_factory=dict)
    files: int = 0
    seconds: float = 0.0
    fixed: int = 0
    fixed_files: int = 0
    unsafe_fixes: bool = False
    verified: bool = False
    hidden: tuple[Finding, ...] = ()

    @property
    def findings(self) -> Iterator[Finding]:
        for result in self.results:
            yield from result.findings


def without_refuted(results: Iterable[FileResult]) -> tuple[tuple[FileResult, ...], tuple[Finding, ...]]:
    """The results without the findings that a replay refuted, and these."""
    kept, hidden = [], []
    for result in results:
        refuted = [f for f in result.findings if f.verdict is not None and f.verdict.status == "refuted"]
        hidden += refuted
        left = tuple(f for f in result.findings if f not in refuted)
        kept.append(replace(result, findings=left) if refuted else result)
    return tuple(kept), tuple(hidden)


def verdicts(findings: Iterable[Finding]) -> str:
    """How many findings were confirmed, refuted, and left open, in words; empty without verdicts."""
    statuses = [f.verdict.status for f in findings if f.verdict is not None]
    words = ("confirmed", "inconclusive", "refuted")
    return ", ".join(f"{statuses.count(word)} {word}" for word in words if word in statuses)


def render(run: Run, kind: str, color: bool = False) -> str:
    """A run's findings in the format of that name, which is the name of a module here."""
    if kind != "json" and not any(result.findings or result.errors for result in run.results):
        return ""
    from importlib import import_module

    text: str = import_module(f"torchlint.report.{kind}").render(run, color)
    return text


def place(finding: Finding) -> str:
    """`path:line:column`; in a notebook `path:cell N:line:column`, cells counted from 1 as people do."""
    start = finding.range.start
    return f"{file_place(finding.path, finding.cell)}:{start.line}:{start.column}"


def file_place(path: str, cell: int | None) -> str:
    """A file, or a cell of a notebook, in words."""
    return path if cell is None else f"{path}:cell {cell + 1}"


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fixable(findings: Iterable[Finding], safety: Safety) -> int:
    """How many findings have a fix as safe as that."""
    return sum(1 for f in findings if f.fix is not None and f.fix.safety is safety)


def closing(run: Run) -> str:
    """The sentence that ends a report: what was found, fixed, and can be fixed."""
    return _closing(run) + _replayed(run)


def _replayed(run: Run) -> str:
    """What the replays came to."""
    said = verdicts([*run.findings, *run.hidden]) if run.verified else ""
    if not said:
        return ""
    shown = " (hidden; --show-refuted shows them)" if run.hidden else ""
    return f" Replays: {said}{shown}."


def _closing(run: Run) -> str:
    found = list(run.findings)
    files = len({finding.path for finding in found})
    errors = sum(len(result.errors) for result in run.results)
    if run.fixed:
        head = f"Fixed {count(run.fixed, 'problem')} in {count(run.fixed_files, 'file')}"
        if not found:
            return f"{head}; none left{_errors(errors)}."
        head += f"; {len(found)} left"
    elif not found:
        return f"No problems in {count(run.files, 'file')}{_errors(errors)}."
    else:
        head = f"Found {count(len(found), 'problem')}"
    of = f" of {run.files}" if run.files != files else ""
    return (
        f"{head}{_fixes(run, found)} in {files}{of} {'file' if run.files == 1 else 'files'}{_errors(errors)}."
    )


def _fixes(run: Run, found: list[Finding]) -> str:
    from torchlint.findings import Safety

    safe, unsafe = fixable(found, Safety.SAFE), fixable(found, Safety.UNSAFE)
    if unsafe and (run.unsafe_fixes or not safe):
        return f" ({safe + unsafe} fixable with --fix --unsafe-fixes)"
    more = f", {unsafe} more with --unsafe-fixes" if unsafe else ""
    return f" ({safe} fixable with --fix{more})" if safe else ""


def _errors(errors: int) -> str:
    return f", {count(errors, 'error')}" if errors else ""
