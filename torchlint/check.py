"""One file, end to end, as a pure function: bytes in, findings out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchlint.findings import Confidence, FileError, FileResult, Finding
from torchlint.relevance import is_relevant
from torchlint.rule import Rule, find_rules
from torchlint.source import Program, Unreadable, decode

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.judge import Candidate
    from torchlint.placement.project import Project
    from torchlint.suppressions import Suppressions

_COMMENTS = re.compile(r"#\s*(?:torchlint\s*:|noqa\s*:)", re.IGNORECASE)


class Observation(Protocol):
    """What an observer saw: events in program order, and the places where it failed, with a few words."""

    @property
    def events(self) -> Sequence[Any]: ...

    @property
    def failures(self) -> Sequence[tuple[cst.CSTNode, str]]: ...

    def release(self) -> None:
        """Called when the events have been judged: nothing is asked of them any more."""


Observer = Callable[["cst.Module", str], Observation]


@dataclass(frozen=True)
class CheckOptions:
    """What to check a file for; the same for all files, but for `ignore`.

    select: codes of the rules to run. ignore: codes not to run for this file (per-file-ignores, resolved).
    confidence: findings less sure are left out. device_expression: what fixes write for the device.
    min_torch: the oldest torch whose APIs fixes may use. rule_paths: files and folders with the user's own
    rules. rule_options: the options of rules, by code.
    """

    select: frozenset[str]
    confidence: Confidence = Confidence.LIKELY
    ignore: frozenset[str] = frozenset()
    device_expression: str | None = None
    min_torch: tuple[int, int] = (2, 0)
    rule_paths: tuple[Path, ...] = ()
    rule_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def codes(self) -> frozenset[str]:
        return self.select - self.ignore


def check_source(
    data: bytes,
    path: str,
    options: CheckOptions,
    *,
    rules: Mapping[str, type[Rule]] | None = None,
    observe: Observer | None = None,
) -> FileResult:
    """Check one file or notebook. Never raises for what the file holds, nor for a fault in a rule.

    path: as findings are to name it; a name in `.ipynb` makes it a notebook.
    rules, observe: stand in for the rules and the observer that torchlint would find by itself.
    `FileResult.extra` has `facts`, what rules say to the verifier, by fingerprint, `unreadable`, how many
    parts of the file could not be read, and `dependencies`, other files that the result rests on.
    Raises what `find_rules` raises where a file in `rule_paths` is no good.
    """
    if rules is None:
        if not options.rule_paths and not is_relevant(data):
            return FileResult(path)
        rules = _rules(options.rule_paths)
    if not is_relevant(data, _triggers(rules.values(), options.codes)):
        return FileResult(path)
    try:
        return _check(data, path, options, rules, observe or _observe)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic in LibCST's native part is no Exception
        problem = FileError(path, f"internal error: {in_short(error)}", internal=True)
        return FileResult(path, errors=(problem,))


def _triggers(rules: Iterable[type[Rule]], codes: frozenset[str]) -> Iterator[bytes]:
    return (trigger for rule in rules if rule.code in codes for trigger in rule.triggers)


@lru_cache(maxsize=8)
def _rules(rule_paths: tuple[Path, ...]) -> Mapping[str, type[Rule]]:
    return find_rules(map(Path, rule_paths))


def _observe(module: cst.Module, path: str) -> Observation:
    from torchlint.placement.observer import observe

    return observe(module, path, _project(os.getcwd()))


@lru_cache(maxsize=1)
def _project(cwd: str) -> Project:
    """The first-party modules that files of this process import, read once; paths are relative to `cwd`."""
    from torchlint.placement.project import Project

    return Project()


def read(data: bytes, path: str) -> Program:
    """The program that a file or notebook holds. Raises Unreadable."""
    if path.endswith(".ipynb"):
        from torchlint.notebooks import read_notebook

        return read_notebook(data)
    return decode(data)


def in_short(error: BaseException) -> str:
    """An error in one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _check(
    data: bytes, path: str, options: CheckOptions, rules: Mapping[str, type[Rule]], observe: Observer
) -> FileResult:
    from torchlint.judge import conclude, judge

    active = {code: rule for code, rule in rules.items() if code in options.codes}
    candidates: list[Candidate] = []
    errors: list[FileError] = []
    suppressions = None
    try:
        program = read(data, path)
        suppressions = _suppressions(program, rules)
        module, problems = program.parse()
    except Unreadable as refused:
        problems = [refused]
    else:
        readable = program.without(problems)
        judged = judge(readable, module, path, options, active, observe, keep_hidden=suppressions is not None)
        candidates += judged.candidates
        errors += judged.errors
    for problem in problems:
        if problem.fault:
            where = "" if problem.cell is None else f"cell {problem.cell + 1}: "
            errors.append(FileError(path, f"not checked: {where}{problem.message}"))
        elif "DEV001" in active:
            candidates.append(_refusal(problem, path, active["DEV001"]))
    result = conclude(candidates, suppressions, path, tuple(errors), active, unreadable=len(problems))
    if observe is _observe and (files := _project(os.getcwd()).dependencies(path)):
        result.extra["dependencies"] = files
    return result


def _suppressions(program: Program, rules: Mapping[str, type[Rule]]) -> Suppressions | None:
    """The suppression comments of a file; None, without tokenizing it, where it has none."""
    if _COMMENTS.search(program.text) is None:
        return None
    from torchlint.suppressions import find_suppressions, may_suppress

    return find_suppressions(program, rules) if may_suppress(program.text, rules) else None


def _refusal(problem: Unreadable, path: str, rule: type[Rule]) -> Candidate:
    from torchlint.judge import Candidate

    finding = Finding(
        code=rule.code,
        name=rule.name,
        message=problem.message[:1].upper() + problem.message[1:],
        severity=rule.severity,
        confidence=Confidence.CERTAIN,
        path=path,
        range=problem.range,
        cell=problem.cell,
    )
    return Candidate(finding)
