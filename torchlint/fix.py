"""Edits → new text: fixes are applied in rounds until none is left, and files are written as a whole."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from torchlint.check import CheckOptions, check_source, read
from torchlint.findings import Edit, FileError, FileResult, Finding, Fix, Safety
from torchlint.relevance import is_relevant
from torchlint.source import Unreadable, decode
from torchlint.splice import overlap, rewrite, touch

_ROUNDS = 10

Check = Callable[[bytes, str, CheckOptions], FileResult]


@dataclass(frozen=True)
class FixOutcome:
    """What fixing a file gave.

    data: the new bytes; the old ones where nothing was fixed. applied: how many fixes that took; fixed: the
    findings they belong to, as they stood in their round. result: the check of the new bytes.
    errors: why fixes were not applied.
    """

    path: str
    data: bytes
    applied: int
    fixed: tuple[Finding, ...]
    result: FileResult
    errors: tuple[FileError, ...] = ()


def apply_fixes(
    text: str, findings: Iterable[Finding], unsafe: bool = False
) -> tuple[str, list[Finding], list[Finding]]:
    """Apply the fixes of findings to the text that they are about.

    Returns the new text, the findings whose fixes were applied, and those whose fixes have to wait because an
    earlier one touches the same place. Each fix is applied whole or not at all. unsafe: unsafe ones, too.
    """
    edits, applied, skipped = choose(findings, unsafe)
    return rewrite(text, edits), applied, skipped


def choose(
    findings: Iterable[Finding], unsafe: bool = False
) -> tuple[list[Edit], list[Finding], list[Finding]]:
    """The edits of fixes that can be applied at once, their findings, and those that are left for later."""
    taken: dict[Edit, None] = {}
    applied: list[Finding] = []
    skipped: list[Finding] = []
    for finding in findings:
        if finding.fix is None or not finding.fix.edits or not _may_apply(finding.fix, unsafe):
            continue
        # Fixes may share an edit, such as an import that both need.
        own = [edit for edit in dict.fromkeys(finding.fix.edits) if edit not in taken]
        if any(overlap(*pair) for pair in combinations(own, 2)) or any(
            touch(a, b) for a in own for b in taken
        ):
            skipped.append(finding)
        else:
            taken.update(dict.fromkeys(own))
            applied.append(finding)
    return list(taken), applied, skipped


def _may_apply(fix: Fix, unsafe: bool) -> bool:
    return fix.safety is Safety.SAFE or (unsafe and fix.safety is Safety.UNSAFE)


def fix_source(
    data: bytes,
    path: str,
    options: CheckOptions,
    unsafe: bool = False,
    *,
    known: FileResult | None = None,
    check: Check = check_source,
) -> FixOutcome:
    """Apply the fixes of a file's findings, check what comes out, and go on until none is left to apply.

    The bytes outside of the edits stay what they are. Where a fix would leave a file that cannot be read, or
    fixes undo each other, the file is left as it was and that is an error of the outcome.
    known: the check of `data`, if it has been made. check: stands in for `check_source`.
    """
    first = result = check(data, path, options) if known is None else known
    current = data
    fixed: list[Finding] = []
    seen = {data}

    def left_alone(why: str, *, internal: bool = True) -> FixOutcome:
        return FixOutcome(path, data, 0, (), first, (FileError(path, why, internal),))

    for _ in range(_ROUNDS):
        edits, applied, _ = choose(result.findings, unsafe)
        codes = ", ".join(sorted({finding.code for finding in applied}))
        try:
            after = _rewritten(current, path, edits) if edits else current
        except UnicodeError as error:
            why = f"the fix of {codes} cannot be written in the file's encoding: {error}"
            return left_alone(why, internal=False)
        if after == current:
            return FixOutcome(path, current, len(fixed), tuple(fixed), result)
        if after in seen:
            return left_alone(f"the fixes of {codes} undo each other; the file was left as it was")
        before, result = result, check(after, path, options)
        if _unreadable(result, after, path) > _unreadable(before, current, path):
            return left_alone(f"the fix of {codes} would break the file; it was left as it was")
        seen.add(after)
        current = after
        fixed += applied
    waiting = choose(result.findings, unsafe)[1]
    errors = (FileError(path, f"fixes are left after {_ROUNDS} rounds"),) if waiting else ()
    return FixOutcome(path, current, len(fixed), tuple(fixed), result, errors)


def _rewritten(data: bytes, path: str, edits: Sequence[Edit]) -> bytes:
    """A file's bytes with edits applied. Raises UnicodeError where its encoding doesn't allow it."""
    program = read(data, path)
    if program.rewritten(()) != data:
        raise UnicodeError("it does not give back the same bytes")
    return program.rewritten(edits)


def _unreadable(result: FileResult, data: bytes, path: str) -> int:
    """How many parts of a file could not be read; one without triggers was checked without reading it."""
    count = int(str(result.extra.get("unreadable", 0)))
    if count or is_relevant(data):
        return count
    try:
        return len(read(data, path).parse()[1])
    except Unreadable:
        return 1


# ---- files -------------------------------------------------------------------------------------------------


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file's content, whole or not at all; its mode and, as far as allowed, its owner stay.

    A symbolic link stays one: the file that it leads to is replaced. Raises OSError.
    """
    target = os.path.realpath(path)
    old = os.stat(target)
    handle, temporary = tempfile.mkstemp(prefix=".torchlint-", dir=os.path.dirname(target))
    try:
        with open(handle, "wb") as file:
            file.write(data)
        if hasattr(os, "chown") and (os.stat(temporary).st_uid, os.stat(temporary).st_gid) != (
            old.st_uid,
            old.st_gid,
        ):
            with contextlib.suppress(OSError):
                os.chown(temporary, old.st_uid, old.st_gid)
        os.chmod(temporary, stat.S_IMODE(old.st_mode))  # after chown, which takes the set-user-id bit away
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def unified_diff(old: bytes, new: bytes, path: str) -> str:
    """The change of a file as `diff -u` prints it, for `patch -p0`; empty where there is none.

    Line ends are kept; bytes that are no text in the file's encoding are shown as replacement characters.
    """
    from difflib import unified_diff as diff

    parts = []
    for line in diff(_lines(old), _lines(new), path, path):
        parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _lines(data: bytes) -> list[str]:
    """The lines of a file as patch counts them: by line feeds alone."""
    try:
        text = decode(data).text
    except Unreadable:
        text = data.decode("utf-8", "replace")
    return re.findall(r"[^\n]*\n|[^\n]+", text)
