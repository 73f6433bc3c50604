"""The modules of an accelerator, `torch.cuda`, `torch.accelerator` and so on, as if one were there."""

from __future__ import annotations

import contextlib
import time
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..words import words
from . import hooks
from .devices import HOST, Devices

if TYPE_CHECKING:
    from .simulator import SimDevice

_MEMORY = 8 << 30
#: Answer a number that only a real device could know.
_ZERO = words(
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached "
    "max_memory_cached "
    "device_memory_used memory_usage utilization temperature power_draw clock_rate current_allocated_memory "
    "driver_allocated_memory get_sync_debug_mode current_blas_handle current_solver_handle"
)
#: Do nothing that could be seen from Python.
_NOTHING = words(
    "init _lazy_init empty_cache ipc_collect manual_seed manual_seed_all seed seed_all set_rng_state "
    "set_rng_state_all "
    "reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated "
    "reset_max_memory_cached "
    "reset_peak_host_memory_stats reset_accumulated_host_memory_stats set_per_process_memory_fraction "
    "set_sync_debug_mode empty_host_cache caching_allocator_enable"
)
_TENSOR_NAMES = words(
    "FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor "
    "ByteTensor BoolTensor"
)


def streams(sim: SimDevice) -> tuple[type, type]:
    """Stream and Event classes: they keep no order, as everything runs at once, but waiting on them is a wait."""

    class Stream:
        """A queue of work."""

        def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
            self.device = torch.device(sim.devices.kind, sim.devices.index_of(device))
            self.priority, self.stream_id, self.device_index = priority, 0, self.device.index
            self._before: list[Any] = []

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *error: Any) -> None:
            return None

        def synchronize(self) -> None:
            sim.report_sync("Stream.synchronize", [])

        def wait_stream(self, stream: Any) -> None:
            return None

        def wait_event(self, event: Any) -> None:
            return None

        def record_event(self, event: Any = None) -> Any:
            event = Event() if event is None else event
            event.record(self)
            return event

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

    class Event:
        """A mark in a queue."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.time: float | None = None

        def record(self, stream: Any = None) -> None:
            self.time = time.perf_counter()

        def wait(self, stream: Any = None) -> None:
            return None

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            sim.report_sync("Event.synchronize", [])

        def elapsed_time(self, end: Any) -> float:
            """Milliseconds of the host: real time of the device is not simulated."""
            if self.time is None or end.time is None:
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            return float((end.time - self.time) * 1e3)

    return Stream, Event


_RealGenerator = torch.Generator


class Generator(torch.Generator):
    """A generator of an accelerator: the CPU's, with the device it was asked for."""

    logical: torch.device = HOST

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.logical


def _generator_class(devices: Devices) -> type:
    class Logical(Generator):
        def __new__(cls, device: Any = "cpu") -> Any:
            generator: Any = _RealGenerator.__new__(cls, device="cpu")  # type: ignore[call-arg]
            generator.logical = devices.resolve(device) or HOST
            return generator

    Logical.__name__ = Logical.__qualname__ = "Generator"
    return Logical


class _Context:
    """`torch.cuda.device(i)`: the current device, for a while."""

    def __init__(self, devices: Devices, device: Any) -> None:
        self._devices, self.idx = devices, devices.index_of(device)

    def __enter__(self) -> _Context:
        self._before, self._devices.current = self._devices.current, self.idx
        return self

    def __exit__(self, *error: Any) -> None:
        self._devices.current = self._before


def _tensor_class(sim: SimDevice, name: str) -> type:
    """`torch.cuda.FloatTensor` and the like: makes tensors, and is asked whether something is one."""
    host_class = getattr(torch, name)
    full = f"torch.{sim.devices.kind}.{name}"

    class Meta(type):
        torch_name = full

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, torch.Tensor) and value.type() == full

        def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
            with sim.quiet():
                tensor: torch.Tensor = host_class(*args, **kwargs)
            device = torch.device(sim.devices.kind, sim.devices.current)
            sim.report_creation(full, tensor, device, "explicit", host_data=True)
            return tensor

    return Meta(name, (), {"__module__": f"torch.{sim.devices.kind}", "torch_name": full})


def _functions(sim: SimDevice) -> dict[str, Any]:
    """What the module of the simulated kind answers, by name; names that it has not are left out later."""
    devices, kind = sim.devices, sim.devices.kind
    stream_class, event_class = streams(sim)
    default_stream = stream_class()
    properties = types.SimpleNamespace(
        name=f"simulated {kind}",
        total_memory=_MEMORY,
        major=8,
        minor=0,
        multi_processor_count=1,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        gcnArchName="",
        is_integrated=0,
    )

    def synchronize(device: Any = None) -> None:
        sim.report_sync(f"torch.{kind}.synchronize", [])

    def set_device(device: Any) -> None:
        devices.current = devices.index_of(device)

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *a, **k: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: devices.count,
        "current_device": lambda: devices.current,
        "current_device_index": lambda: devices.current,
        "current_device_idx": lambda: devices.current,
        "current_accelerator": lambda *a, **k: torch.device(kind),
        "set_device": set_device,
        "set_device_index": set_device,
        "set_device_idx": set_device,
        "device_index": lambda device: _Context(devices, device),
        "device": lambda device: _Context(devices, device),
        "device_of": lambda tensor: _Context(devices, tensor.device if tensor.device.type == kind else None),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (8, 0),
        "get_arch_list": lambda: ["sm_80"],
        "can_device_access_peer": lambda a, b: True,
        "synchronize": synchronize,
        "Stream": stream_class,
        "ExternalStream": stream_class,
        "Event": event_class,
        "stream": lambda stream: contextlib.nullcontext(stream),
        "StreamContext": lambda stream: contextlib.nullcontext(stream),
        "current_stream": lambda device=None: default_stream,
        "default_stream": lambda device=None: default_stream,
        "set_stream": lambda stream: None,
        "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
        "get_memory_info": lambda device=None: (_MEMORY, _MEMORY),
        "recommended_max_memory": lambda: _MEMORY,
        "memory_stats": lambda device=None: OrderedDict(),
        "memory_summary": lambda *a, **k: "",
        "memory_snapshot": lambda *a, **k: [],
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state() for _ in range(devices.count)],
    }
    answers.update(dict.fromkeys(_ZERO, lambda *a, **k: 0))
    answers.update(dict.fromkeys(_NOTHING, lambda *a, **k: None))
    return answers


#: What a backend answers that this machine does not have, and `torch.accelerator` where there is none.
_ABSENT: dict[str, Any] = {"is_available": lambda: False, "device_count": lambda: 0}
_NO_ACCELERATOR: dict[str, Any] = {**_ABSENT, "current_accelerator": lambda *a, **k: None}


@contextlib.contextmanager
def backends(sim: SimDevice) -> Iterator[None]:
    """Patch the backend modules for as long as the simulator runs; index state starts anew."""
    kind = sim.devices.kind
    sim.devices.current = 0
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, answers: dict[str, Any], add: bool = False) -> None:
            for name, answer in answers.items():
                if add or hasattr(owner, name):
                    stack.enter_context(hooks.patched(owner, name, answer))

        for other in ("cuda", "mps", "xpu"):
            module = getattr(torch, other, None)
            if module is not None:
                patch(module, _functions(sim) if other == kind else _ABSENT)
        patch(torch.backends.mps, {"is_available": lambda: kind == "mps", "is_built": lambda: kind == "mps"})
        if kind == "cuda":
            patch(torch.backends.cuda, {"is_built": lambda: True})
            # Recurrent modules ask this of tensors on CUDA before they rearrange their weights for cuDNN.
            patch(torch.backends.cudnn, {"is_acceptable": lambda tensor: False})
            patch(torch.version, {"cuda": torch.version.cuda or "12.4"})
            patch(torch.cuda, {name: _tensor_class(sim, name) for name in _TENSOR_NAMES})
            patch(torch.cuda.nvtx, {n: lambda *a, **k: 0 for n in ("range_push", "range_pop", "mark")})
        accelerator = getattr(torch, "accelerator", None)
        functions = _NO_ACCELERATOR if kind == "none" else _functions(sim)
        if accelerator is not None:
            patch(accelerator, functions)
        if kind != "none":
            patch(torch, {"Stream": functions["Stream"], "Event": functions["Event"]})
            # Its argument would have to be a stream of C++.
            patch(torch.Tensor, {"record_stream": lambda tensor, stream: None})
        patch(torch, {"Generator": _generator_class(sim.devices)})
        patch(torch, {"set_default_tensor_type": _default_type(sim, torch.set_default_tensor_type)})
        patch(torch, {"device": _device_class(sim.devices)})
        stack.enter_context(_restored_defaults())
        yield


def _default_type(sim: SimDevice, original: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_default_tensor_type(wanted: Any) -> None:
        kind, dtype = sim.read_type(wanted)
        if kind == "cpu":
            original(wanted)
            return
        sim.devices.resolve(kind)
        torch.set_default_dtype(dtype)
        torch.set_default_device(kind)

    return set_default_tensor_type


def _device_class(devices: Devices) -> type:
    """`torch.device`, for which a bare index means the simulated accelerator; its values are real devices."""
    real = torch.device

    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, real)

        def __eq__(cls, other: Any) -> bool:
            return other is cls or other is real

        def __hash__(cls) -> int:
            return hash(real)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and not kwargs and isinstance(args[0], int):
                return devices.resolve(args[0])
            return real(*args, **kwargs)

    return Meta("device", (), {"__module__": "torch", "__doc__": real.__doc__})


@contextlib.contextmanager
def _restored_defaults() -> Iterator[None]:
    """A default device or type that the code sets ends with the simulator."""
    dtype = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)
