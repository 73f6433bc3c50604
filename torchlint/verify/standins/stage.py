"""Sets a replay up around the code: unknown names and modules, arguments of the command line, the call to make."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

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
        self.maker.elements_on_device = bool(stage.get("batches_on_device"))
        self.bridge = Bridge(observer, self.maker, files, frozenset(stage.get("lines") or ()))
        self._missing = list(stage.get("missing") or ())

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
            if not type(module).__module__.startswith(("torch.", "torchlint")):
                maker.know(module)

        parser = argparse.ArgumentParser
        try:
            with (
                hooks.patched(parser, "parse_args", _defaults),
                hooks.patched(parser, "parse_known_args", lambda self, *a, **k: (_defaults(self), [])),
                hooks.patched(nn.Module, "__init__", made),
            ):
                yield
        finally:
            for name in self._missing:
                if name in before:
                    sys.modules[name] = before[name]
                else:
                    sys.modules.pop(name, None)

    def namespace(self, tree: ast.AST) -> dict[str, Any]:
        """Names that the code uses and nowhere binds, as unknown values."""
        from ..worker.elastic import unbound

        return {name: Unknown(name, self.maker) for name in unbound(tree)}

    def drive(self, namespace: dict[str, Any]) -> Any:
        """Make one call of the function in question, with stand-ins for what the caller would hand in."""
        stage = self._stage
        target: Any = namespace
        for part in stage["call"]:
            if target is namespace:
                found = namespace[part]
            else:
                found = getattr(target, part)
            if isinstance(found, type) and part != stage["call"][-1]:
                found = self._instance(found, stage.get("init") or ())
            target = found
        grad = torch.no_grad() if stage.get("no_grad") else contextlib.nullcontext()
        args, kwargs = self._arguments(stage.get("parameters") or ())
        with grad:
            result = target(*args, **kwargs)
            if isinstance(result, types.GeneratorType):
                for _ in zip(range(50), result):  # noqa: B905
                    pass
            return result

    def _arguments(self, parameters: Sequence[Sequence[Any]]) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        # Modules first: tensors are shaped for them, and optimizers are built over their parameters.
        order = {"module": 0, "host_module": 0, "parameters": 1}
        made: dict[str, Any] = {}
        for name, kind, _, detail in sorted(parameters, key=lambda p: order.get(p[1], 2)):
            made[name] = self.maker.make(name, kind, detail)
        for name, _, how, _ in parameters:
            if how == "keyword":
                kwargs[name] = made[name]
            else:
                args.append(made[name])
        return args, kwargs

    def _instance(self, cls: Any, parameters: Sequence[Sequence[Any]]) -> Any:
        """An object of the class that the method belongs to; a module is taken to be on the accelerator."""
        args, kwargs = self._arguments(parameters)
        made = cls(*args, **kwargs)
        if isinstance(made, nn.Module):
            self.maker.know(made)
            self.maker.note(f"the caller has moved the `{cls.__name__}` to the accelerator")
            made.to(self.maker._mark(torch.device(self.maker._kind), f"{CALLER}{cls.__name__}"))
        if isinstance(made, torch.optim.Optimizer):
            for group in made.param_groups:
                for p in group["params"]:
                    p.grad = self.maker._mark(torch.ones_like(p), f"{CALLER}gradients")
        return made


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
        return 2 if action.type in (int, float) else "stand-in" if action.required or not action.option_strings else None
    if isinstance(value, str) and callable(action.type):
        with contextlib.suppress(Exception):
            return action.type(value)
    return value
