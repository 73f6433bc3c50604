"""The function mode: answers device properties, carries out moves, makes device arguments logical."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from ..words import words
from . import autocast, errors, hooks
from .devices import ACCELERATORS, HOST
from .mixing import Mixed, Operand
from .places import Place, is_accelerator, key_of

if TYPE_CHECKING:
    from .simulator import SimDevice

T = torch.Tensor
Handler = Callable[[Any, Any, dict[str, Any]], Any]

#: Make a tensor, but not on the default device: from a template, from host data, or on the host whatever is
#: set.
_OTHER_CREATORS = words(
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like from_numpy frombuffer normal"
)
_NEW = ("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "new")
_FROM_HOST_DATA = frozenset(("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "new_tensor"))
_FLOATS = {"half": torch.float16, "float": torch.float32, "double": torch.float64, "bfloat16": torch.bfloat16}
_METADATA = words(
    "size dim numel stride is_floating_point is_complex is_contiguous untyped_storage element_size"
)
#: Tell their arguments' range by `.item()`, but only on the CPU.
_CHECKED_ON_HOST_ONLY = (torch.quantile, torch.nanquantile, T.quantile, T.nanquantile)


class FunctionMode(TorchFunctionMode):
    """Every call of torch from Python comes through here first."""

    def __init__(self, sim: SimDevice) -> None:
        super().__init__()
        self._sim = sim
        self._factories = hooks.factories()
        self._creators = _creators()
        self._passive = _passive()
        self._handlers: dict[Any, Handler] = dict(self._table())
        self._names: dict[Any, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = self._handlers.get(func)
        if handler is None and func in self._passive:
            return func(*args, **(kwargs or {}))
        sim = self._sim
        kwargs = dict(kwargs) if kwargs else {}
        around, sim.api = sim.api, self._name(func)
        try:
            return handler(func, args, kwargs) if handler is not None else self._call(func, args, kwargs)
        finally:
            sim.api = around

    def _table(self) -> Iterator[tuple[Any, Handler]]:
        for name in ("device", "is_cuda", "is_cpu", "is_mps", "is_xpu"):
            yield getattr(T, name).__get__, self._property(name)
        yield T.get_device, lambda f, a, k: -1 if (d := self._device(a[0])).type == "cpu" else d.index
        yield T.to, self._to
        yield T.cpu, lambda f, a, k: self._move(a[0], HOST, None, False)
        yield T.cuda, self._to_backend
        yield T.xpu, self._to_backend
        yield T.type, self._type
        yield T.type_as, lambda f, a, k: self._move(a[0], self._device(a[1]), a[1].dtype, False, like=a[1])
        for name in _FLOATS:
            yield getattr(T, name), self._convert
        yield T.numpy, self._numpy
        yield T.__array__, self._numpy
        yield T.tolist, self._tolist
        yield T.__repr__, self._repr
        yield T.pin_memory, self._pin_memory
        yield T.is_pinned, lambda f, a, k: self._sim.places.flagged(self._sim.places.pinned, a[0])
        yield T.new_tensor, self._new_tensor
        yield T.grad.__set__, self._set_grad  # type: ignore[union-attr]
        yield torch._C._nn._parse_to, self._parse_to
        yield torch._C._nn.one_hot, self._one_hot
        yield torch.ctc_loss, self._ctc_loss
        yield torch._C._VariableFunctions._pack_padded_sequence, self._pack
        yield torch.nn.functional.scaled_dot_product_attention, self._attention
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            yield getattr(torch._C._VariableFunctions, name), self._recurrent
        for func in _CHECKED_ON_HOST_ONLY:
            yield func, self._unwaited

    def _name(self, func: Any) -> str:
        name = self._names.get(func)
        if name is None:
            bare = getattr(func, "__name__", str(func))
            owner = "Tensor" if getattr(T, bare, None) is not None and not hasattr(torch, bare) else "torch"
            if getattr(func, "__objclass__", None) is not None or getattr(
                func, "__qualname__", ""
            ).startswith("Tensor."):
                owner = "Tensor"
            name = self._names[func] = f"{owner}.{bare}"
        return name

    # What every call goes through.

    def _call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Any function: a device argument becomes a logical device; autocast applies where the operands live."""
        sim = self._sim
        if kwargs.get("device") is not None:
            return self._create_on(func, args, kwargs, kwargs["device"], "explicit")
        is_factory = func in self._factories
        if is_factory:
            default = hooks.default_device()
            if default is not None and not (args and isinstance(args[0], T)):
                return self._create_on(func, args, kwargs, default, "default")
            sim_device = HOST
        else:
            sim_device = self._first_accelerator(args, kwargs) or HOST
        if kwargs.get("generator") is not None:
            self._check_generator(kwargs["generator"], sim_device)
        if sim_device == HOST and not is_factory:
            out = func(*args, **kwargs)
        else:
            around, sim.around, sim.guessed = sim.around, sim_device, False
            try:
                out = (
                    func(*args, **kwargs)
                    if is_factory
                    else autocast.call(func, args, kwargs, sim_device.type)
                )
            finally:
                sim.around = around
            if sim.guessed:
                self._settle(out, sim_device)
        if func in self._creators and isinstance(out, T):
            reason = "default" if is_factory or not (args and isinstance(args[0], T)) else "template"
            sim.report_creation(
                sim.api, out, sim.places.device(out), reason, func.__name__ in _FROM_HOST_DATA
            )
        return out

    def _create_on(self, func: Any, args: Any, kwargs: dict[str, Any], wanted: Any, reason: str) -> Any:
        """A factory with a device: really made on the CPU, then tagged."""
        sim = self._sim
        device, marks = sim.devices.resolve(wanted), sim.marks_of_device(wanted)
        if device is None or (device != HOST and not is_accelerator(device)):
            return func(*args, **{**kwargs, "device": device})
        if kwargs.get("generator") is not None:
            self._check_generator(kwargs["generator"], device)
        sim.check_worker(device)
        pin = kwargs.pop("pin_memory", False)
        kwargs["device"] = HOST
        with sim.quiet():
            out = func(*args, **kwargs)
        if not isinstance(out, T):
            return out
        self._check_dtype(out.dtype, device)
        source = args[0] if args and isinstance(args[0], T) else None
        host_data = func.__name__ in _FROM_HOST_DATA
        if source is not None and host_data:
            if key_of(out) == key_of(source):
                return out if self._device(source) == device else sim.move(out, device, sim.api, marks=marks)
            if self._device(source) != device:
                sim.report_copy(sim.api, out, sim.places.of(source), device)
        elif host_data and is_accelerator(device):
            sim.report_copy(sim.api, out, Place(HOST), device, waits=False)
        sim.report_creation(sim.api, out, device, reason, host_data, marks)
        if pin:
            sim.places.flag(sim.places.pinned, out)
        return out

    def _settle(self, out: Any, device: torch.device) -> None:
        """What a call hands out lives where the call ran, also if its allocation was only guessed to."""
        for item in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(item, T) and not self._sim.places.of(item).firm:
                self._sim.places.put(item, Place(device))

    def _first_accelerator(self, args: Any, kwargs: dict[str, Any]) -> torch.device | None:
        for value in (*args, *kwargs.values()):
            if isinstance(value, T):
                device = self._device(value)
                if device.type in ACCELERATORS:
                    return device
            elif isinstance(value, (list, tuple)):
                device = self._first_accelerator(value, {})  # type: ignore[assignment]
                if device is not None:
                    return device
        return None

    def _device(self, tensor: torch.Tensor) -> torch.device:
        return self._sim.places.of(tensor).device

    def _check_generator(self, generator: Any, device: torch.device) -> None:
        if generator.device.type != device.type:
            raise errors.generator(device, generator.device)

    def _check_dtype(self, dtype: torch.dtype, device: torch.device) -> None:
        if device.type == "mps" and dtype in (torch.float64, torch.complex128):
            raise errors.mps_float64()

    # Properties and moves.

    def _property(self, name: str) -> Handler:
        if name == "device":
            return lambda f, a, k: self._sim.device_handed_out(a[0])
        kind = name[3:]
        return lambda f, a, k: self._device(a[0]).type == kind

    def _parse_to(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The arguments of `.to`, also as Module.to reads them; an int is an index of the accelerator."""
        resolve = self._sim.devices.resolve
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (resolve(args[0]), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = resolve(kwargs["device"])
        return func(*args, **kwargs)

    def _to(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        tensor, rest = args[0], list(args[1:])
        copy = kwargs.pop("copy", False)
        other = kwargs.pop("other", None) if not rest or not isinstance(rest[0], T) else rest.pop(0)
        names_device = bool(rest) and not isinstance(rest[0], torch.dtype) and other is None
        if len(rest) > (position := 3 if names_device else 2 if other is None else 1):
            copy = rest.pop(position)
        if other is not None:
            non_blocking = kwargs.get("non_blocking", rest[0] if rest else False)
            return self._move(tensor, self._device(other), other.dtype, non_blocking, copy, like=other)
        wanted = rest[0] if names_device else kwargs.get("device")
        device, dtype, non_blocking, layout = self._parse_to(hooks.parse_to, tuple(rest), kwargs)
        return self._move(tensor, wanted if device is not None else None, dtype, non_blocking, copy, layout)

    def _to_backend(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        kind = func.__name__
        device = args[1] if len(args) > 1 else kwargs.get("device")
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        if kind != self._sim.devices.kind:
            raise errors.absent(kind)
        return self._move(args[0], kind if device is None else device, None, non_blocking)

    def _type(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        tensor, wanted = args[0], args[1] if len(args) > 1 else kwargs.get("dtype")
        if wanted is None:
            return errors.type_name(tensor.dtype, self._device(tensor))
        if isinstance(wanted, torch.dtype):
            return self._move(tensor, None, wanted, False)
        kind, dtype = self._sim.read_type(wanted)
        return self._move(tensor, kind, dtype, False)

    def _convert(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return self._move(args[0], None, _FLOATS[func.__name__], False, layout=kwargs.get("memory_format"))

    def _move(
        self,
        tensor: torch.Tensor,
        wanted: Any,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool = False,
        layout: Any = None,
        like: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Move and convert. `wanted`: a device argument or None; `like`: the tensor it was taken from."""
        sim = self._sim
        place = sim.places.of(tensor)
        device = place.device if wanted is None else sim.devices.resolve(wanted) or place.device
        if place.device.type == "meta" or (device != HOST and not is_accelerator(device)):
            return tensor.to(device if device.type == "meta" else HOST, dtype=dtype, copy=copy)
        self._check_dtype(dtype or tensor.dtype, device)
        sim.check_worker(device)
        out = tensor
        if (dtype is not None and dtype != tensor.dtype) or layout is not None:
            extra = {} if layout is None else {"memory_format": layout}
            out = tensor.to(dtype=dtype or tensor.dtype, **extra)
        if device != place.device or (copy and out is tensor):
            marks = sim.places.of(like).marks if like is not None else sim.marks_of_device(wanted)
            out = sim.move(out, device, sim.api, non_blocking=non_blocking, marks=marks)
        sim.report_move(sim.api, place, device, out is tensor, tensor.dtype, out.dtype, non_blocking)
        return out

    # What the host reads.

    def _numpy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        sim, tensor = self._sim, args[0]
        device = self._device(tensor)
        if is_accelerator(device):
            if not kwargs.get("force", False):
                raise errors.to_numpy(device)
            sim.report_copy(sim.api, tensor, sim.places.of(tensor), HOST)
        sim.report_race(sim.api, tensor)
        with sim.quiet():
            return func(*args, **kwargs)

    def _tolist(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._read(args[0])
        with self._sim.quiet():
            return func(*args, **kwargs)

    def _repr(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._read(args[0])
        with self._sim.quiet():
            text = func(*args, **kwargs)
        device = self._device(args[0])
        if not is_accelerator(device):
            return text
        head, sep, tail = text.rpartition(", grad_fn=") if ", grad_fn=" in text else (text[:-1], "", ")")
        return f"{head}, device='{device}'{sep}{tail}"

    def _read(self, tensor: torch.Tensor) -> None:
        place = self._sim.places.of(tensor)
        if is_accelerator(place.device):
            self._sim.report_sync(self._sim.api, [place])
        else:
            self._sim.report_race(self._sim.api, tensor)

    # Calls with rules of their own.

    def _pin_memory(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        sim, tensor = self._sim, args[0]
        device = self._device(tensor)
        if device != HOST:
            raise errors.pinned(tensor.dtype, device)
        if sim.places.flagged(sim.places.pinned, tensor):
            return tensor
        with sim.quiet():
            out = tensor.clone()
        sim.places.put(out, sim.places.of(tensor))
        sim.places.flag(sim.places.pinned, out)
        sim.recorder.add("pin", sim.api)
        return out

    def _new_tensor(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("device") is not None:
            return self._create_on(func, args, kwargs, kwargs["device"], "explicit")
        return self._create_on(func, args, kwargs, self._sim.device_handed_out(args[0]), "template")

    def _set_grad(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if isinstance(args[1], T) and self._device(args[0]) != self._device(args[1]):
            raise errors.grad_elsewhere()
        return func(*args, **kwargs)

    def _one_hot(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
        return self._call(func, args, kwargs) if classes == -1 else self._unwaited(func, args, kwargs)

    def _unwaited(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._sim.unwaited += 1
        try:
            return self._call(func, args, kwargs)
        finally:
            self._sim.unwaited -= 1

    def _ctc_loss(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Lengths may live on the host: the kernel takes them along, so that what is computed with them agrees.

        Those on the device are read by the host first.
        """
        device = self._device(args[0])
        named = {k: v for k, v in kwargs.items() if k.endswith("_lengths") and isinstance(v, T)}
        placed = {i: a for i, a in enumerate(args) if i in (2, 3) and isinstance(a, T)}
        for lengths in (*named.values(), *placed.values()):
            if is_accelerator(self._device(lengths)):
                self._sim.report_sync(self._sim.api, [self._sim.places.of(lengths)])
        moved = tuple(self._taken_along(a, device) if i in placed else a for i, a in enumerate(args))
        kwargs.update({k: self._taken_along(v, device) for k, v in named.items()})
        return self._unwaited(func, moved, kwargs)

    def _taken_along(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        with self._sim.quiet():
            out = tensor.clone()
        self._sim.places.put(out, Place(device))
        return out

    def _pack(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        lengths = args[1] if len(args) > 1 else kwargs["lengths"]
        if is_accelerator(self._device(lengths)):
            raise errors.lengths_on_device(self._device(lengths), lengths.dim())
        return self._call(func, args, kwargs)

    def _attention(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        names = ("query", "key", "value")
        given = [args[i] if i < len(args) else kwargs[names[i]] for i in range(3)]
        self._check_together(names, given, lambda *devices: errors.attention(*devices))
        return self._call(func, args, kwargs)

    def _recurrent(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given = args[0]
        packed = isinstance(args[3], (list, tuple))
        for role, value in (("hidden", args[2 if packed else 1]), ("parameter", args[3 if packed else 2])):
            for tensor in (value,) if isinstance(value, T) else value:
                self._check_together(
                    ("input", role), (given, tensor), lambda a, b, r=role: errors.recurrent(r, a, b)
                )
        return self._call(func, args, kwargs)

    def _check_together(self, names: Any, tensors: Any, error: Callable[..., Exception]) -> None:
        operands = [Operand(n, t, self._sim.places.of(t)) for n, t in zip(names, tensors)]
        devices = [o.place.device for o in operands]
        if len(set(devices)) == 1 or not all(o.place.firm for o in operands):
            return
        raised = error(*devices)
        on_host = [o for o in operands if o.place.device == HOST]
        self._sim.report_mix(self._sim.api, Mixed(str(raised), operands, on_host or operands[1:]))
        if not self._sim.lenient:
            raise raised


@functools.cache
def _creators() -> frozenset[Any]:
    """The functions whose results are born in the call."""
    others = {getattr(torch, name) for name in _OTHER_CREATORS} | {getattr(T, name) for name in _NEW}
    return hooks.factories() | others


@functools.cache
def _passive() -> frozenset[Any]:
    """Properties and methods of tensors that have nothing to do with devices, and change nothing."""
    tensors = ("grad", "data", "real", "imag", "T", "mT", "H", "mH")
    found = {getattr(T, name) for name in _METADATA}
    for name in dir(T):
        attribute: Any = getattr(T, name, None)
        if type(attribute).__name__ in ("getset_descriptor", "property") and name not in tensors:
            found.add(attribute.__get__)
    return frozenset(found)
