"""Runs each step of elastic code, and puts something in place of a result that only stand-ins made impossible.

Errors that speak of devices, gradients or the mixed-precision protocol are never bridged: they are what a replay
is for. Where a step of torch's own is bridged, the result lives where its operands do, as torch has it; what comes
from anything unknown carries a mark, so that no evidence can rest on it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..simdevice.places import merge
from . import distributed
from .makers import BATCH, CLASSES, WIDTH, Maker, StandInLoader
from .unknown import Bound, Unknown

#: Texts of errors that are evidence, whatever they rest on.
_EVIDENCE = re.compile(
    r"same device|device type tensor to numpy|torch compiled with|not compiled with|linked with support"
    r"|requires grad|Attempting to (deserialize|unscale)|has already been called|No inf checks|no inf|second time"
    r"|Input type|No .* GPUs|invalid device|device string|GradScaler|float64|ordinal"
)
_OTHER_FAULTS = re.compile(r"unsafe to autocast|type tensor to numpy")
_LOSSES = re.compile(r"loss|criterion|nll|entropy|mse|bce|energy|objective|mean|sum$", re.IGNORECASE)
#: Losses whose target has the shape of what it is compared with.
_COMPARED_ELEMENTWISE = re.compile(r"binary_cross_entropy|BCE|mse|MSE|l1_loss|L1Loss|huber|Huber")
#: Their errors are evidence, too.
_PROTOCOL = (torch.optim.Optimizer, torch.amp.GradScaler, torch.amp.autocast)
#: Names of what may be a mapping, or an object that moves itself.
_BATCHES = re.compile(r"batch|data|sample|item|input|encod|feature|graph", re.IGNORECASE)
_ABSENT = object()


class Bridge:
    """One for each replay. files: those of the user's code, whose own errors are never bridged."""

    def __init__(self, observer: Any, maker: Maker, files: frozenset[str], lines: frozenset[int]) -> None:
        self._observer = observer
        self._maker = maker
        self._files = files
        self._lines = lines
        #: The marks of what the last error that is evidence came from, and that error.
        self.blame: list[str] = []
        self._blamed: Exception | None = None
        #: The replay's probe, which can write checkpoints.
        self.probe: Any = None
        self.skips: list[tuple[int, str]] = []
        maker.bridge = self

    # What elastic code calls.

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        special = self._special(function, args, kwargs)
        if special is not _ABSENT:
            return special
        if isinstance(function, type) and issubclass(function, torch.utils.data.DataLoader):
            if any(isinstance(a, Unknown) for a in [*args[:1], kwargs.get("dataset")]):
                return self._loader()
        if any(isinstance(a, Unknown) for a in args) or any(isinstance(a, Unknown) for a in kwargs.values()):
            if not isinstance(function, (Unknown, Bound)) and not self._is_users(function):
                return self._with_unknown(function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self._blame(error, function, args, kwargs)
            if not self._passes_over(error) and not self._may_bridge(error, function, args, kwargs):
                raise
            return self._instead(function, args, kwargs, error)

    def receiver(self, value: Any, name: str) -> Any:
        """What a watched method is called on."""
        method = getattr(value, name) if isinstance(value, Unknown) else None
        return value._as_tensor() if isinstance(method, Bound) and hasattr(torch.Tensor, name) else value

    def _passes_over(self, error: Exception) -> bool:
        """Whether it is another fault than the one in question, which would keep the replay from coming to that."""
        line = self._observer.recorder.site().line
        if (
            line in self._lines
            or not getattr(error, "simulated", False)
            or not _OTHER_FAULTS.search(str(error))
        ):
            return False
        self._maker.note(f"line {line} raises, and is passed over: {' '.join(str(error).split())[:80]}")
        return True

    def _blame(self, error: Exception, function: Any, args: Any, kwargs: Any) -> None:
        """Note the marks of what an error that is evidence came from, in the innermost call."""
        if not _is_evidence(error) or self._blamed is error:
            return
        self._blamed = error
        leaves = tree_leaves([args, kwargs, getattr(function, "__self__", None)])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.blame = sorted(frozenset[str]().union(*(self._observer.places.of(t).marks for t in tensors)))

    def attribute(self, value: Any, name: str) -> Any:
        try:
            return getattr(value, name)
        except AttributeError:
            if isinstance(value, torch.Tensor) and self._maker.is_ours(value):
                self._maker.note(f"what has `.{name}` here is a tensor")
                return value.float().mean() if "loss" in name else value
            if type(value).__name__ == "module" and not value.__name__.startswith("torch"):
                return Unknown(f"{value.__name__}.{name}", self._maker)
            if self._maker.is_ours(value):
                return Unknown(name, self._maker)
            raise

    def item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Unknown):
            return (
                getattr(value, index)
                if isinstance(index, str) and index.isidentifier()
                else self._part(value, index)
            )
        index = _plain(index)
        try:
            return value[index]
        except (IndexError, KeyError, TypeError, RuntimeError, ValueError) as error:
            ours = self._maker.is_ours(value) or self._maker.is_ours(index) or not value
            if _is_evidence(error) or not ours:
                raise
            if isinstance(value, torch.Tensor):
                if isinstance(index, str):
                    return value.float().mean() if "loss" in index else value
                return self.derive("a part of it", [value], None)
            return Unknown(f"an item of {type(value).__name__}", self._maker)

    def _part(self, value: Unknown, index: Any) -> Any:
        key = f"[{index}]" if isinstance(index, int) else "[…]"
        if isinstance(index, torch.Tensor) or value._tensor is not None:
            return self.item(value._as_tensor(), index)
        if key not in value._parts:
            value._parts[key] = Unknown(f"{value._name}{key}", self._maker)
        return value._parts[key]

    def operate(self, name: str, left: Any, right: Any = _ABSENT) -> Any:
        operands = [left] if right is _ABSENT else [left, right]
        if any(isinstance(o, Unknown) for o in operands):
            known = self._compared(name, operands)
            if known is not _ABSENT:
                return known
            operands = self._known(operands)
        function = getattr(operator, name)
        try:
            return function(*operands)
        except Exception as error:
            if _is_evidence(error) or not self._maker.is_ours(operands):
                raise
            return self.derive(f"`{name}`", operands, None)

    def _compared(self, name: str, operands: list[Any]) -> Any:
        """A comparison of something unknown with what is no number or tensor."""
        unlike = any(o is None or isinstance(o, str) for o in operands) or all(
            isinstance(o, Unknown) for o in operands
        )
        if name in ("eq", "ne") and unlike:
            return (operands[0] is operands[1]) == (name == "eq")
        return _ABSENT

    def _known(self, operands: list[Any]) -> list[Any]:
        """Unknown operands as what fits the others: tensors have been seen to be tensors, all else are numbers."""
        return [
            (o._as_tensor() if o._tensor is not None or o._arguments else o._as_number())
            if isinstance(o, Unknown)
            else o
            for o in operands
        ]

    def truth(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.numel() != 1 and self._maker.is_ours(value):
            return bool(value.any())
        return bool(value)

    def decided(self, value: Any) -> Any:
        """An operand of `and` or `or`, which is also its result."""
        if isinstance(value, torch.Tensor) and value.numel() != 1 and self._maker.is_ours(value):
            return value.any()
        return value

    def spread(self, value: Any) -> Any:
        """What is handed on as keywords."""
        if isinstance(value, torch.Tensor) and self._maker.is_ours(value):
            return {}
        return value._mapped() if isinstance(value, Unknown) else value

    def unpack(self, value: Any, names: tuple[Any, ...]) -> Any:
        if isinstance(value, Unknown):
            return tuple(self._named(value, n) for n in names)
        if isinstance(value, torch.Tensor) and self._maker.is_ours(value):
            nested = any(isinstance(n, tuple) for n in names)
            if value.dim() and value.shape[0] == len(names) and not nested:
                return tuple(value)
            return tuple(
                self.unpack(value, n) if isinstance(n, tuple) else _as_named(value, n) for n in names
            )
        if isinstance(value, torch.Size) and len(value) != len(names) and self._maker.touched:
            return (*value, *[WIDTH] * len(names))[: len(names)]
        if isinstance(value, tuple) and len(value) == len(names):
            return tuple(
                self.unpack(v, n) if isinstance(n, tuple) and isinstance(v, Unknown) else v
                for v, n in zip(value, names)
            )
        return value

    def _named(self, value: Unknown, name: Any) -> Any:
        if isinstance(name, tuple):
            return self.unpack(value, name)
        return Unknown(name, self._maker, part=True) if value._tensor is None else value._as_tensor()

    def items(self, value: Any, names: Any, endless: bool = True) -> Items:
        """What a loop goes through; items that are unknown get the names that they are bound to."""
        return Items(self, value, names, endless)

    def _items(self, value: Any, names: Any, endless: bool) -> Iterator[Any]:
        if isinstance(value, torch.Tensor) and not value.dim() and self._maker.is_ours(value):
            value = [value]
        if isinstance(value, Unknown):
            source: Iterator[Any] = value._elements(400 if endless else 3)
        else:
            source = self._readable(value) if isinstance(value, torch.utils.data.DataLoader) else iter(value)
        for item in source:
            yield self._bound(item, names)

    def _bound(self, item: Any, names: Any) -> Any:
        if isinstance(item, Unknown) and isinstance(names, str) and names:
            item = Unknown(names, self._maker, item._arguments, part=not _BATCHES.search(names))
        return self.unpack(item, names) if isinstance(names, tuple) else item

    def _through(self, value: Any) -> Any:
        return self._readable(value) if isinstance(value, torch.utils.data.DataLoader) else value

    def _readable(self, loader: Any) -> Iterator[Any]:
        """The batches of a loader; made up from the first on that can't be read."""
        try:
            yield from loader
        except Exception as error:
            if _is_evidence(error):
                raise
            self._maker.note(
                f"the data set can't be read here ({type(error).__name__}); its batches are made up, on the CPU"
            )
            yield from self._loader()

    def skipped(self, line: int, namespace: dict[str, Any], names: tuple[str, ...]) -> None:
        """A statement of the module failed: leave it out, unless it is evidence or the place in question."""
        import sys

        error = sys.exc_info()[1]
        trace = error.__traceback__ if error is not None else None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename in self._files and trace.tb_lineno in self._lines:
                raise
            trace = trace.tb_next
        if error is not None and _is_evidence(error):
            raise
        self.skips.append((line, f"{type(error).__name__}: {error}"[:200]))
        self._maker.note(f"line {line} fails in the replay ({type(error).__name__}), and is left out")
        for name in names:
            namespace.setdefault(name, Unknown(name, self._maker))

    # Bridging.

    def _special(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Functions that need to be told of unknown values."""
        if function in (len, enumerate, range, isinstance, zip, iter, next, int, float, hasattr) and args:
            first = args[0]
            if function is isinstance:
                return _is_instance(first, args[1])
            if function is hasattr and isinstance(first, Unknown):
                return True
            if function is next and isinstance(first, Unknown):
                return Unknown(f"an item of {first._name}", self._maker)
            if function is len and isinstance(first, Unknown):
                return 400
            if function is enumerate and isinstance(first, Unknown):
                return enumerate(first._elements(), *args[1:], **kwargs)
            if function is zip and any(isinstance(a, Unknown) for a in args):
                return zip(
                    *(a._elements(3 if len(args) > 1 else 400) if isinstance(a, Unknown) else a for a in args)
                )
            if function is iter and isinstance(first, Unknown):
                return first._elements()
            if function in (enumerate, zip, iter) and any(
                isinstance(a, torch.utils.data.DataLoader) for a in args
            ):
                return function(*map(self._through, args), **kwargs)
            if function is float and isinstance(first, (torch.Tensor, Unknown)):
                return float(self._single(first))
            if function is int and isinstance(first, torch.Tensor):
                return int(self._single(first))
        if function is torch.from_numpy and type(args[0]).__name__ != "ndarray":
            self._maker.note("what NumPy computes is stood in for; `torch.from_numpy` leaves it on the CPU")
            return torch.rand(BATCH, WIDTH)
        if (
            getattr(function, "__name__", "") == "load"
            and getattr(function, "__module__", "") == "torch.serialization"
        ):
            return self._load(function, args, kwargs)
        alone = distributed.answer(function, args, kwargs)
        if alone is not distributed.NOTHING:
            self._maker.note("there is one process, and it belongs to no group")
            return alone
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(owner, torch.Tensor) and self._maker.is_ours(owner):
            if name == "backward" and owner.numel() != 1 and not args and "gradient" not in kwargs:
                return function.__func__(owner.sum(), **kwargs)
            if name == "item" and owner.numel() != 1:
                return self._single(owner).item()
        return _ABSENT

    def _load(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A checkpoint as a machine with an accelerator would have written it, where there is none to read."""
        import os

        given = args[0] if args else kwargs.get("f")
        if isinstance(given, (str, os.PathLike)) and os.path.exists(given):
            return _ABSENT
        path = f"{self._maker.saved_on.partition(':')[0]}.checkpoint"
        if not os.path.exists(path):
            self.probe.checkpoint(path, {"weight": torch.rand(CLASSES)}, self._maker.saved_on)
        self._maker.note(f"the checkpoint was saved on {self._maker.saved_on}")
        # An unknown `map_location` is one all the same.
        rest = {k: "cpu" if isinstance(v, Unknown) else v for k, v in kwargs.items() if k != "f"}
        if not isinstance(rest.get("weights_only"), (bool, type(None))):
            rest["weights_only"] = True
        more = ["cpu" if isinstance(a, Unknown) else a for a in args[1:2]]
        return self._maker._keep(function(path, *more, **rest))

    def _single(self, value: Any) -> Any:
        """The first element of a stand-in that should have had one alone."""
        if isinstance(value, Unknown):
            return value if value._tensor is None else self._single(value._as_tensor())
        if value.numel() != 1 and self._maker.is_ours(value) and value.numel():
            return value.reshape(-1)[0]
        return value

    def _with_unknown(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is not the user's, with unknown arguments: as tensors, then as numbers, whichever it takes."""
        if isinstance(getattr(function, "__self__", None), (nn.ModuleDict, dict, list, set)) or _keeps(
            function
        ):
            return function(*args, **kwargs)
        number_first = isinstance(function, type) and issubclass(function, nn.Module)
        error: Exception | None = None
        for as_number in (True, False) if number_first or _makes(function) else (False, True):
            turned = [_turned(a, as_number) for a in args]
            named = {k: self._by_name(k, v, as_number) for k, v in kwargs.items()}
            try:
                return function(*turned, **named)
            except Exception as caught:
                if _is_evidence(caught):
                    raise
                error = caught
        assert error is not None
        return self._instead(function, args, kwargs, error)

    def _by_name(self, name: str, value: Any, as_number: bool) -> Any:
        """An unknown argument whose name says what it must be."""
        if isinstance(value, Unknown):
            if name in ("enabled", "non_blocking", "requires_grad"):
                return True
            if name in ("device_type", "device"):
                return self._maker.kind if name == "device_type" else self._maker.device(value._name)
        return _turned(value, as_number)

    def _may_bridge(self, error: Exception, function: Any, args: Any, kwargs: Any) -> bool:
        if _is_evidence(error):
            return False
        if (
            isinstance(getattr(function, "__self__", None), _PROTOCOL)
            and function.__name__ != "load_state_dict"
        ):
            return False
        if isinstance(error, (OSError, ImportError)):
            return True
        if self._is_users(function) or isinstance(error, (StopIteration, NameError)):
            return False
        owner = getattr(function, "__self__", None)
        given = [*args, *kwargs.values(), *([owner] if owner is not None else []), function]
        return any(self._maker.is_ours(v) for v in given) or not _is_torch(function)

    def _is_users(self, function: Any) -> bool:
        """Whether the user's code runs when this is called."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None and isinstance(function, type):
            code = getattr(vars(function).get("__init__"), "__code__", None)
        if code is None and isinstance(function, nn.Module):
            code = type(function).forward.__code__
        return code is not None and code.co_filename in self._files

    def _instead(self, function: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """What takes the place of a call's result."""
        owner = getattr(function, "__self__", None)
        name = str(getattr(function, "__qualname__", "") or type(function).__name__)
        values = [*args, *kwargs.values(), owner, function if isinstance(function, nn.Module) else None]
        if isinstance(function, type) and issubclass(function, torch.utils.data.DataLoader):
            return self._loader()
        if isinstance(function, type) and issubclass(function, torch.optim.Optimizer):
            return self._maker.make(name, "optimizer")
        if (
            not getattr(error, "simulated", False)
            and _COMPARED_ELEMENTWISE.search(name)
            and len(args) >= 2
            and all(isinstance(a, torch.Tensor) for a in args[:2])
        ):
            places = [self._observer.places.device(a) for a in args[:2]]
            if places[0] == places[1]:
                return self.call(function, args[0], args[0].detach() * 0.5, *args[2:], **kwargs)
        follows = _is_torch(function) or isinstance(function, nn.Module)
        return self.derive(f"`{name.rpartition('.')[2]}`", values, None if follows else f"{name}()")

    def _loader(self) -> Any:
        """A loader over a data set that is not there."""
        self._maker.note("the data set is not at hand; its batches are made up, on the CPU")
        return StandInLoader("loader", self._maker)

    def derive(self, name: str, values: list[Any], mark: str | None) -> Any:
        """A tensor beside the tensors among values, on the accelerator if one is; an unknown value if there is none."""
        leaves = [
            v._as_tensor() if isinstance(v, Unknown) and v._tensor is not None else v
            for v in tree_leaves(values)
        ]
        modules = [v for v in values if isinstance(v, nn.Module)]
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        tensors += [p for m in modules for p in list(m.parameters())[:2]]
        if not tensors:
            return Unknown(name.strip("`"), self._maker)
        self._maker.note(
            f"{name} does not fit the stand-ins; its result is taken to be where its operands are"
        )
        places = [self._observer.places.of(t) for t in tensors]
        chosen = next((p.device for p in places if p.device.type != "cpu"), places[0].device)
        there = [t for t, p in zip(tensors, places) if p.device == chosen]
        with self._observer.quiet():
            total: Any = sum(_one(t) for t in there)
            shape = () if _LOSSES.search(name) else next((t.shape for t in there if t.dim()), (CLASSES,))
            made = total.expand(shape).clone() if shape else total.reshape(())
        place = merge((p for p in places if p.device == chosen), chosen)
        self._observer.places.put(made, place)
        return made if mark is None else self._observer.mark(made, mark)


class Items:
    """What a loop goes through; `made_up` for a loop that must run and would have nothing to go through."""

    def __init__(self, bridge: Bridge, value: Any, names: Any, endless: bool) -> None:
        self._bridge, self._value, self._names, self._endless = bridge, value, names, endless

    def __iter__(self) -> Iterator[Any]:
        return self._bridge._items(self._value, self._names, self._endless)

    def made_up(self) -> Iterator[Any]:
        maker = self._bridge._maker
        if not maker.touched:
            return
        maker.note("the loop would have had nothing to go through; its items are made up")
        for i in range(400):
            item = i if isinstance(self._value, range) else Unknown("an item", maker)
            yield self._bridge._bound(item, self._names)


def _as_named(value: torch.Tensor, name: str) -> torch.Tensor:
    return value.float().mean() if "loss" in name else value


def _one(tensor: torch.Tensor) -> Any:
    """One element of a tensor, as a float with its graph."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return torch.zeros(1)
    one = tensor.reshape(-1)[:1]
    return one.float() if not one.is_complex() else one.real


def _turned(value: Any, as_number: bool) -> Any:
    if not isinstance(value, Unknown):
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(_turned(v, as_number) for v in value)
        return value
    return value._as_number() if as_number and value._tensor is None else value._as_tensor()


def _plain(index: Any) -> Any:
    if isinstance(index, Unknown):
        return index._as_tensor() if index._tensor is not None else index._as_number()
    if isinstance(index, tuple):
        return tuple(_plain(i) for i in index)
    if isinstance(index, slice):
        return slice(*(_plain(p) for p in (index.start, index.stop, index.step)))
    return index


def _is_instance(value: Any, classes: Any) -> bool:
    if isinstance(value, Unknown):
        if value._tensor is None:
            return False
        value = value._tensor
    listed = classes if isinstance(classes, tuple) else (classes,)
    return isinstance(value, tuple(c for c in listed if not isinstance(c, Unknown)))


def _keeps(function: Any) -> bool:
    """Functions that take what they are given as it is."""
    return function in (print, str, repr, id, type, list, tuple, dict, setattr, getattr, callable, super)


def _makes(function: Any) -> bool:
    """Functions that are given sizes."""
    return getattr(function, "__name__", "") in (
        "zeros", "ones", "rand", "randn", "randint", "empty", "full", "arange", "linspace", "eye", "randperm",
        "range", "view", "reshape", "expand", "repeat", "chunk", "split", "int", "float", "manual_seed",
    )  # fmt: skip


def _is_torch(function: Any) -> bool:
    module = str(getattr(function, "__module__", "") or type(getattr(function, "__self__", None)).__module__)
    return module.partition(".")[0] == "torch" or isinstance(
        getattr(function, "__self__", None), torch.Tensor
    )


def _is_evidence(error: BaseException) -> bool:
    return bool(getattr(error, "simulated", False)) or _EVIDENCE.search(str(error)) is not None
