"""Reads an installed torch and writes what torchlint needs to know of it: `python -m tools.torch_api`.

The facts go to `torchlint/placement/knowledge/torch_api.json`, sorted and stamped with the version they were read from.
What torch can't tell is written by hand in `tools/torch_by_hand.py`, each with its source.
"""

from __future__ import annotations

import argparse
import inspect
import json
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.utils.rnn
import torch.overrides
import torch.signal.windows
import torch.utils.data
from torch.utils._device import _device_constructors

from tools import torch_by_hand, torch_probe, torch_signatures
from tools.torch_signatures import Signature
from torchlint.placement.knowledge import torch_api

OUTPUT = Path(__file__).parent.parent / "torchlint" / "placement" / "knowledge" / "torch_api.json"
_STUBS = Path(torch.__file__).parent / "_C"
_NAMESPACES: dict[str, types.ModuleType] = {
    "torch": torch,
    "torch.autograd": torch.autograd,
    "torch.fft": torch.fft,
    "torch.linalg": torch.linalg,
    "torch.nested": torch.nested,
    "torch.nn.functional": torch.nn.functional,
    "torch.nn.init": torch.nn.init,
    "torch.nn.utils": torch.nn.utils,
    "torch.nn.utils.rnn": torch.nn.utils.rnn,
    "torch.random": torch.random,
    "torch.signal.windows": torch.signal.windows,
    "torch.sparse": torch.sparse,
    "torch.special": torch.special,
}
# Kernels of single backends, and torch's own plumbing, that user code does not call.
_INTERNAL = (
    "batch_norm_", "choose_qparams", "cudnn_", "fbgemm_", "fused_moving", "import_ir", "merge_type",
    "miopen_", "mkldnn_", "parse_", "profiler_allow", "quantized_", "sym_", "unify_type", "init_num",
    "fork", "wait", "autocast_", "set_autocast_", "prepare_multiprocessing", "has_torch", "handle_torch",
    "boolean_dispatch", "assert_int", "get_file_path", "native_", "empty_quantized", "row_indices_copy",
    "select_scatter_", "slice_inverse",
)  # fmt: skip
_CLASS_NAMESPACES = (
    "torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.utils.data", "torch.distributions",
    "torch.amp", "torch.optim.swa_utils", "torch.nn.utils.rnn", "torch.nn.parallel", "torch",
)  # fmt: skip
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
    "rshift",
)  # fmt: skip
_OTHER_DUNDERS = (
    "neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "float", "complex",
    "index", "len", "contains",
)  # fmt: skip
_DUNDERS = (
    *(f"__{prefix}{name}__" for name in _BINARY for prefix in ("", "r", "i")),
    *(f"__{name}__" for name in _OTHER_DUNDERS),
)


def functions() -> dict[str, list[Signature]]:
    """Public functions of torch by canonical name, with their signatures."""
    stubs = torch_signatures.from_stub(_STUBS / "_VariableFunctions.pyi")
    native_nn = torch_signatures.from_stub(_STUBS / "_nn.pyi")
    found: dict[str, list[Signature]] = {}
    for prefix, module in _NAMESPACES.items():
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith(("_", *_INTERNAL)) or not _is_function(value) or not _belongs(value, prefix):
                continue
            qualified = f"{prefix}.{name}"
            stub = (
                stubs.get(name)
                if prefix == "torch"
                else native_nn.get(name)
                if prefix.endswith("functional")
                else None
            )
            found[qualified] = _signatures_of(qualified, value, stub, stubs)
    extra = {n: torch_signatures.read(text) for n, text in torch_by_hand.EXTRA_FUNCTIONS.items()}
    return {name: signatures for name, signatures in sorted((found | extra).items()) if signatures}


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) and not inspect.isclass(value)


def _belongs(value: Any, prefix: str) -> bool:
    """Whether a callable is torch's own, and not a helper that a namespace happens to import."""
    module = getattr(value, "__module__", None) or "torch"
    if not module.startswith("torch") or module.startswith(
        ("torch.overrides", "torch._jit_internal", "torch._utils")
    ):
        return getattr(value, "__name__", "") in ("fn",) and prefix.endswith("functional")
    if prefix in ("torch.nn.init", "torch.nn.utils", "torch.nn.utils.rnn", "torch.autograd"):
        return module.startswith(prefix)
    return True


def _signatures_of(
    qualified: str, value: Any, stub: list[Signature] | None, stubs: Mapping[str, list[Signature]]
) -> list[Signature]:
    if qualified in torch_signatures.UNANNOTATED:
        return torch_signatures.read(torch_signatures.UNANNOTATED[qualified])
    name = qualified.rpartition(".")[2]
    if stub and not inspect.isfunction(value):
        return torch_signatures.merge(stub)
    if inspect.isfunction(value):
        with_indices = getattr(torch.nn.functional, f"{name}_with_indices", None)
        if qualified.startswith("torch.nn.functional.") and with_indices is not None:
            # `boolean_dispatch` hides two functions behind one: a flag decides whether indices come back.
            plain = torch_signatures.from_python(getattr(torch.nn.functional, f"_{name}"))
            both = torch_signatures.from_python(with_indices)
            return torch_signatures.with_flag(plain, both, "return_indices")
        signature = torch_signatures.from_python(value)
        return [] if signature is None else [signature]
    native = value.__name__
    if native in stubs:
        return torch_signatures.merge(stubs[native])
    return torch_signatures.merge(torch_signatures.from_schemas(native))


def methods() -> dict[str, list[Signature]]:
    """Public methods of Tensor by name, operators included, with their signatures (the receiver left out)."""
    stubs = torch_signatures.from_stub(_STUBS / "__init__.pyi", "TensorBase")
    found: dict[str, list[Signature]] = {}
    for name in dir(torch.Tensor):
        value = inspect.getattr_static(torch.Tensor, name)
        public = (
            not name.startswith("_") or name in _DUNDERS or f"Tensor.{name}" in torch_signatures.UNANNOTATED
        )
        if not public or not callable(getattr(torch.Tensor, name)):
            continue
        if f"Tensor.{name}" in torch_signatures.UNANNOTATED:
            found[name] = torch_signatures.read(torch_signatures.UNANNOTATED[f"Tensor.{name}"])
        elif torch_by_hand.MOVES.get(name) == "dtype":
            found[name] = torch_signatures.read("*memory_format:X=>T")
        elif name in stubs:
            found[name] = torch_signatures.merge(stubs[name])
        else:
            python = torch_signatures.from_python(value, method=True)
            found[name] = (
                [python]
                if python
                else torch_signatures.merge(torch_signatures.from_schemas(name, method=True))
            )
    return {name: signatures for name, signatures in sorted(found.items()) if signatures}


def attributes() -> dict[str, str]:
    """Attributes of Tensor that are no methods, with the result letter of reading one."""
    leaf = torch.ones(2, 2, dtype=torch.complex64, requires_grad=True)
    leaf.grad = torch.ones(2, 2, dtype=torch.complex64)
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(torch.Tensor):
            if name.startswith("_") or callable(getattr(torch.Tensor, name)):
                continue
            try:
                value = getattr(leaf, name)
            except (RuntimeError, AttributeError):
                value = None
            found[name] = "T" if isinstance(value, torch.Tensor) else "X" if name == "grad_fn" else "H"
    return found


def classes() -> dict[str, type]:
    """Public classes of torch that user code builds, by canonical name."""
    found: dict[str, type] = {}
    for prefix in _CLASS_NAMESPACES:
        module = _module(prefix)
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not inspect.isclass(value) or not value.__module__.startswith(prefix):
                continue
            if prefix == "torch" and not issubclass(value, (torch.nn.Module, torch.Generator)):
                continue
            if value not in found.values():
                found[f"{prefix}.{name}"] = value
    return found


def _module(name: str) -> types.ModuleType:
    __import__(name)
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    assert isinstance(found, types.ModuleType)
    return found


def _class_text(value: type) -> str:
    """Constructor signature, and for modules `;` and the signature of `forward`."""
    init = torch_signatures.from_python(value.__init__, method=True)  # type: ignore[misc]
    text = torch_signatures.write(
        [(init[0] if init else (), "M" if issubclass(value, torch.nn.Module) else "X")]
    )
    if issubclass(value, torch.nn.Module):
        forward = torch_signatures.from_python(value.forward, method=True)
        if forward is not None and value.forward is not torch.nn.Module.forward:
            text += ";" + torch_signatures.write([forward])
    return text


def _names(found: Iterable[str]) -> list[str]:
    return sorted(set(found))


def _with_parameter(table: Mapping[str, list[Signature]], kind: str) -> Iterator[str]:
    for name, signatures in table.items():
        if any(p.kind == kind and p.name == "device" for parameters, _ in signatures for p in parameters):
            yield name


def _constructors() -> set[str]:
    """Names of the functions that torch itself says obey the default device."""
    resolved = {torch.overrides.resolve_name(f) for f in _device_constructors()}
    return {str(name).replace("torch._C._", "torch.") for name in resolved if name} & set(functions())


def collect() -> dict[str, Any]:
    """Everything that goes into the data file."""
    by_function, by_method, by_class = functions(), methods(), classes()
    tensor_data = attributes()
    module_classes = {n: c for n, c in by_class.items() if issubclass(c, torch.nn.Module)}
    scheduler = torch.optim.lr_scheduler.LRScheduler
    constructors = (
        _constructors() | torch_probe.obeying_default_device(by_function) | set(_device_only(by_function))
    )
    probed_functions = torch_probe.probe_functions(by_function)
    probed_methods = torch_probe.probe_methods(by_method)
    sets: dict[str, Iterable[str]] = {
        "creates": constructors | set(torch_by_hand.CREATES_ON_HOST),
        "ignores_default_device": torch_by_hand.CREATES_ON_HOST,
        "accepts_device": {
            *_with_parameter(by_function, "D"),
            *(n for n, c in by_class.items() if _takes_device(c)),
        },
        "random": probed_functions.random | set(torch_by_hand.RANDOM),
        "random_methods": probed_methods.random,
        "syncs": probed_functions.syncs | set(torch_by_hand.SYNCS),
        "explicit_sync_methods": torch_by_hand.EXPLICIT_SYNC_METHODS,
        "hidden_sync_methods": (
            probed_methods.syncs
            | {*torch_by_hand.HIDDEN_SYNC_METHODS, *torch_by_hand.CONVERSION_SYNC_METHODS}
        ).difference(torch_by_hand.EXPLICIT_SYNC_METHODS),
        "follows_data": set(torch_by_hand.FOLLOWS_DATA) & set(by_function),
        "follows_receiver": set(torch_by_hand.FOLLOWS_RECEIVER) & set(by_method),
        "in_place": {n for n in by_method if _is_in_place(n)},
        "modules": module_classes,
        "losses": {n for n, c in module_classes.items() if _is_loss(n, c)},
        "optimizers": {n for n, c in by_class.items() if issubclass(c, torch.optim.Optimizer)},
        "schedulers": {
            n
            for n, c in by_class.items()
            if issubclass(c, (scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau))
        },
        "other_tensor_attributes": _public(dir(torch.Tensor)).difference(by_method, tensor_data),
        "own_module_attributes": _public([*dir(torch.nn.Module), *vars(torch.nn.Module())]),
    }
    return {
        "torch": torch.__version__.partition("+")[0],
        "functions": {
            n: torch_signatures.write(s, _flags(n, probed_functions)) for n, s in by_function.items()
        },
        "methods": {n: torch_signatures.write(s, _flags(n, probed_methods)) for n, s in by_method.items()},
        "attributes": tensor_data,
        "classes": {n: _class_text(c) for n, c in by_class.items()},
        "vendor": torch_probe.vendor_calls(),
        "sets": {n: _names(v) for n, v in sets.items()},
        "maps": {
            "cpu_allowed": torch_by_hand.CPU_ALLOWED,
            "follows_template": _templates(by_function),
            "moves": torch_by_hand.MOVES,
            "on_cpu": torch_by_hand.ON_CPU,
            "sync_unless": torch_by_hand.SYNC_UNLESS,
        },
    }


def _device_only(table: Mapping[str, list[Signature]]) -> Iterator[str]:
    """Functions that return a tensor, take a device and no tensor."""
    for name, signatures in table.items():
        tensors = any(p.kind in "TL" for parameters, _ in signatures for p in parameters)
        results = {result for _, result in signatures}
        if (
            not tensors
            and results == {"T"}
            and name in set(_with_parameter(table, "D"))
            and "dlpack" not in name
        ):
            yield name


def _templates(table: Mapping[str, list[Signature]]) -> dict[str, int]:
    """Functions that take a device, and a tensor first: they create beside it."""
    likes = (n for n in _with_parameter(table, "D") if n.endswith("_like"))
    return {n: 0 for n in likes if table[n][0][0][0].kind == "T"}


def _flags(name: str, probed: torch_probe.Probed) -> list[str]:
    """What calls showed of each overload; losses give a 0-dim tensor by default, whatever they get."""
    function = getattr(torch.nn.functional, name.rpartition(".")[2], None)
    if name.startswith("torch.nn.functional.") and inspect.isfunction(function):
        reduction = inspect.signature(function).parameters.get("reduction")
        if reduction is not None and reduction.default in ("mean", "batchmean"):
            return ["z"]
    return probed.flags[name]


def _public(names: Iterable[str]) -> set[str]:
    """Public names and special methods, but for what every class has; that differs between Pythons."""
    general = {*dir(type("Empty", (), {})), *torch_api.OF_EVERY_OBJECT}
    return {n for n in names if (not n.startswith("_") or n.startswith("__")) and n not in general}


def _takes_device(value: type) -> bool:
    init = torch_signatures.from_python(value.__init__, method=True)  # type: ignore[misc]
    return init is not None and any(p.name == "device" for p in init[0])


def _is_in_place(name: str) -> bool:
    if name.startswith("__"):
        return (
            name.startswith("__i")
            and f"__{name[3:]}" in _DUNDERS
            and name not in ("__int__", "__invert__", "__index__")
        )
    return name.endswith("_")


def _is_loss(name: str, value: type) -> bool:
    from torch.nn.modules import loss

    return issubclass(value, loss._Loss) or (value.__module__ == loss.__name__ and name.endswith("Loss"))


def write(facts: Mapping[str, Any]) -> str:
    """The text of the data file: one fact a line, sorted, so that a new torch shows as a small diff."""
    lines = ["{"]
    for place, (key, value) in enumerate(facts.items()):
        comma = "," if place < len(facts) - 1 else ""
        if isinstance(value, dict):
            inner = ",\n".join(
                f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in sorted(value.items())
            )
            lines.append(f"{json.dumps(key)}:{{\n{inner}\n}}{comma}")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value)}{comma}")
    return "\n".join([*lines, "}"]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the data file, or with `--check` say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(arguments)
    text = write(collect())
    if options.check:
        same = OUTPUT.exists() and OUTPUT.read_text() == text
        print(f"{OUTPUT.name} {'is up to date' if same else 'differs from the installed torch'}")
        return 0 if same else 1
    OUTPUT.write_text(text)
    print(f"{OUTPUT.name}: {len(text)} bytes, from torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
