"""Holds the facts of torch against torch's own sample inputs: `python -m tools.torch_check`.

torch ships sample calls for most of its operators (`torch.testing._internal.common_methods_invocations`).
Each is made, as a function and as a method, and compared with what `torchlint.placement.knowledge.torch_api` says of
it: which overload it is, what it returns and of which rank, whether it draws random numbers or waits for a
value.
"""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from tools.torch_probe import Watch, resolve
from torchlint.placement.knowledge import torch_api
from torchlint.placement.knowledge.torch_api import Overload, Rank, Result

SAMPLES = 12
# Waits that depend on an argument's value, which the facts leave to their reader: a mask, a negative power.
VALUE_DEPENDENT_WAITS = ("__getitem__", "torch.linalg.matrix_power")


def main() -> int:
    """Print how many calls were made and every fact that one of them contradicts; 1 if there is any."""
    counts: Counter[str] = Counter()
    wrong: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, method, call, arguments, keywords in _calls():
            counts["methods" if method else "functions"] += 1
            wrong.update(
                f"{name}: {fault}" for fault in _faults(name, method, call, arguments, keywords, counts)
            )
    for fault in sorted(wrong):
        print(fault)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())), f"- {len(wrong)} wrong")
    return 1 if wrong else 0


def _calls() -> Iterator[tuple[str, bool, Any, list[Any], dict[str, Any]]]:
    """Name, whether it is a method, callable, arguments and keywords of every sample that is described."""
    expect: Any = types.ModuleType("expecttest")  # torch's module wants it, the samples do not
    expect.TestCase, expect.assert_expected_inline = object, print
    sys.modules.setdefault("expecttest", expect)
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes), torch.int64)
        samples = []
        with contextlib.suppress(Exception):  # some want packages or devices that are not here
            make: Any = op.sample_inputs
            samples = list(make("cpu", dtype))[:SAMPLES]
        function, method = f"torch.{op.name}", getattr(op.method_variant, "__name__", "")
        for sample in samples:
            arguments = [sample.input, *sample.args]
            if torch_api.overloads(function):
                yield function, False, resolve(function), arguments, dict(sample.kwargs)
            if torch_api.is_method(method) and isinstance(sample.input, torch.Tensor):
                yield method, True, op.method_variant, arguments, dict(sample.kwargs)


def _faults(
    name: str, method: bool, call: Any, arguments: list[Any], keywords: dict[str, Any], counts: Counter[str]
) -> Iterator[str]:
    watch, out = Watch(), None
    with contextlib.suppress(Exception), watch:  # a sample that fails says nothing
        out = call(*arguments, **keywords)
    if out is None:
        return
    known = torch_api.method_overloads(name) if method else torch_api.overloads(name)
    given = [_is_tensor(a) for a in arguments[1 if method else 0 :]]
    binding = torch_api.bind(known, given, {k: _is_tensor(v) for k, v in keywords.items()})
    if binding is None:
        yield "no overload takes the sample"
        return
    if binding.certain and not _agrees(binding.overload, out):
        yield f"returns {type(out).__name__}, not {binding.overload.result.name}"
    first = out[0] if isinstance(out, (tuple, list)) and out else out
    if binding.rank is not None and binding.certain and isinstance(first, torch.Tensor):
        counts["ranks"] += 1
        ranks = [t.dim() for t in _tensors([*arguments, *keywords.values()])]
        if not _holds(binding.rank, ranks, first.dim()):
            yield f"gives rank {first.dim()} from {ranks}, not {binding.rank.name}"
    waits = torch_api.HIDDEN_SYNC_METHODS | torch_api.EXPLICIT_SYNC_METHODS if method else torch_api.SYNCS
    unwrapped = any(
        tensor and not p.kind.is_tensor for tensor, p in zip(given, binding.positional, strict=True)
    )
    if watch.waits and not unwrapped and name not in waits and name not in VALUE_DEPENDENT_WAITS:
        yield "waits"
    if watch.draws and name not in (torch_api.RANDOM_METHODS if method else torch_api.RANDOM):
        yield "draws"


def _is_tensor(value: Any) -> bool:
    several = (
        isinstance(value, (tuple, list)) and bool(value) and all(isinstance(v, torch.Tensor) for v in value)
    )
    return several or isinstance(value, torch.Tensor)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _agrees(overload: Overload, out: Any) -> bool:
    if overload.result is Result.TENSOR:
        return isinstance(out, torch.Tensor)
    if overload.result is Result.TENSORS:
        return isinstance(out, (tuple, list)) and overload.arity in (None, len(out))
    return overload.result is not Result.HOST or not isinstance(out, torch.Tensor)


def _holds(rank: Rank, ranks: list[int], result: int) -> bool:
    if rank is Rank.SOME:
        return result > 0
    return (
        result == {Rank.SAME: max(ranks, default=0), Rank.FIRST: ranks[0] if ranks else 0, Rank.ZERO: 0}[rank]
    )


if __name__ == "__main__":
    raise SystemExit(main())
