"""Room for deep recursion, which syntax trees of long chains need."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

_STACK_BYTES = 256 << 20  # reserved, not used: the system gives pages when they are touched
_LIMIT = 50_000


def deeply(work: Callable[[], _Result]) -> _Result:
    """Call `work`, and once more with a large stack if the interpreter's recursion limit stops it.

    Raises what `work` raises, RecursionError included where even that is not enough.
    """
    try:
        return work()
    except RecursionError:
        return _in_large_stack(work)


def _in_large_stack(work: Callable[[], _Result]) -> _Result:
    results: list[_Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # handed on to the caller below
            failures.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    try:
        threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(max(limit, _LIMIT))
        thread = threading.Thread(target=run, name="torchlint-deep")
        thread.start()
        thread.join()
    except (RuntimeError, ValueError):  # no such stack to be had here
        raise RecursionError("nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    if failures:
        raise failures[0]
    return results[0]
