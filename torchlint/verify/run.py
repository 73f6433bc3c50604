"""A run's findings, replayed: verdicts for all of them, and fixes where a replay proves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torchlint.files import Source
from torchlint.findings import FileError, Finding
from torchlint.run import Checked, Outcome, Plan, load_rules
from torchlint.verify.pool import find_interpreter
from torchlint.verify.proving import prove
from torchlint.verify.verifier import Verifier

#: Rounds of proving and applying, as fixes may be in each other's way.
_ROUNDS = 4


def verify_outcome(
    outcome: Outcome,
    sources: Mapping[str, Source],
    plan: Plan,
    *,
    python: str | None = None,
    fix: bool = False,
    unsafe: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """The outcome with a verdict in each finding whose rule has a probe.

    sources: by path. python: the interpreter to use. fix: apply the fixes that a replay proves, unsafe ones, too, if
    `unsafe`. Raises NoInterpreter.
    """
    interpreter = find_interpreter(plan.settings.root, python)
    if not any(checked.result.findings for checked in outcome.checked):
        return outcome
    rules = load_rules(plan.settings)
    with Verifier(interpreter, rules, root=Path(plan.settings.root), cache=plan.cache) as verifier:
        work = [(f, c.data or b"") for c in outcome.checked for f in c.result.findings]
        verified = iter(verifier.verify(work, progress))
        done = []
        for checked in outcome.checked:
            findings = tuple(next(verified) for _ in checked.result.findings)
            checked = checked._replace(result=replace(checked.result, findings=findings))
            if fix and checked.data is not None:
                checked = _fixed(checked, sources[checked.result.path], plan, verifier, unsafe)
            done.append(checked)
    return replace(outcome, checked=tuple(done))


def _fixed(checked: Checked, source: Source, plan: Plan, verifier: Verifier, unsafe: bool) -> Checked:
    """A file with the fixes applied that are proved; checked and replayed again afterwards."""
    from torchlint.check import check_source
    from torchlint.fix import write_atomically

    data = checked.data
    assert data is not None
    options = plan.options(source.file)
    result, applied = checked.result, 0
    for _ in range(_ROUNDS):
        after, proved = prove(data, result.findings, verifier, unsafe)
        if not proved:
            break
        again = check_source(after, source.path, options)
        if again.errors:
            break
        verified = _verified(again.findings, after, verifier)
        data, result, applied = after, replace(again, findings=verified), applied + len(proved)
    if not applied:
        return checked
    try:
        write_atomically(source.file, data)
    except OSError as error:
        problem = FileError(source.path, f"the fixes can't be written: {error.strerror or error}")
        return checked._replace(result=replace(checked.result, errors=(*checked.result.errors, problem)))
    return Checked(result, data, applied)


def _verified(findings: tuple[Finding, ...], data: bytes, verifier: Verifier) -> tuple[Finding, ...]:
    return tuple(verifier.verify([(finding, data) for finding in findings]))
