"""What torch's own callables take, return and do: the facts of `torch_api.json`, read when first asked for.

Functions and classes go by their canonical qualified name (`canonical` finds it), methods of Tensor by their
bare name. The data is written by `python -m tools.torch_api`; nothing here imports torch. The names in
capitals are computed on first use, so ask the module for them and do not import them by name:

    from torchlint.placement.knowledge import torch_api
    torch_api.CREATES
    torch_api.bind(torch_api.overloads("torch.add"), [True, None], {"alpha": False})

Known gaps: results that depend on the value of a flag (`torch.unique(..., return_counts=True)`) are
*unknown*; ranks were seen in calls with small tensors of rank 0 to 4; waits inside the host code of CUDA
kernels that no dispatch tag shows are unknown, as are copies that a kernel makes of a CPU index; functions
reached through `torch.ops`, and methods of torch.distributions, are not described.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Kind(enum.Enum):
    """What a parameter takes."""

    __hash__ = object.__hash__  # Enum's own is a Python function

    TENSOR = "T"
    OPTIONAL_TENSOR = "O"
    TENSORS = "L"
    #: A number; a tensor is unwrapped on the host (`alpha=`, `fill_value=`), which waits for its device.
    SCALAR = "S"
    #: A number, bool or sizes; a tensor given for one is unwrapped as well.
    NUMBER = "N"
    DEVICE = "D"
    DTYPE = "Y"
    GENERATOR = "G"
    OTHER = "X"

    @property
    def is_tensor(self) -> bool:
        """Whether tensors are meant, so that where they live matters beside the other operands."""
        return self in (Kind.TENSOR, Kind.OPTIONAL_TENSOR, Kind.TENSORS)


class Result(enum.Enum):
    """What a call returns."""

    __hash__ = object.__hash__

    TENSOR = "T"
    #: A tuple or list of tensors; `Overload.arity` says of how many, if that is fixed.
    TENSORS = "T*"
    #: A Python number, bool, string, dtype, device or sizes.
    HOST = "H"
    #: A NumPy array.
    ARRAY = "A"
    MODULE = "M"
    NOTHING = "0"
    UNKNOWN = "X"


class Rank(enum.Enum):
    """The rank of a call's result (of the first tensor in it), as calls of torch showed it."""

    __hash__ = object.__hash__

    #: The highest rank among the tensor operands.
    SAME = "s"
    #: The rank of the first tensor operand; of the receiver of a method.
    FIRST = "f"
    #: 0-dim, whatever the operands are: a full reduction, a loss with its default reduction.
    ZERO = "z"
    #: At least 1.
    SOME = "p"


class Parameter(NamedTuple):
    """One parameter of a callable."""

    name: str
    kind: Kind
    keyword_only: bool = False
    variadic: bool = False
    optional: bool = False


class Overload(NamedTuple):
    """One way to call a callable. Methods leave the receiver out.

    arity: of how many tensors the tuple is, if that is fixed.
    rank: holds where no parameter is given that changes the shape (`Binding.rank` looks).
    elementwise: the kernel takes 0-dim CPU tensors beside operands on a device.
    """

    parameters: tuple[Parameter, ...]
    result: Result
    arity: int | None = None
    rank: Rank | None = None
    elementwise: bool = False

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name."""
        return next((p for p in self.parameters if p.name == name), None)


class Binding(NamedTuple):
    """Which parameter each argument of a call is for: positional ones in order, then keywords by name.

    strain: how many arguments torch would have to unwrap or wrap to make the call.
    certain: False where another overload, with another result, fits as well; ranked: likewise for ranks.
    """

    overload: Overload
    positional: tuple[Parameter, ...]
    keywords: Mapping[str, Parameter]
    strain: int = 0
    certain: bool = True
    ranked: bool = True

    @property
    def rank(self) -> Rank | None:
        """The rank of the result, or None where it is unknown or an argument may change it."""
        given = {p.name for p in (*self.positional, *self.keywords.values()) if p.optional or p.keyword_only}
        return self.overload.rank if self.ranked and not given & _SHAPING else None


#: Optional parameters that change the rank of the result.
_SHAPING = frozenset(
    ("axis", "dim", "dims", "keepdim", "reduce", "reduction", "size", "size_average", "as_tuple")
)


class VendorCall(NamedTuple):
    """What a call of a vendor's API does on a CPU-only build of torch.

    outcome: `none` (does nothing), `value False` (returns that), `object` (harmless), `raises
    AssertionError`. replacement: the device-neutral API, and `since`, the torch that brought it.
    """

    outcome: str
    replacement: str | None = None
    since: tuple[int, int] | None = None

    @property
    def raises(self) -> bool:
        """Whether the call fails where the vendor's device is missing."""
        return self.outcome.startswith("raises")


#: The version of torch that the facts were read from.
TORCH_VERSION: str
#: Functions that make a tensor from nothing or from host data, and the legacy constructors.
CREATES: frozenset[str]
#: Those of `CREATES` whose result lives where their data lives, if the data is a tensor (or array interface).
FOLLOWS_DATA: frozenset[str]
#: Functions that create beside a template, by the position of the template: `torch.zeros_like`.
FOLLOWS_TEMPLATE: Mapping[str, int]
#: Methods that create beside their receiver: `new_zeros`.
FOLLOWS_RECEIVER: frozenset[str]
#: Those of `CREATES` that stay on the host whatever the default device is.
IGNORES_DEFAULT_DEVICE: frozenset[str]
#: Functions and classes with a `device` parameter.
ACCEPTS_DEVICE: frozenset[str]
#: Functions and methods that draw from a random generator.
RANDOM: frozenset[str]
RANDOM_METHODS: frozenset[str]
#: Functions that make the host wait for a device.
SYNCS: frozenset[str]
#: Methods by which data visibly comes to the host (`item`, `cpu`), and those that wait without saying so
#: (`nonzero`).
EXPLICIT_SYNC_METHODS: frozenset[str]
HIDDEN_SYNC_METHODS: frozenset[str]
#: Callables that wait only where this parameter is not given: `repeat_interleave` and `output_size`.
SYNC_UNLESS: Mapping[str, str]
#: Methods that return their receiver, changed.
IN_PLACE: frozenset[str]
#: Methods that move: to what they change, `device`, `dtype` or `both`.
MOVES: Mapping[str, str]
#: Methods that return the same however they are called, by what that is; for others, such as `max`, see
#: `bind`.
RETURNS_TENSOR: frozenset[str]
RETURNS_TENSORS: Mapping[str, int | None]
RETURNS_HOST: frozenset[str]
RETURNS_ARRAY: frozenset[str]
#: Attributes of Tensor that are no methods, by what reading them gives.
ATTRIBUTES: Mapping[str, Result]
#: Parameters that must be on the CPU, and those that may be beside operands elsewhere; functions and
#: methods by name.
ON_CPU: Mapping[str, tuple[str, ...]]
CPU_ALLOWED: Mapping[str, tuple[str, ...]]
#: Functions and methods whose operands may be 0-dim CPU tensors beside others on a device (elementwise
#: kernels).
ELEMENTWISE: frozenset[str]
ELEMENTWISE_METHODS: frozenset[str]
#: Classes of torch by what they are; `CLASSES` has all that are described.
CLASSES: frozenset[str]
MODULES: frozenset[str]
LOSSES: frozenset[str]
OPTIMIZERS: frozenset[str]
SCHEDULERS: frozenset[str]
#: `dir(Tensor)`, `dir(Module)` (and what `Module.__init__` sets), private names left out; a value with an
#: attribute outside the one is none of its kind. `DISTINGUISHING` has those of Tensor that no Module has.
TENSOR_ATTRIBUTES: frozenset[str]
MODULE_ATTRIBUTES: frozenset[str]
DISTINGUISHING: frozenset[str]
#: Calls of torch.cuda, torch.mps, torch.xpu and torch.backends by what they do without that vendor.
VENDOR: Mapping[str, VendorCall]

#: Attributes of every object and class, in some version of Python.
OF_EVERY_OBJECT = frozenset(dir(object)).union(
    ("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__dict__", "__doc__"),
    ("__firstlineno__", "__getstate__", "__module__", "__static_attributes__", "__weakref__"),
)


@functools.cache
def _data() -> dict[str, Any]:
    text = Path(__file__).with_name("torch_api.json").read_text(encoding="ascii")
    data: dict[str, Any] = json.loads(text)
    return data


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not name.isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _compute(name)
    return value


def _compute(name: str) -> Any:
    data = _data()
    if name.lower() in data["sets"]:
        return frozenset(data["sets"][name.lower()])
    match name:
        case "TORCH_VERSION":
            return data["torch"]
        case "CLASSES":
            return frozenset(data["classes"])
        case "FOLLOWS_TEMPLATE" | "MOVES" | "SYNC_UNLESS":
            return data["maps"][name.lower()]
        case "ON_CPU" | "CPU_ALLOWED":
            return {key: tuple(names) for key, names in data["maps"][name.lower()].items()}
        case "TENSOR_ATTRIBUTES":
            names = (*data["methods"], *data["attributes"], *data["sets"]["other_tensor_attributes"])
            return OF_EVERY_OBJECT.union(names)
        case "MODULE_ATTRIBUTES":
            return OF_EVERY_OBJECT.union(data["sets"]["own_module_attributes"])
        case "DISTINGUISHING":
            return _compute("TENSOR_ATTRIBUTES") - _compute("MODULE_ATTRIBUTES")
        case "ATTRIBUTES":
            return {key: Result(letter) for key, letter in data["attributes"].items()}
        case "ELEMENTWISE" | "ELEMENTWISE_METHODS":
            table = data["methods" if name.endswith("METHODS") else "functions"]
            return frozenset(
                n for n, text in table.items() if "e" in text.rpartition(">")[2].partition(":")[2]
            )
        case "VENDOR":
            return {key: _vendor_call(text) for key, text in data["vendor"].items()}
        case "RETURNS_TENSOR" | "RETURNS_HOST" | "RETURNS_ARRAY":
            wanted = {Result[name.removeprefix("RETURNS_")].value}
            return frozenset(n for n, text in data["methods"].items() if _results(text) == wanted)
        case "RETURNS_TENSORS":
            results = {n: _results(text) for n, text in data["methods"].items()}
            return {
                n: _arity(min(r))
                for n, r in results.items()
                if len(r) == 1 and min(r)[0] == "T" and min(r) != "T"
            }
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _results(text: str) -> set[str]:
    """The result letters of all overloads."""
    return {part.rpartition(">")[2].partition(":")[0] for part in text.split("|")}


def _arity(letter: str) -> int | None:
    return int(letter[1:]) if letter[1:].isdigit() else None


def _vendor_call(text: str) -> VendorCall:
    outcome, _, replacement = text.partition(" -> ")
    if not replacement:
        return VendorCall(outcome)
    name, _, version = replacement.partition(" ")
    major, _, minor = version.partition(".")
    return VendorCall(outcome, name, (int(major), int(minor)))


@functools.lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """The name that facts go by: `torch.functional.norm` is `torch.norm`, and so for classes.

    A name that is not known under another comes back as it is.
    """
    data = _data()
    for prefix, replacement in _PREFIXES:
        if name.startswith(prefix):
            name = replacement + name[len(prefix) :]
    known = (data["functions"], data["classes"], data["vendor"])
    if any(name in table for table in known) or name.startswith(_OTHER_MODULES):
        return name
    # torch.nn.modules.linear.Linear is torch.nn.Linear: a package that offers what its modules define.
    parents, _, last = name.rpartition(".")
    while parents.count(".") > 0 and name.startswith("torch."):
        parents = parents.rpartition(".")[0]
        candidate = f"{parents}.{last}"
        if parents != "torch" and any(candidate in table for table in known):
            return candidate
    return name


_PREFIXES = (
    ("torch.functional.", "torch."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C.", "torch."),
    ("torch._tensor.Tensor", "torch.Tensor"),
)
# Packages whose classes are others than those of the same name above them.
_OTHER_MODULES = (
    "torch.nn.intrinsic.",
    "torch.nn.qat.",
    "torch.nn.quantizable.",
    "torch.nn.quantized.",
    "torch.ao.",
)


def is_method(name: str) -> bool:
    """Whether Tensor has a method of that name."""
    return name in _data()["methods"]


@functools.lru_cache(maxsize=4096)
def overloads(name: str) -> tuple[Overload, ...]:
    """How a function may be called, or a class constructed, by canonical name; empty if it is not known."""
    data = _data()
    text = data["functions"].get(name)
    if text is None:
        text = data["classes"].get(name, "").partition(";")[0]
    return _parse(text)


@functools.lru_cache(maxsize=1024)
def method_overloads(name: str) -> tuple[Overload, ...]:
    """How a method of Tensor may be called; the receiver is left out."""
    return _parse(_data()["methods"].get(name, ""))


@functools.lru_cache(maxsize=512)
def forward_overloads(name: str) -> tuple[Overload, ...]:
    """How an instance of a Module class of torch may be called; empty if that is not known."""
    return _parse(_data()["classes"].get(name, "").partition(";")[2])


def parameter_names(name: str) -> tuple[str, ...]:
    """The positional parameters of a function or constructor in order (of its first overload)."""
    known = overloads(name)
    return tuple(p.name for p in known[0].parameters if not p.keyword_only) if known else ()


def _parse(text: str) -> tuple[Overload, ...]:
    return tuple(_parse_one(part) for part in text.split("|")) if text else ()


def _parse_one(text: str) -> Overload:
    words, _, tail = text.rpartition(">")
    letter, _, flags = tail.partition(":")
    rank = next((r for r in Rank if r.value in flags), None)
    parameters: list[Parameter] = []
    keyword_only = False
    for word in words.split():
        keyword_only = keyword_only or word[0] == "*"
        name, _, kind = word.lstrip("*").partition(":")
        parameters.append(
            Parameter(name, Kind(kind[0]), keyword_only, kind.endswith("+"), kind.endswith("="))
        )
    several = letter[0] == "T" and letter != "T"
    result = Result.TENSORS if several else Result(letter)
    return Overload(tuple(parameters), result, _arity(letter) if several else None, rank, "e" in flags)


def bind(
    candidates: Iterable[Overload],
    positional: Sequence[bool | None],
    keywords: Mapping[str, bool | None] | None = None,
) -> Binding | None:
    """The overload that fits a call best, and the parameter that each argument is for; None if none fits.

    For each argument the caller says whether it is a tensor: True, False (a number, a string, None, …), or
    None where that is not known. With `*args` or `**kwargs` in the call, ask about the arguments before
    them alone.
    """
    names = keywords or {}
    fitting = [b for b in (_fit(o, positional, names) for o in candidates) if b is not None]
    complete = [b for b in fitting if _is_complete(b)]
    if not fitting:
        return None
    ranked = sorted(complete or fitting, key=lambda b: b.strain)
    best = ranked[0]
    rivals = [b.overload for b in ranked[1:] if b.strain == best.strain]
    return best._replace(
        certain=all(o.result is best.overload.result for o in rivals),
        ranked=all(o.rank is best.overload.rank for o in rivals),
    )


def _fit(
    overload: Overload, positional: Sequence[bool | None], keywords: Mapping[str, bool | None]
) -> Binding | None:
    places = [p for p in overload.parameters if not p.keyword_only]
    bound: list[Parameter] = []
    strain = 0
    for place, tensor in enumerate(positional):
        if place >= len(places) and not (places and places[-1].variadic):
            return None
        bound.append(places[min(place, len(places) - 1)])
        strain += _strain(bound[-1], tensor)
    named: dict[str, Parameter] = {}
    for name, tensor in keywords.items():
        found = overload.parameter(name) or overload.parameter(_SPELLINGS.get(name, name))
        if found is None or found in bound:
            return None
        named[name] = found
        strain += _strain(found, tensor)
    return Binding(overload, tuple(bound), named, strain)


#: torch's argument parser takes NumPy's names for its own (torch/csrc/utils/python_arg_parser.cpp,
#: numpy_compatibility).
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def _strain(parameter: Parameter, tensor: bool | None) -> int:
    """How badly an argument suits: a tensor for a number is unwrapped, a number for a tensor wrapped."""
    if tensor is None or parameter.kind is Kind.OTHER:
        return 0
    if tensor:
        return 0 if parameter.kind.is_tensor else 1
    return 1 if parameter.kind is Kind.TENSOR else 0


def _is_complete(binding: Binding) -> bool:
    given = {*binding.positional, *binding.keywords.values()}
    return all(p.optional or p.variadic or p in given for p in binding.overload.parameters)
