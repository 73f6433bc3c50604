"""Many files: read, skipped if nothing can be found, looked up, checked or fixed, by processes if many."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from torchlint.files import Source
from torchlint.relevance import is_relevant
from torchlint.settings import Catalogue, Settings, SettingsError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torchlint.cache import Cache
    from torchlint.check import CheckOptions
    from torchlint.findings import FileResult
    from torchlint.rule import Rule

#: As many bytes of code are worth starting processes for.
_WORTH_PROCESSES = 300_000


class Mode(Enum):
    """What a run does with the fixes that it finds."""

    CHECK = "check"
    FIX = "fix"
    DIFF = "diff"


class Checked(NamedTuple):
    """What checking one file gave.

    data: the bytes that its findings' places refer to; None where there are no findings.
    fixed: how many fixes were applied (or would be). diff: of these, in the mode DIFF.
    """

    result: FileResult
    data: bytes | None = None
    fixed: int = 0
    diff: str = ""


class _Task(NamedTuple):
    source: Source
    options: CheckOptions
    mode: Mode
    unsafe: bool
    #: What a pipe gave, which can't be read a second time.
    data: bytes | None = None


@dataclass(frozen=True)
class Outcome:
    """What a run gave, of each file that wasn't skipped, in the order of the sources; and some counts."""

    checked: tuple[Checked, ...]
    files: int
    skipped: int = 0
    cached: int = 0
    processes: int = 1


# ---- which rules, for which file ---------------------------------------------------------------------------


class Plan:
    """The settings, with their rules looked up as late as they can be: loading rules loads LibCST.

    Names of rules in the settings are checked at once, unless the cache remembers that they were found right.
    cache_folder: where results are kept; None keeps none. Raises SettingsError.
    """

    def __init__(self, settings: Settings, cache_folder: str | None = None) -> None:
        self.settings = settings
        self._cache_folder = cache_folder
        self._resolved: dict[str, Any] | None = None
        self._digests: dict[str, str | None] = {}
        self._ignore_patterns: list[tuple[Any, frozenset[str]]] | None = None
        if settings.names_rules:
            self._resolve()

    @cached_property
    def cache(self) -> Cache | None:
        if self._cache_folder is None:
            return None
        from torchlint.cache import Cache

        return Cache(self._cache_folder)

    @cached_property
    def program(self) -> str:
        """A hash of the program and the settings, for the keys of the cache."""
        from torchlint import cache

        return cache.key(cache.program(self.settings.rule_paths), repr(self.settings))

    def digest(self, file: str) -> str | None:
        """A hash of a file's content, or of what a folder holds, taken once a run; None if it can't be read."""
        if file not in self._digests:
            from torchlint.cache import key

            try:
                if os.path.isdir(file):
                    from torchlint.placement.surroundings.texts import fingerprint

                    self._digests[file] = key(fingerprint(file))
                    return self._digests[file]
                with open(file, "rb") as opened:
                    self._digests[file] = key(opened.read())
            except OSError:
                self._digests[file] = None
        return self._digests[file]

    def options(self, file: str) -> CheckOptions:
        """What to check a file for."""
        from pathlib import Path

        from torchlint.check import CheckOptions
        from torchlint.findings import Confidence

        resolved = self._resolve()
        return CheckOptions(
            select=frozenset(resolved["select"]),
            ignore=self._ignored(file, resolved["per-file"]),
            confidence=Confidence(self.settings.confidence),
            device_expression=self.settings.device_expression,
            min_torch=self.settings.min_torch,
            rule_paths=tuple(map(Path, self.settings.rule_paths)),
            rule_options=resolved["options"],
        )

    def describe(self) -> str:
        """The settings as a settings file would have them, defaults and all."""
        import json

        settings, resolved = self.settings, self._resolve()
        shown: dict[str, Any] = {
            "select": resolved["select"],
            "exclude": [pattern for _, patterns in settings.exclude for pattern in patterns],
            "confidence": settings.confidence,
            "device-expression": settings.device_expression,
            "min-torch": ".".join(map(str, settings.min_torch)),
            "rule-paths": list(settings.rule_paths),
        }
        lines = [f"# {settings.source or 'defaults'}"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in shown.items() if value is not None]
        lines += ["", "[per-file-ignores]"] if resolved["per-file"] else []
        lines += [f"{json.dumps(pattern)} = {json.dumps(codes)}" for pattern, codes in resolved["per-file"]]
        for code, options in resolved["options"].items():
            lines += ["", f"[rules.{code}]", *(f"{key} = {json.dumps(v)}" for key, v in options.items())]
        return "\n".join(lines) + "\n"

    def _resolve(self) -> dict[str, Any]:
        if self._resolved is None:
            cache = self.cache
            self._resolved = cache.get(self.program) if cache is not None else None
            if self._resolved is None:
                self._resolved = _resolve(self.settings)
                if cache is not None:
                    cache.put(self.program, self._resolved)
        return self._resolved

    def _ignored(self, file: str, per_file: Sequence[tuple[str, Sequence[str]]]) -> frozenset[str]:
        if self._ignore_patterns is None:
            from torchlint.files import Excludes

            self._ignore_patterns = [
                (Excludes([(self.settings.root, (pattern,))]), frozenset(codes))
                for pattern, codes in per_file
            ]
        root = self.settings.root
        return frozenset().union(
            *(codes for where, codes in self._ignore_patterns if where.excludes_below(file, root, False))
        )


def load_rules(settings: Settings) -> dict[str, type[Rule]]:
    """All rules by code, the user's own too. Raises SettingsError where a file of rules can't be loaded."""
    from pathlib import Path

    from torchlint.rule import find_rules

    try:
        return find_rules(Path(path) for path in settings.rule_paths)
    except Exception as error:
        if not settings.rule_paths:
            raise
        paths = ", ".join(settings.rule_paths)
        raise SettingsError(f"rules of {paths} can't be loaded: {type(error).__name__}: {error}") from error


def _resolve(settings: Settings) -> dict[str, Any]:
    """The codes and options that the settings mean, as JSON values."""
    catalogue = Catalogue(load_rules(settings))
    where = f"{settings.source or '--config'}, `per-file-ignores`"
    return {
        "select": sorted(catalogue.select(settings.selections)),
        "per-file": [
            [pattern, sorted(catalogue.codes(selectors, where))]
            for pattern, selectors in settings.per_file_ignores
        ],
        "options": catalogue.options(settings),
    }


# ---- one file ----------------------------------------------------------------------------------------------


def check_bytes(
    data: bytes, source: Source, options: CheckOptions, mode: Mode, unsafe: bool
) -> tuple[Checked, bytes]:
    """Check one file's bytes, and fix them where the mode says so; also returns the bytes with fixes."""
    from torchlint.check import check_source
    from torchlint.findings import Safety

    result = check_source(data, source.path, options)
    wanted = (Safety.SAFE, Safety.UNSAFE) if unsafe else (Safety.SAFE,)
    if mode is Mode.CHECK or not any(f.fix is not None and f.fix.safety in wanted for f in result.findings):
        return Checked(result, data if result.findings else None), data
    from torchlint.fix import fix_source, unified_diff

    outcome = fix_source(data, source.path, options, unsafe)
    if mode is Mode.DIFF:
        diff = unified_diff(data, outcome.data, source.path)
        errors = (*result.errors, *(e for e in outcome.errors if e not in result.errors))
        return Checked(replace(result, errors=errors), data, outcome.applied, diff), outcome.data
    result = outcome.result
    errors = (*result.errors, *(e for e in outcome.errors if e not in result.errors))
    left = outcome.data if result.findings else None
    return Checked(replace(result, errors=errors), left, outcome.applied), outcome.data


def _run_task(task: _Task) -> Checked:
    """Read, check and perhaps rewrite one file; whatever goes wrong becomes an error of that file."""
    from torchlint.findings import FileError, FileResult

    path = task.source.path
    data = task.data
    if data is None:
        try:
            with open(task.source.file, "rb") as file:
                data = file.read()
        except OSError as error:
            return _unreadable(path, error)
    try:
        checked, fixed = check_bytes(data, task.source, task.options, task.mode, task.unsafe)
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        return Checked(FileResult(path, errors=(FileError(path, message, internal=True),)))
    if task.mode is Mode.FIX and fixed != data:
        from torchlint.fix import write_atomically

        try:
            write_atomically(task.source.file, fixed)
        except OSError as error:
            message = f"the fixes can't be written: {error.strerror or error}"
            return Checked(FileResult(path, errors=(FileError(path, message),)))
    return checked


def _unreadable(path: str, error: OSError) -> Checked:
    from torchlint.findings import FileError, FileResult

    return Checked(FileResult(path, errors=(FileError(path, f"can't be read: {error.strerror or error}"),)))


# ---- many files --------------------------------------------------------------------------------------------


def check_files(
    sources: Sequence[Source],
    plan: Plan,
    *,
    mode: Mode = Mode.CHECK,
    unsafe: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Check files, and fix them where the mode says so.

    jobs: how many processes; None leaves it to the amount of code. progress: is told how many files of how
    many are done. Raises SettingsError where settings name rules that aren't there.
    """
    done: dict[int, Checked] = {}
    tasks: dict[int, _Task] = {}
    keys: dict[int, str] = {}
    skipped = size = 0
    for index, source in enumerate(sources):
        try:
            with open(source.file, "rb") as file:
                data = file.read()
        except OSError as error:
            done[index] = _unreadable(source.path, error)
            continue
        if not plan.settings.rule_paths and not is_relevant(data):
            skipped += 1  # the user's own rules may have other triggers, and to know them costs loading them
            continue
        if plan.cache is not None:
            from torchlint.cache import key

            keys[index] = key("result", plan.program, source.path, source.file, data)
            known = _recall(plan, keys[index], data, mode, unsafe)
            if known is not None:
                done[index] = known
                continue
        again = None if os.path.isfile(source.file) else data
        tasks[index] = _Task(source, plan.options(source.file), mode, unsafe, again)
        size += len(data)
    cached = sum(1 for index in keys if index in done)
    processes = _processes(jobs, len(tasks), size)
    for count, (index, checked) in enumerate(_run_tasks(tasks, processes), len(done) + 1):
        done[index] = checked
        if plan.cache is not None:
            _remember(plan, keys[index], checked, mode)
        if progress is not None:
            progress(count + skipped, len(sources))
    if tasks and plan.cache is not None:
        plan.cache.prune()
    return Outcome(tuple(done[i] for i in sorted(done)), len(sources), skipped, cached, processes)


def _recall(plan: Plan, key: str, data: bytes, mode: Mode, unsafe: bool) -> Checked | None:
    """What the cache knows of a file, unless a file it rests on has changed, or its fixes are asked for."""
    assert plan.cache is not None
    entry = plan.cache.get(key)
    if entry is None:
        return None
    from torchlint.cache import from_json
    from torchlint.findings import Safety

    try:
        result = from_json(entry["result"])
        if any(plan.digest(file) != digest for file, digest in entry["uses"].items()):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    wanted = (Safety.SAFE, Safety.UNSAFE) if unsafe else (Safety.SAFE,)
    if mode is not Mode.CHECK and any(f.fix is not None and f.fix.safety in wanted for f in result.findings):
        return None
    return Checked(result, data if result.findings else None)


def _remember(plan: Plan, key: str, checked: Checked, mode: Mode) -> None:
    """Store what belongs to the bytes that the key was made of: nothing that was fixed, and no failures."""
    assert plan.cache is not None
    if checked.fixed or checked.result.errors:
        return
    from torchlint.cache import to_json

    used = checked.result.extra.get("dependencies", ())
    if used and mode is Mode.FIX:
        return  # this run may have changed them since they were read
    assert isinstance(used, (list, tuple))
    uses = {str(file): plan.digest(str(file)) for file in used}
    plan.cache.put(key, {"result": to_json(checked.result), "uses": uses})


def _processes(jobs: int | None, tasks: int, size: int) -> int:
    if jobs is None:
        if tasks < 2 or size < _WORTH_PROCESSES:
            return 1
        affinity = getattr(os, "sched_getaffinity", None)
        jobs = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(jobs, tasks))


def _run_tasks(tasks: dict[int, _Task], processes: int) -> Iterable[tuple[int, Checked]]:
    """The results of tasks, each with its index, as they come."""
    if processes <= 1:
        for index, task in tasks.items():
            yield index, _run_task(task)
        return
    # The longest first, so that no process is left with a long one at the end.
    waiting = sorted(tasks, key=lambda index: -_size(tasks[index]))
    while waiting:
        finished: set[int] = set()
        for index, checked in _run_pool(tasks, waiting, processes):
            finished.add(index)
            yield index, checked
        left = [index for index in waiting if index not in finished]
        # Only a crash leaves tasks. One of those that the pool had taken up did it (one a process, as many
        # made ready, and one more), so they run alone, and the crash is that file's own.
        taken_up = 2 * processes + 1
        suspects, waiting = left[:taken_up], left[taken_up:]
        for index in suspects:
            alone = dict(_run_pool(tasks, [index], 1))
            yield index, alone.get(index) or _crashed(tasks[index])


def _size(task: _Task) -> int:
    try:
        return os.stat(task.source.file).st_size
    except OSError:
        return 0


def _run_pool(
    tasks: dict[int, _Task], indices: Sequence[int], processes: int
) -> Iterable[tuple[int, Checked]]:
    """The results that a pool of processes gives before it is done, or breaks because one of them died."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Forked processes have LibCST and the rules in them already; elsewhere than on Linux forking isn't safe.
    context = get_context("fork") if sys.platform == "linux" else get_context()
    pool = ProcessPoolExecutor(processes, context, _start_worker)
    try:
        futures: dict[Future[Checked], int] = {pool.submit(_run_task, tasks[i]): i for i in indices}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                continue
    except BrokenProcessPool:
        pass  # broke while tasks were still being handed in
    except BaseException:
        _kill(pool)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def collect_seldom() -> None:
    """Have garbage collected seldom in this process: syntax trees are many objects, and hold few cycles."""
    import gc

    gc.set_threshold(1_000_000, 50, 100)


def _start_worker() -> None:
    """Ctrl-C is for the parent, which ends its workers."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()


def _kill(pool: Any) -> None:
    """Stop a pool's processes now: who presses Ctrl-C will not wait for a long file."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.kill()


def _crashed(task: _Task) -> Checked:
    from torchlint.findings import FileError, FileResult

    path = task.source.path
    message = "internal error: the process that checked it died"
    return Checked(FileResult(path, errors=(FileError(path, message, internal=True),)))
