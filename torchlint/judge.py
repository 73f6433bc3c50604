"""From events to findings: rules are told, their reports are merged, placed in the text, and suppressed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.check import in_short
from torchlint.deep import deeply
from torchlint.edits import needs_statements, nodes_of, resolve
from torchlint.findings import Confidence, FileError, FileResult, Finding, Fix, Related, Severity
from torchlint.positions import Places, places
from torchlint.rule import Note, Report, Rule, RuleContext
from torchlint.splice import touch

if TYPE_CHECKING:
    from torchlint.check import CheckOptions, Observation, Observer
    from torchlint.source import Program
    from torchlint.suppressions import Suppressions


@dataclass(frozen=True)
class Candidate:
    """A finding that may still be suppressed or merged.

    lines: the first and the last line of it in the program's text. text: that first line.
    cause, explains: which other findings it makes superfluous. hidden: less sure than asked for.
    facts: what the rule says to the verifier.
    """

    finding: Finding
    lines: tuple[int, int] | None = None
    text: str = ""
    cause: int | None = None
    explains: frozenset[str] = frozenset()
    hidden: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """What the rules say of a file, and what went wrong meanwhile."""

    candidates: Sequence[Candidate]
    errors: Sequence[FileError]


def judge(
    program: Program,
    module: cst.Module,
    path: str,
    options: CheckOptions,
    rules: Mapping[str, type[Rule]],
    observe: Observer,
    *,
    keep_hidden: bool,
) -> Judged:
    """Have the rules judge what the observer sees. A fault in the observer or a rule loses that part alone.

    keep_hidden: return candidates that are less sure than asked for, too.
    """
    failures: list[tuple[cst.CSTNode | None, str]] = []
    observation = _observation(module, path, observe, failures)
    events = observation.events if observation is not None else ()
    instances = _instances(rules.values(), module, path, options, failures)
    failing = {event.node for event in events if _is_expected(event)}
    reports = [report for report in _unique(_told(instances, events, failures)) if report.node not in failing]
    if not keep_hidden:
        reports = [report for report in reports if _is_sure(report, options)]
    found = _places(program, module, reports, failures)
    candidates = []
    for report in reports:
        if report.node in found:
            report = _as_shown(report, program, found)
            candidates.append(
                _candidate(report, program, module, found, path, hidden=not _is_sure(report, options))
            )
        else:
            failures.append((None, f"{_label(report.rule)} reported a node that is not part of the file"))
    if observation is not None:
        observation.release()
    return Judged(candidates, [_error(failure, program, found, path) for failure in failures])


# ---- events to reports -------------------------------------------------------------------------------------


def _observation(
    module: cst.Module, path: str, observe: Observer, failures: list[tuple[cst.CSTNode | None, str]]
) -> Observation | None:
    try:
        observation = deeply(lambda: observe(module, path))
    except Exception as error:
        failures.append((None, f"placement could not be inferred: {in_short(error)}"))
        return None
    failures.extend(observation.failures)
    return observation


def _is_expected(event: Any) -> bool:
    """Whether what an event tells of is there to fail: `with pytest.raises(TypeError)`."""
    return getattr(getattr(event, "scene", None), "expects_error", False)


def _instances(
    rules: Iterable[type[Rule]],
    module: cst.Module,
    path: str,
    options: CheckOptions,
    failures: list[tuple[cst.CSTNode | None, str]],
) -> list[Rule]:
    instances = []
    usual = RuleContext(path, module, options.device_expression, options.min_torch)
    for rule in rules:
        own = options.rule_options.get(rule.code)
        context = replace(usual, options=own) if own else usual
        try:
            instances.append(rule(context))
        except Exception as error:
            failures.append((None, f"{_label(rule)} failed: {in_short(error)}"))
    return instances


def _told(
    rules: Sequence[Rule], events: Iterable[Any], failures: list[tuple[cst.CSTNode | None, str]]
) -> list[Report]:
    """What the rules report of the events, each told of those that it has a method for."""
    reports: list[Report] = []
    failed: set[Rule] = set()

    def tell(rule: Rule, call: Callable[[], Iterable[Report] | None], node: cst.CSTNode | None) -> None:
        try:
            reports.extend(call() or ())
        except Exception as error:
            if rule not in failed:  # once will do: the next event mostly brings the same
                failures.append((node, f"{_label(type(rule))} failed: {in_short(error)}"))
            failed.add(rule)

    kinds = tuple(map(type, rules))
    listeners: dict[type, list[tuple[Rule, Callable[[Any], Iterable[Report] | None]]]] = {}
    for event in events:
        kind = type(event)
        if kind not in listeners:
            name = handler_name(kind)
            listeners[kind] = [(rules[i], getattr(rules[i], name)) for i in _listening(kinds, name)]
        for rule, listener in listeners[kind]:
            tell(rule, partial(listener, event), event.node)
    for rule in rules:
        if type(rule).finish is not Rule.finish:
            tell(rule, rule.finish, None)
    return reports


@lru_cache(maxsize=1024)  # the same rules and a few dozen kinds of events for each file
def _listening(rules: tuple[type[Rule], ...], name: str) -> tuple[int, ...]:
    """Which of the rules have a method of this name, by which they listen."""
    return tuple(i for i, rule in enumerate(rules) if hasattr(rule, name))


def handler_name(event: type) -> str:
    """The method by which a rule listens to a kind of event: `on_device_name` for `DeviceName`."""
    return "on_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", event.__name__).lower()


def _unique(reports: Iterable[Report]) -> list[Report]:
    """One report of each code and node, the surest."""
    best: dict[tuple[str, int], Report] = {}
    for report in reports:
        key = (report.rule.code, id(report.node))
        if key not in best or report.confidence.rank > best[key].confidence.rank:
            best[key] = report
    return list(best.values())


def _is_sure(report: Report, options: CheckOptions) -> bool:
    return report.confidence.rank >= options.confidence.rank


def _label(rule: type[Rule]) -> str:
    return f"{rule.code} ({rule.name})"


# ---- reports to candidates ---------------------------------------------------------------------------------


def _places(
    program: Program,
    module: cst.Module,
    reports: Sequence[Report],
    failures: Sequence[tuple[cst.CSTNode | None, str]],
) -> Places:
    """Find the nodes that reports and failures speak of. Costs nothing where there are none."""
    nodes: list[cst.CSTNode] = [node for node, _ in failures if node is not None]
    statements = False
    for report in reports:
        nodes += [report.node, *(note.node for note in report.notes)]
        if report.fix is not None:
            nodes += nodes_of(report.fix)
            statements = statements or needs_statements(report.fix)
    if not nodes:
        return Places(program.text, {}, {})
    return places(module, nodes, program.text, statements=statements)


def _as_shown(report: Report, program: Program, found: Places) -> Report:
    """A fault that its author looks at is hardly one that they don't know of."""
    if report.severity is Severity.ERROR and program.is_on_show(*found.span(report.node)):
        return replace(report, confidence=Confidence.POSSIBLE)
    return report


def _candidate(
    report: Report, program: Program, module: cst.Module, found: Places, path: str, *, hidden: bool
) -> Candidate:
    start, end = found.span(report.node)
    cell, range = program.locate(start, end)
    first, last = program.lines.position(start).line, program.lines.position(end).line
    finding = Finding(
        code=report.rule.code,
        name=report.rule.name,
        message=report.message,
        severity=report.severity,
        confidence=report.confidence,
        path=path,
        range=range,
        related=tuple(_related(note, program, found, path) for note in report.notes if note.node in found),
        fix=None if report.fix is None else resolve(report.fix, program, module, found),
        cell=cell,
    )
    return Candidate(
        finding,
        lines=(first, last),
        text=program.lines.line(first),
        cause=id(report.node if report.cause is None else report.cause),
        explains=frozenset(report.rule.explains),
        hidden=hidden,
        facts=report.facts,
    )


def _related(note: Note, program: Program, found: Places, path: str) -> Related:
    cell, range = program.locate(*found.span(note.node))
    return Related(note.role, note.message, path, range, cell)


def _error(failure: tuple[cst.CSTNode | None, str], program: Program, found: Places, path: str) -> FileError:
    node, message = failure
    if node is None or node not in found:
        return FileError(path, f"internal error: {message}", internal=True)
    cell, range = program.locate(*found.span(node))
    place = f"line {range.start.line}" if cell is None else f"cell {cell + 1}, line {range.start.line}"
    return FileError(path, f"internal error: {place}: {message}", internal=True)


# ---- candidates to findings --------------------------------------------------------------------------------


def conclude(
    candidates: Sequence[Candidate],
    suppressions: Suppressions | None,
    path: str,
    errors: tuple[FileError, ...],
    rules: Mapping[str, type[Rule]],
    *,
    unreadable: int,
) -> FileResult:
    """Drop what is suppressed, hidden or explained by another finding, and put the rest in order.

    rules: those that ran, for telling which suppressions were of no use.
    """
    candidates = list({_identity(c): c for c in reversed(candidates)}.values())[::-1]
    silenced = [
        suppressions is not None and suppressions.silence(c.finding.code, c.lines) for c in candidates
    ]
    shown = [(c, quiet) for c, quiet in zip(candidates, silenced, strict=True) if not c.hidden]
    explained = {(c.cause, code) for c, _ in shown for code in c.explains}
    left = [(c, quiet) for c, quiet in shown if (c.cause, c.finding.code) not in explained]
    kept = _merged([c for c, quiet in left if not quiet])
    if suppressions is not None:
        ran = frozenset() if errors or unreadable else frozenset(rules)
        kept += [Candidate(finding) for finding in suppressions.complaints(rules, ran, path)]
    fingerprints = _fingerprints([c for c, _ in left] + [c for c in kept if c.lines is None])
    kept.sort(key=lambda c: _order(c.finding))
    findings = [replace(c.finding, fingerprint=fingerprints[_identity(c)]) for c in kept]
    extra: dict[str, object] = {}
    facts = {f.fingerprint: dict(c.facts) for f, c in zip(findings, kept, strict=True) if c.facts}
    if facts:
        extra["facts"] = facts
    if unreadable:
        extra["unreadable"] = unreadable
    return FileResult(path, tuple(findings), errors, sum(quiet for _, quiet in left), extra)


def _order(finding: Finding) -> tuple[Any, ...]:
    return (-1 if finding.cell is None else finding.cell, finding.range, finding.code)


def _identity(candidate: Candidate) -> tuple[Any, ...]:
    return _order(candidate.finding)


def _merged(candidates: Sequence[Candidate]) -> list[Candidate]:
    """One finding for all of one code and cause: the surest, the first of these; the others are related."""
    groups: dict[tuple[str, int | None], list[Candidate]] = defaultdict(list)
    alone = []
    for candidate in candidates:
        if candidate.cause is None:
            alone.append(candidate)
        else:
            groups[candidate.finding.code, candidate.cause].append(candidate)
    return alone + [_one_of(group) for group in groups.values()]


def _one_of(group: Sequence[Candidate]) -> Candidate:
    first, *others = sorted(group, key=lambda c: (-c.finding.confidence.rank, _order(c.finding)))
    if not others:
        return first
    taken = {(r.cell, r.range) for r in first.finding.related} | {(first.finding.cell, first.finding.range)}
    also = [
        Related("also", other.message, other.path, other.range, other.cell)
        for other in (c.finding for c in others)
        if (other.cell, other.range) not in taken
    ]
    severity = max((c.finding.severity for c in group), key=lambda s: s.rank)
    fix = _joint_fix(first.finding.fix, [other.finding.fix for other in others])
    finding = replace(first.finding, severity=severity, related=(*first.finding.related, *also), fix=fix)
    return replace(first, finding=finding)


def _joint_fix(fix: Fix | None, others: Iterable[Fix | None]) -> Fix | None:
    """A fix that does what others as safe as it do as well, so far as they are not in each other's way."""
    if fix is None:
        return None
    edits = list(fix.edits)
    for other in others:
        if other is not None and other.safety is fix.safety:
            new = [edit for edit in other.edits if edit not in edits]
            if not any(touch(one, taken) for one in new for taken in edits):
                edits += new
    edits.sort(key=lambda edit: (-1 if edit.cell is None else edit.cell, edit.start, edit.end))
    return replace(fix, edits=tuple(edits))


_COMMENT_OF_OURS = re.compile(r"#\s*(?:torchlint|noqa)\s*:.*", re.IGNORECASE)


def _fingerprints(candidates: Iterable[Candidate]) -> dict[tuple[Any, ...], str]:
    """What names a finding in later runs: its code, its path and the text of its line, not the line's number.

    Of several on lines that read the same, the first has the number 0, the next 1, ….
    """
    from hashlib import sha256

    seen: Counter[tuple[str, str]] = Counter()
    fingerprints: dict[tuple[Any, ...], str] = {}
    for candidate in sorted(candidates, key=_identity):
        finding = candidate.finding
        text = " ".join(_COMMENT_OF_OURS.sub("", candidate.text).split())
        path = finding.path.replace("\\", "/")
        parts = (finding.code, path, text, str(seen[finding.code, text]))
        seen[finding.code, text] += 1
        fingerprints[_identity(candidate)] = sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[
            :32
        ]
    return fingerprints
