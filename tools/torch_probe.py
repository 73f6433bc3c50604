"""What torch's callables do when called: ranks, draws, waits, default devices, APIs of absent vendors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.overrides
from torch.utils._python_dispatch import TorchDispatchMode

from tools import torch_by_hand
from tools.torch_signatures import Parameter, Signature

# Never called: they change the process, start something, or would read what is not there.
_NEVER = (
    "set_", "use_", "init_", "import_", "load", "save", "fork", "wait", "compile", "export", "vmap", "seed",
    "from_file", "cond", "while_loop", "autocast", "clear_autocast", "parse_", "merge_", "unify_",
    "profiler", "prepare_", "share_memory", "apply_", "map_", "map2_", "backward", "register", "retain",
    "cuda", "xpu", "mtia", "ipu", "hpu", "pin_memory", "get_file_path", "cudnn_", "miopen_", "mkldnn_",
    "fbgemm_", "quantized_", "resize", "storage", "module_load", "rnn_", "lstm", "gru", "sspaddmm", "hspmm",
)  # fmt: skip
_WAITS = {"aten::_local_scalar_dense", "aten::equal", "aten::allclose", "aten::is_nonzero", "aten::item",
          "aten::_linalg_check_errors"}  # fmt: skip
_BY_NAME: dict[str, Any] = {
    "dim": 0, "dim0": 0, "dim1": 0, "axis0": 0, "axis1": 0, "dims": (0,), "p": 0.5, "k": 1, "n": 1,
    "n_fft": 2, "size": (2,), "sizes": (2,), "repeats": 1, "chunks": 1, "sections": 1, "split_size": 1,
    "shifts": 1, "num_samples": 1, "num_classes": 3, "output_size": 1, "kernel_size": 1, "pad": (0, 0),
    "diagonal": 0, "dtype": torch.float32, "start": 0, "length": 1, "step": 1, "dimension": 0, "source": 0,
    "destination": 0, "lambd": 0.1, "negative_slope": 0.1, "eps": 1e-5, "threshold": 0.1, "value": 0.1,
    "min_val": 0.0, "max_val": 1.0, "max_norm": 1.0, "norm_type": 2.0, "momentum": 0.1, "training": True,
    "lower": 0.1, "upper": 0.2, "equation": "...->...", "padding": 0,
}  # fmt: skip
_INDEX_NAMES = ("index", "indices", "target_index", "tensor_indices_or_sections")


@dataclass
class Probed:
    """What calls showed, by name: flags of each overload (`_rank_flag`); which draw; which wait."""

    flags: dict[str, list[str]] = field(default_factory=dict)
    random: set[str] = field(default_factory=set)
    syncs: set[str] = field(default_factory=set)


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an operator runs that draws random numbers, or whose result depends on data."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = False
        self.waits = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draws = self.draws or torch.Tag.nondeterministic_seeded in func.tags
        dependent = (
            torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
        )
        self.waits = self.waits or dependent or func._schema.name in _WAITS
        return func(*args, **(kwargs or {}))


def probe_functions(table: Mapping[str, list[Signature]]) -> Probed:
    """Call every function that takes tensors with small ones of rank 0 to 4."""
    found = Probed()
    for name, signatures in table.items():
        short = name.rpartition(".")[2]
        if name.count(".") == 1 and has_tag(short, torch.Tag.nondeterministic_seeded):
            found.random.add(name)
        function = resolve(name)
        elementwise = "e" if is_elementwise(name) else ""
        found.flags[name] = [elementwise] * len(signatures)
        if not short.startswith(_NEVER):
            ranks = [_probe(name, function, signature, found) for signature in signatures]
            found.flags[name] = [rank + elementwise for rank in ranks]
    return found


def probe_methods(table: Mapping[str, list[Signature]]) -> Probed:
    """Call every method of Tensor on small tensors of rank 0 to 4."""
    found = Probed()
    receiver = Parameter("input", "T")
    for name, signatures in table.items():
        elementwise = "e" if is_elementwise(name) else ""
        found.flags[name] = [elementwise] * len(signatures)
        if name.startswith("__") or not name.startswith(_NEVER):
            call = functools.partial(_call_method, name)
            with_receiver = [((receiver, *parameters), result) for parameters, result in signatures]
            found.flags[name] = [_probe(name, call, s, found) + elementwise for s in with_receiver]
    return found


def _call_method(name: str, receiver: torch.Tensor, *arguments: Any) -> Any:
    return getattr(receiver, name)(*arguments)


def _probe(name: str, call: Callable[..., Any], signature: Signature, found: Probed) -> str:
    """Call one overload with what it requires, note draws and waits, and return the flag of its ranks."""
    required = [p for p in signature[0] if not p.optional and not p.keyword_only]
    tensors = [p for p in required if p.kind in "TL"]
    if not tensors:
        return ""
    ranks: set[tuple[int, int, int]] = set()
    for combination in _combinations(len(tensors)):
        for dtype in (torch.float32, torch.int64, torch.bool):
            watch = Watch()
            result = None
            # Whatever a call with made-up arguments raises says nothing; what ran before does.
            with contextlib.suppress(Exception):
                places = iter(combination)
                arguments = [_argument(p, next(places) if p in tensors else 0, dtype) for p in required]
                with warnings.catch_warnings(), watch:
                    warnings.simplefilter("ignore")
                    result = call(*arguments)
            if watch.draws:
                found.random.add(name)
            if watch.waits:
                found.syncs.add(name)
            one = result[0] if isinstance(result, (tuple, list)) and result else result
            if isinstance(one, torch.Tensor):
                ranks.add((combination[0], max(combination), one.dim()))
                break
    shaped = any(p.name in _SHAPES for p in required) or name.rpartition(".")[2] in _DATA_DEPENDENT_RANK
    return "" if shaped else _rank_flag(ranks, several=len(tensors) > 1)


# The rank of these results depends on an argument that no probe varies, or on the sizes.
_SHAPES = ("size", "sizes", "shape", "equation", "repeats")
_DATA_DEPENDENT_RANK = (
    "cartesian_prod", "histogramdd", "reshape_as", "squeeze", "squeeze_", "squeeze_copy", "tensordot", "tile",
    "view_as",
)  # fmt: skip


def _combinations(count: int) -> Iterator[tuple[int, ...]]:
    """Ranks to try for so many tensors: all alike; the first another than the rest; the third and later 0."""
    yield from ((rank,) * count for rank in range(5))
    for first, second in itertools.permutations(range(4), 2):
        if count > 1:
            yield (first, *(second,) * (count - 1))
        if count > 2:
            yield (first, second, *(0,) * (count - 2))


def _rank_flag(ranks: set[tuple[int, int, int]], several: bool) -> str:
    """What holds of all (first rank, highest rank, rank of the result) that were seen.

    `s`: the highest rank of an operand; `f`: the first one's; `z`: 0-dim; `p`: never 0-dim. Where operands
    had to be alike, the first one's is all that is known.
    """
    if not any(highest > 0 for _, highest, _ in ranks):
        return ""
    if several and all(result == first for first, _, result in ranks):
        return "f"
    if all(result == highest for _, highest, result in ranks):
        return "s"
    if all(result == 0 for _, _, result in ranks):
        return "z"
    return "p" if all(result > 0 for _, _, result in ranks) else ""


def _argument(parameter: Parameter, rank: int, dtype: torch.dtype) -> Any:
    name, kind = parameter.name, parameter.kind
    if kind == "T":
        wants_index = name in _INDEX_NAMES
        return (
            torch.zeros([2] * rank, dtype=torch.int64)
            if wants_index
            else torch.full([2] * rank, 0.5).to(dtype)
        )
    if kind == "L":
        return [torch.full([2] * rank, 0.5).to(dtype)] * 2
    if name in _BY_NAME:
        return _BY_NAME[name]
    if kind in "SN":
        return 1
    if kind == "D":
        return "cpu"
    raise LookupError(name)


def has_tag(native: str, tag: torch.Tag) -> bool:
    """Whether an overload of a native operator has a dispatch tag."""
    packet = getattr(torch.ops.aten, native, None)
    if packet is None or not hasattr(packet, "overloads"):
        return False
    return any(tag in getattr(packet, o).tags for o in packet.overloads())


def is_elementwise(name: str) -> bool:
    """Whether a function (by qualified name) or method (by bare one) is an elementwise kernel of torch.

    Python functions are not: they may expand operands first, and an expanded 0-dim tensor is none any more.
    """
    short = name.rpartition(".")[2]
    if short.startswith("__") and short.endswith("__"):
        return _is_operator(short)
    if "." in name and inspect.isfunction(resolve(name)):
        return False
    namespace = name.split(".")[1] if "." in name else ""
    native = f"{namespace}_{short}" if namespace in ("linalg", "special") else short
    return any(has_tag(n, torch.Tag.pointwise) for n in (native, short, short.removesuffix("_")))


def _is_operator(dunder: str) -> bool:
    bare = dunder.strip("_")
    return any(bare == prefix + name for name in _OPERATORS for prefix in ("", "r", "i"))


_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "eq",
    "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert",
)  # fmt: skip


def resolve(name: str) -> Any:
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def obeying_default_device(table: Mapping[str, list[Signature]]) -> set[str]:
    """Functions without a tensor among their parameters whose result goes to the default device."""
    found: set[str] = set()
    for name, signatures in table.items():
        for parameters, result in signatures:
            if (
                result != "T"
                or any(p.kind in "TL" for p in parameters)
                or name.rpartition(".")[2].startswith(_NEVER)
            ):
                continue
            required = [p for p in parameters if not p.optional and not p.keyword_only]
            try:
                with warnings.catch_warnings(), torch.device("meta"):
                    warnings.simplefilter("ignore")
                    value = resolve(name)(*(_argument(p, 1, torch.float32) for p in required))
            except Exception:  # made-up arguments, as above
                continue
            if isinstance(value, torch.Tensor) and value.is_meta:
                found.add(name)
    return found


_VENDORS = (
    "torch.cuda", "torch.cuda.memory", "torch.cuda.random", "torch.cuda.amp", "torch.cuda.nvtx", "torch.mps",
    "torch.xpu", "torch.xpu.memory", "torch.xpu.random", "torch.backends.cuda", "torch.backends.cudnn",
    "torch.backends.mps",
)  # fmt: skip
_VENDOR_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "manual_seed": (0,), "manual_seed_all": (0,), "set_device": (0,), "device": (0,),
    "can_device_access_peer": (0, 1), "set_per_process_memory_fraction": (0.5,),
    "set_sync_debug_mode": (0,), "set_stream": (None,), "stream": (None,), "set_rng_state": (torch.zeros(16,
    dtype=torch.uint8),), "device_of": (torch.zeros(1),), "enable_flash_sdp": (True,),
    "enable_math_sdp": (True,), "enable_mem_efficient_sdp": (True,), "enable_cudnn_sdp": (True,),
    "FloatTensor": (1,), "HalfTensor": (1,), "LongTensor": (1,), "IntTensor": (1,), "DoubleTensor": (1,),
    "BoolTensor": (1,), "ByteTensor": (1,), "ShortTensor": (1,), "CharTensor": (1,), "BFloat16Tensor": (1,),
}  # fmt: skip
_VENDOR_SKIP = (
    "list_gpu_processes",
    "check_error",
    "init",
    "cudart",
    "profiler",
    "make_graphed",
    "compile_shader",
    "load_metallib",
)


def vendor_calls() -> dict[str, str]:
    """What each call of a vendor's API does on a build and a machine without that vendor.

    The words are `none` (returns None: harmless), `value …` (returns that value), `object` (gives an object,
    harmless) or `raises Error`; where there is a replacement, ` -> API VERSION` follows.
    """
    found: dict[str, str] = {}
    for namespace in _VENDORS:
        for short, value in _public(namespace):
            name = f"{namespace}.{short}"
            outcome = _outcome(short, value)
            if outcome is not None:
                found[name] = outcome + _replacement(name)
    return found


def _public(namespace: str) -> Iterator[tuple[str, Any]]:
    module = resolve(namespace)
    for short in sorted(dir(module)):
        value = getattr(module, short)
        own = (getattr(value, "__module__", None) or namespace).startswith(
            ("torch.cuda", "torch.mps", "torch.xpu", "torch.backends")
        )
        parent, _, _ = namespace.rpartition(".")
        repeated = parent != "torch" and getattr(resolve(parent), short, None) is value
        if not short.startswith(("_", *_VENDOR_SKIP)) and callable(value) and own and not repeated:
            yield short, value


def _outcome(short: str, value: Any) -> str | None:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = value(*_VENDOR_ARGUMENTS.get(short, ()))
            if hasattr(result, "__enter__") and not isinstance(result, torch.Tensor):
                with result:
                    pass
    except TypeError as error:
        return None if "argument" in str(error) and "missing" in str(error) else "raises TypeError"
    except BaseException as error:
        return f"raises {type(error).__name__}"
    if result is None:
        return "none"
    plain = isinstance(result, (bool, int, float, str)) or result in ([], {}, ())
    return f"value {result!r}" if plain else "object"


def _replacement(name: str) -> str:
    for tail, (replacement, version) in torch_by_hand.REPLACEMENTS.items():
        if name.split(".", 2)[-1] == tail and name.startswith(("torch.cuda.", "torch.mps.", "torch.xpu.")):
            return f" -> {replacement} {version}"
    return ""
