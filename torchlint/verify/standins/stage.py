"""Sets a replay up around the code: unknown names and modules, arguments of the command line, the call to make."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ..guard.policy import FRAMEWORKS
from ..simdevice import hooks
from .bridge import Bridge
from .makers import CALLER, Maker
from .unknown import Unknown


class StandInModuleType(types.ModuleType):
    """A module that is not to be had: every name in it is unknown."""

    maker: Maker

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self.__name__}.{name}", self.maker)


class Stage:
    """What a request's `stage` asks for; see `worker/__init__.py`."""

    def __init__(self, stage: Mapping[str, Any], observer: Any, kind: str, files: frozenset[str]) -> None:
        self._stage = stage
        self.maker = Maker(observer, kind)
        #: What became of the module that the code defines, once it was moved: see `_state`.
        self.state: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        self.called = 0
        self.maker.elements_on_device = bool(stage.get("batches_on_device"))
        self.bridge = Bridge(observer, self.maker, files, frozenset(stage.get("lines") or ()))
        self._observer = observer
        self._missing = [name for name in stage.get("missing") or () if not _is_at_hand(name)]

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        """While the code runs: missing modules can be imported, command lines give their defaults."""
        before = dict(sys.modules)
        for name in self._missing:
            module = StandInModuleType(name)
            module.__path__ = []
            module.maker = self.maker
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent and parent in sys.modules:
                setattr(sys.modules[parent], child, module)
        for name in self._missing:
            self.maker.note(f"`{name}` is not imported; what it gives is unknown")
        init = nn.Module.__init__
        maker = self.maker

        def made(module: Any, *args: Any, **kwargs: Any) -> None:
            init(module, *args, **kwargs)
            maker.know(module)

        parser = argparse.ArgumentParser
        try:
            with (
                hooks.patched(parser, "parse_args", lambda p, *a, **k: self._command_line(p)),
                hooks.patched(parser, "parse_known_args", lambda p, *a, **k: (self._command_line(p), [])),
                hooks.patched(nn.Module, "__init__", made),
            ):
                yield
        finally:
            for name in self._missing:
                if name in before:
                    sys.modules[name] = before[name]
                else:
                    sys.modules.pop(name, None)

    def namespace(self, tree: ast.Module) -> dict[str, Any]:
        """Names that the code uses and may not have bound, as unknown values."""
        from ..worker.elastic import perhaps_unbound, unbound

        return {name: Unknown(name, self.maker) for name in [*unbound(tree), *perhaps_unbound(tree)]}

    def _command_line(self, parser: Any) -> Any:
        """The defaults of a command line; where one is missing, a word that the code compares it with."""
        found = _defaults(parser)
        for name, word in (self._stage.get("words") or {}).items():
            if vars(found).get(name) in (None, "stand-in"):
                setattr(found, name, word)
                self.maker.note(f"the command line says {word!r} for `{name}`")
        return found

    def calls(self, namespace: dict[str, Any]) -> None:
        """Make all the calls that were asked for."""
        stage = self._stage
        if not stage.get("call"):
            return
        for number in range(int(stage.get("calls", 1))):
            if stage.get("count"):
                self._observer.recorder.iteration = number + 1
            self.called = number + 1
            result = self.drive(namespace)
            devices = {str(self._observer.places.device(t)) for t in _tensors(result)}
            self.state = {**self.state, "returned": sorted(devices)}

    def drive(self, namespace: dict[str, Any]) -> Any:
        """Make one call of the function in question, with stand-ins for what the caller would hand in."""
        stage = self._stage
        target: Any = namespace
        for part in stage["call"]:
            if part == "__init__":
                return None
            found = namespace[part] if target is namespace else getattr(target, part)
            if isinstance(found, type) and part != stage["call"][-1]:
                found = self._instance(found, stage.get("init") or ())
            if getattr(found, "__unittest_skip__", False):
                self.maker.note(f"`{part}` is skipped here, as unittest would")
                return None
            target = found
        grad = torch.no_grad() if stage.get("no_grad") else contextlib.nullcontext()
        args, kwargs = self._arguments(stage.get("parameters") or ())
        with grad:
            result = target(*args, **kwargs)
            if isinstance(result, types.GeneratorType):
                for _ in zip(range(50), result):
                    pass
            return result

    def _arguments(self, parameters: Sequence[Sequence[Any]]) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        # Modules first: tensors are shaped for them, and optimizers are built over their parameters.
        order = {"module": 0, "host_module": 0, "parameters": 1}
        made: dict[str, Any] = {}
        for name, kind, _, detail in sorted(parameters, key=lambda p: order.get(p[1], 2)):
            # Tensors are new in each call, as batches are; all else the caller keeps.
            if name not in self._kept or kind in _FRESH:
                self._kept[name] = self.maker.make(name, kind, detail)
            made[name] = self._kept[name]
        for name, _, how, _ in parameters:
            if how == "keyword":
                kwargs[name] = made[name]
            else:
                args.append(made[name])
        return args, kwargs

    def _state(self, module: nn.Module) -> dict[str, Any]:
        """Where the attributes of a module are: registered ones by name, all others with their devices."""
        places = self._observer.places
        registered = {name.partition(".")[0] for name in module.state_dict()} | set(module._modules)
        held = {
            name: sorted({str(places.device(t)) for t in found})
            for name, value in vars(module).items()
            if not name.startswith("_") or name not in vars(nn.Module())
            if (found := _tensors(value)) and name not in registered
        }
        devices = sorted({str(places.device(t)) for t in [*module.parameters(), *module.buffers()]})
        return {"registered": sorted(registered), "held": held, "devices": devices}

    def _is_spread(self, module: nn.Module) -> bool:
        """Whether the parameters of a module are on several accelerators."""
        devices = {self._observer.places.device(p) for p in module.parameters()}
        return len({d for d in devices if d.type != "cpu"}) > 1

    def _instance(self, cls: Any, parameters: Sequence[Sequence[Any]]) -> Any:
        """An object of the class that the method belongs to; a module is taken to be on the accelerator.

        One whose constructor spreads it over accelerators is left as it is: to move it would undo that.
        """
        if cls.__qualname__ in self._kept:
            return self._kept[cls.__qualname__]
        args, kwargs = self._arguments(parameters)
        self._kept[cls.__qualname__] = made = cls(*args, **kwargs)
        if isinstance(made, nn.Module):
            self.maker.know(made)
            if self._is_spread(made):
                self.state = self._state(made)
                return made
            self.maker.note(f"the caller has moved the `{cls.__name__}` to the accelerator")
            made.to(self.maker._mark(torch.device(self.maker.kind), f"{CALLER}{cls.__name__}"))
            self.state = self._state(made)
        if isinstance(made, torch.optim.Optimizer):
            for group in made.param_groups:
                for p in group["params"]:
                    p.grad = self.maker._mark(torch.ones_like(p), f"{CALLER}gradients")
        return made


def _tensors(value: Any, depth: int = 0) -> list[torch.Tensor]:
    """The tensors in a container, and the parameters of modules in it."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, nn.Module):
        return list(value.parameters())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth < 3:
        return [t for part in value[:8] for t in _tensors(part, depth + 1)]
    return []


def _is_at_hand(name: str) -> bool:
    """Whether a third-party module is harmless and installed."""
    top = name.partition(".")[0]
    return top in FRAMEWORKS and importlib.util.find_spec(top) is not None


_FRESH = ("tensor", "host_tensor", "tensors", "mapping", "array")
_ACCELERATED = re.compile(r"cuda|gpu|accel|mps", re.IGNORECASE)


class Arguments(argparse.Namespace):
    """What a command line without arguments gives; what the parser does not name is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _defaults(parser: Any, *args: Any, **kwargs: Any) -> Any:
    """The defaults of a command line; something of the right type where an argument has none."""
    found: dict[str, Any] = dict(parser._defaults)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                found = {**vars(_defaults(sub)), **found}
            found[str(action.dest)] = next(iter(action.choices), None)
        elif action.dest not in ("help", "version", argparse.SUPPRESS):
            found[action.dest] = _default(action)
    return Arguments(**found)


def _default(action: Any) -> Any:
    if isinstance(action, argparse._StoreTrueAction):
        return bool(_ACCELERATED.search(action.dest)) and not re.match(r"no", action.dest)
    value = action.default
    if value is None or value is argparse.SUPPRESS:
        if action.choices:
            return next(iter(action.choices))
        return (
            2
            if action.type in (int, float)
            else "stand-in"
            if action.required or not action.option_strings
            else None
        )
    if isinstance(value, str) and callable(action.type):
        with contextlib.suppress(Exception):
            return action.type(value)
    return value
