"""Results kept between runs, each under a hash of all that it depends on; losing them costs only time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from torchlint import __version__
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
    Verdict,
)

#: What the cache may hold, and what pruning leaves of it: the entries used last.
_MOST_BYTES = 64 * 2**20
_KEPT_BYTES = 32 * 2**20

#: Pruning looks at every entry, so it is done this seldom (seconds), and a hit renews an entry this seldom.
_BETWEEN_PRUNINGS = 24 * 3600.0


class Cache:
    """A folder of entries. Nothing here raises: what can't be read or written is not there.

    Entries are written to a file of their own and renamed, so that runs at the same time don't disturb each
    other.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writable = True

    def get(self, key: str) -> Any:
        """The JSON value stored under a key, or None."""
        file = self._file(key)
        try:
            with open(file, "rb") as entry:
                data = entry.read()
            digest, _, payload = data.partition(b"\n")
            if digest.decode("ascii", "replace") != _digest((payload,)):
                return None
            if time.time() - os.stat(file).st_mtime > _BETWEEN_PRUNINGS:
                os.utime(file)
            return json.loads(payload)
        except (OSError, ValueError, RecursionError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value under a key."""
        if not self._writable:
            return
        try:
            payload = json.dumps(value, separators=(",", ":")).encode()
        except (TypeError, ValueError):
            return  # holds something that JSON can't say
        file = self._file(key)
        temporary = f"{file}.{os.getpid()}.tmp"
        try:
            if not os.path.isdir(os.path.dirname(file)):
                self._prepare(os.path.dirname(file))
            with open(temporary, "wb") as entry:
                entry.write(_digest((payload,)).encode() + b"\n" + payload)
            os.replace(temporary, file)
        except OSError:
            self._writable = False
            _remove(temporary)

    def prune(self) -> None:
        """Drop the entries used longest ago if there are too many; looks at most once a day."""
        stamp = os.path.join(self._folder, "pruned")
        try:
            if time.time() - os.stat(stamp).st_mtime < _BETWEEN_PRUNINGS:
                return
        except OSError:
            pass
        try:
            with open(stamp, "wb"):
                pass
            os.utime(stamp)
        except OSError:
            return  # no cache, or none that may be changed
        entries = sorted(_entries(self._folder), reverse=True)
        total = sum(size for _, size, _ in entries)
        if total <= _MOST_BYTES:
            return
        kept = 0
        for _, size, file in entries:
            kept += size
            if kept > _KEPT_BYTES:
                _remove(file)

    def _file(self, key: str) -> str:
        return os.path.join(self._folder, key[:2], key[2:])

    def _prepare(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        for name, text in (
            (".gitignore", "# Made by torchlint.\n*\n"),
            # https://bford.info/cachedir: backup tools leave such a folder out.
            ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"),
        ):
            file = os.path.join(self._folder, name)
            if not os.path.exists(file):
                with open(file, "w", encoding="utf-8") as opened:
                    opened.write(text)


def _entries(folder: str) -> Iterable[tuple[float, int, str]]:
    """When it was last used, the size and the file of each entry."""
    for outer in os.scandir(folder):
        if not outer.is_dir(follow_symlinks=False) or len(outer.name) != 2:
            continue
        for entry in os.scandir(outer.path):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # another run was quicker
            yield status.st_mtime, status.st_size, entry.path


def _remove(file: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(file)


def _digest(parts: Iterable[bytes]) -> str:
    """A hash of the parts; their lengths count, so that no two lists of parts read as one text."""
    hasher = blake2b(digest_size=20)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.hexdigest()


def key(*parts: str | bytes) -> str:
    """The key of what these parts determine."""
    return _digest(
        part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts
    )


def program(rule_paths: Iterable[str]) -> str:
    """A hash of what checks the files: torchlint with its rules, LibCST, Python, and the user's own rules.

    torchlint's own files count by name, size and time, so that a working copy under change is noticed, too;
    the user's rules by content.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    parts: list[str | bytes] = [__version__, sys.version, *_stamps(here)]
    rules = _package_folder("torchlint.rules", os.path.join(here, "rules"))
    if os.path.dirname(rules) != here:  # an editable install
        parts += _stamps(rules)
    libcst = _package_folder("libcst", "")
    try:
        parts.append(f"{libcst} {os.stat(os.path.join(libcst, '_version.py')).st_mtime_ns}")
    except OSError:
        parts.append(libcst)
    for path in rule_paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".py"))
        for file in files:
            try:
                with open(file, "rb") as opened:
                    parts += [file, opened.read()]
            except OSError:
                parts.append(file)
    return key(*parts)


def _package_folder(name: str, expected: str) -> str:
    """Where a package lies, found without importing it; `expected` is looked at first."""
    if expected and os.path.isdir(expected):
        return expected
    from importlib.util import find_spec

    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else expected


def _stamps(folder: str) -> list[str]:
    stamps = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            try:
                status = os.stat(os.path.join(top, name))
            except OSError:
                continue
            stamps.append(f"{os.path.relpath(top, folder)}/{name} {status.st_size} {status.st_mtime_ns}")
    return stamps


# ---- results as JSON ---------------------------------------------------------------------------------------


def to_json(result: FileResult) -> dict[str, Any]:
    """A result as JSON values, such that `from_json` gives it back."""
    values = asdict(result)
    for finding in values["findings"]:
        for name in ("severity", "confidence"):
            finding[name] = finding[name].value
        if finding["fix"] is not None:
            finding["fix"]["safety"] = finding["fix"]["safety"].value
    return values


def from_json(values: dict[str, Any]) -> FileResult:
    """The result that `to_json` was given. Raises KeyError, TypeError or ValueError for anything else."""
    return FileResult(
        path=values["path"],
        findings=tuple(_finding(finding) for finding in values["findings"]),
        errors=tuple(FileError(**error) for error in values["errors"]),
        suppressed=values["suppressed"],
        extra=values["extra"],
    )


def _finding(values: dict[str, Any]) -> Finding:
    fix, verdict = values["fix"], values["verdict"]
    return Finding(
        **{
            **values,
            "severity": Severity(values["severity"]),
            "confidence": Confidence(values["confidence"]),
            "range": _range(values["range"]),
            "related": tuple(Related(**{**r, "range": _range(r["range"])}) for r in values["related"]),
            "fix": fix and Fix(fix["message"], Safety(fix["safety"]), tuple(Edit(**e) for e in fix["edits"])),
            "verdict": verdict and Verdict(**{**verdict, "assumed": tuple(verdict["assumed"])}),
        }
    )


def _range(values: dict[str, Any]) -> Range:
    return Range(Position(**values["start"]), Position(**values["end"]))
