"""Names that say of themselves that they tell whether, or which, accelerators are to be used."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.placement.values import Kind, Value

_ACCELERATORS = frozenset("cuda gpu gpus ngpu ngpus mps xpu npu hpu cpu accelerator accelerators".split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FLAG = frozenset({"flag"})
_KINDS = (Kind.UNKNOWN, Kind.NUMBER, Kind.SEQUENCE, Kind.STRING, Kind.NONE)


@lru_cache(maxsize=4096)
def speaks_of_accelerators(name: str) -> bool:
    """Whether a word in a name is one of an accelerator or of its absence: `use_cuda`, `nGPU`, `cpu_only`."""
    return not _ACCELERATORS.isdisjoint(word.lower() for word in _WORD.findall(name))


def as_flag(value: Value, name: str) -> Value:
    """The value, whose truth is a question for the accelerator if its name says so."""
    if value.tests or not speaks_of_accelerators(name):
        return value
    if value.kind not in _KINDS and not (value.kind is Kind.API and name.isupper()):
        return value
    return value.but(tests=_FLAG)
