"""Values of libraries by qualified name."""

from __future__ import annotations

from functools import lru_cache

from torchlint.placement.knowledge import torch_api
from torchlint.placement.values import NUMBER, Kind, Value

#: torch's dtypes (https://pytorch.org/docs/stable/tensor_attributes.html), aliases included.
DTYPES = frozenset(
    "float32 float float64 double float16 half bfloat16 complex32 chalf complex64 cfloat complex128 cdouble uint8"
    " uint16"
    " uint32 uint64 int8 int16 short int32 int int64 long bool quint8 qint8 qint32 quint4x2 float8_e4m3fn float8_e5m2"
    " float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()
)

#: Constants of libraries that are numbers.
_CONSTANTS = frozenset(
    f"{library}.{name}" for library in ("math", "numpy", "torch") for name in ("pi", "e", "inf", "nan", "tau")
) | {"sys.maxsize", "sys.float_info.max", "sys.float_info.min", "sys.float_info.epsilon"}


@lru_cache(maxsize=4096)  # files of one project import the same names; a Value never changes
def api_value(name: str) -> Value:
    """What the qualified name of a library denotes: a number, a dtype, or a module, class or function."""
    canonical = torch_api.canonical(name)
    if canonical in _CONSTANTS:
        return NUMBER
    if canonical.startswith("torch."):
        last = canonical[6:]
        if last in DTYPES:
            return Value(Kind.DTYPE, name=last)
        if canonical in ("torch.version.cuda", "torch.version.hip"):
            return Value(Kind.NUMBER, tests=frozenset({"accelerator"}))
    return Value(Kind.API, name=canonical)
