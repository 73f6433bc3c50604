"""A value of which nothing is known, which becomes what its use asks for: a tensor, a number, a mapping, a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Names under which a device is kept.
DEVICE_NAME = re.compile(r"^(?!.*(ids|count|num|type|name)).*device|^dev$|^gpu$", re.IGNORECASE)
#: Names of shares and rates, which are no whole numbers.
_SMALL = re.compile(r"(^|_)(lr|rate|eps|alpha|beta|gamma|decay|momentum|dropout|p|prob|tol)$", re.IGNORECASE)
_MAPPING = frozenset(("keys", "items", "values", "get", "update", "pop"))
_NUMBER = 4
#: What a `for` statement gets of it; probes end the loop before.
_ENDLESS = 400


class Unknown:
    """Becomes what it is used as. `make(name)` makes the tensor for a name; `device()` gives a marked device.

    No `__len__` and no `__getitem__`: torch takes what has both for a sequence, and some of its C code aborts then.
    """

    def __init__(self, name: str, maker: Any, arguments: tuple[Any, ...] = (), part: bool = False) -> None:
        """part: it is one of the tensors that a batch was unpacked to."""
        self.__dict__.update(
            _name=name, _maker=maker, _arguments=arguments, _parts={}, _tensor=None, _part=part
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        parts = self._parts
        if name not in parts:
            parts[name] = self._attribute(name)
        return parts[name]

    def _attribute(self, name: str) -> Any:
        if name in _MAPPING:
            return Bound(self, name)
        if DEVICE_NAME.search(name):
            return self._maker.device(f"{self._name}.{name}")
        if hasattr(torch.Tensor, name) and name not in ("data", "grad", "names", "name", "T", "H", "shape"):
            return Bound(self, name)
        if name == "shape":
            return self._as_tensor().shape
        return Unknown(f"{self._name}.{name}", self._maker)

    def _as_tensor(self) -> torch.Tensor:
        if self._tensor is None:
            self.__dict__["_tensor"] = self._maker.tensor(self._name, part=self._part)
        return self._tensor  # type: ignore[no-any-return]

    def _as_number(self) -> Any:
        return 0.1 if _SMALL.search(self._name) else _NUMBER

    def __setattr__(self, name: str, value: Any) -> None:
        self._parts[name] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and _is_code(args[0]):
            return args[0]
        return self._maker.called(self._name, args, kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements(3))

    def _elements(self, count: int = _ENDLESS) -> Iterator[Any]:
        """What a loop over it gives: of what it wraps, if it wraps what can be gone through."""
        for wrapped in self._arguments:
            if isinstance(wrapped, Unknown):
                yield from wrapped._elements(count)
                return
            if hasattr(wrapped, "__iter__") and not isinstance(wrapped, (str, torch.Tensor, dict)):
                yield from wrapped
                return
        for _ in range(count):
            yield Unknown(f"an item of {self._name}", self._maker)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._parts[key if isinstance(key, str) else f"[{key}]"] = value

    def keys(self) -> list[str]:
        return ["input_ids", "labels"]

    def _mapped(self) -> dict[str, Any]:
        return {key: self._parts.get(key, None) or self._maker.tensor(key) for key in self.keys()}

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return int(self._as_number()) or 1

    __index__ = __int__

    def __float__(self) -> float:
        return float(self._as_number())

    def __str__(self) -> str:
        return "stand-in"

    __repr__ = __fspath__ = __str__

    def __format__(self, spec: str) -> str:
        return "stand-in"

    def __eq__(self, other: Any) -> Any:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (torch.nn.Module,) if re.search(r"Module$|Model$", self._name) else ()

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class Bound:
    """A method of an unknown value: of the tensor or the mapping that it then is."""

    def __init__(self, owner: Unknown, name: str) -> None:
        self._owner, self._name = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner
        if self._name == "get":
            return getattr(owner, str(args[0])) if args else owner
        if self._name in _MAPPING:
            return getattr(owner._mapped(), self._name)(*args, **kwargs)
        method: Callable[..., Any] = getattr(owner._as_tensor(), self._name)
        return owner._maker.bridge.call(method, *args, **kwargs)


def _is_code(value: Any) -> bool:
    return isinstance(value, type) or type(value).__name__ in ("function", "method", "staticmethod")
